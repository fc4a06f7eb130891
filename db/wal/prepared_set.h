// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The prepared sections of a database: the updates of transactions that were
// prepared, and neither committed nor rolled back. They are in logs and in no
// memtable.
//
// A section holds its log, so that recovery finds the section. After the commit
// it is held as long as the log that has the commit's mark. Otherwise recovery
// would find the mark alone, and the commit's updates would be missing if they
// are in no table yet.
//
// Recovery replays all logs from the first one that is held. Of logs before a
// family's own, it takes the marks alone. So when the MANIFEST says that tables
// have the updates of later logs, the logs that are held must be durable first,
// and those between: a section must not come back without the mark of its end.
//
// A section moves to the newest log by a copy: a record that ends the
// transaction of that name by a rollback and prepares it anew. Recovery, and
// RocksDB's, may find the section, its copy, or both.
//
// Thread-safety: sections are changed by the leader of the write queue with the
// DB mutex held, so either of the two suffices to read them. Logs that are
// held for commits require the mutex.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/write/write_batch_internal.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

// A prepared transaction.
struct PreparedSection {
  std::string name;    // Any bytes.
  WriteBatch updates;  // With the families of the updates counted.
};

// Sets *updates to the batch of a section in a log: of its records, with
// `count` updates. Calls check(record) for each update. Returns its first
// error, or the records'.
Status ReadSection(const Slice& records, uint32_t count,
                   const std::function<Status(const BatchRecord&)>& check,
                   WriteBatch* updates);
// Does so without a check.
inline Status ReadSection(const Slice& records, uint32_t count,
                          WriteBatch* updates) {
  return ReadSection(
      records, count, [](const BatchRecord&) { return Status::OK(); }, updates);
}

// The records of a log about a prepared transaction, as the parts of one
// record. The slices point into this object, and into the arguments.
class PreparedRecord {
 public:
  // Prepares the updates. `moves`: as a copy, which replaces a section of that
  // name.
  static PreparedRecord OfPrepare(const Slice& name, const WriteBatch& updates,
                                  SequenceNumber sequence, bool moves);
  // `first`: updates that the commit applies before the prepared ones, or null.
  static PreparedRecord OfCommit(const Slice& name, const WriteBatch* first,
                                 SequenceNumber sequence);
  static PreparedRecord OfRollback(const Slice& name, SequenceNumber sequence);

  std::vector<Slice> Parts() const { return {before_, updates_, after_}; }
  size_t size() const {
    return before_.size() + updates_.size() + after_.size();
  }

 private:
  std::string before_;  // The header, and the marks before the updates.
  Slice updates_;
  std::string after_;
};

class PreparedSet {
 public:
  struct Held {
    PreparedSection section;
    uint64_t log = 0;
  };
  using Sections = std::map<std::string, std::shared_ptr<Held>, std::less<>>;

  const Sections& sections() const { return sections_; }
  bool empty() const { return sections_.empty(); }
  // Returns null if there is none of that name.
  std::shared_ptr<Held> Find(const Slice& name) const;

  // Adds a section, in place of one of the same name.
  void Add(PreparedSection section, uint64_t log);
  // Removes the section, if there is one. `commit_log` has the commit's mark; 0
  // if the transaction was rolled back.
  void End(const Slice& name, uint64_t commit_log);
  // Returns the first log that is needed, if the column families need logs from
  // `first_log` on.
  uint64_t FirstLog(uint64_t first_log) const;
  // Forgets commits in logs before `first_log`.
  void Forget(uint64_t first_log);

  // Appends a copy of each section to a log, by append(parts) of a record.
  // `sequence` is the next update's. REQUIRES: leadership.
  template <typename Append>
  Status CopyTo(SequenceNumber sequence, Append append) const {
    Status status;
    for (const auto& [name, held] : sections_) {
      if (!status.ok()) break;
      status = append(PreparedRecord::OfPrepare(name, held->section.updates,
                                                sequence, /*moves=*/true)
                          .Parts());
    }
    return status;
  }
  // Records that the newest log, of that number, has durable copies of all
  // sections.
  void SetLog(uint64_t log);
  // Returns the bytes that CopyTo appends.
  uint64_t CopyBytes() const;

 private:
  Sections sections_;
  // For each commit the log of its section, and the log of its mark.
  std::vector<std::pair<uint64_t, uint64_t>> commits_;
};

}  // namespace varve
