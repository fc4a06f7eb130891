// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The records of the logs that a follower has read and does not show yet.
//
// They are kept as they are while they are few. Then they can still be added to
// the memtables that readers have, if it turns out that nothing else is new.
// Many of them go to new memtables at once, which become visible with the next
// SuperVersions.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/follower/manifest_view.h"
#include "db/memtable/memtable.h"
#include "db/wal/prepared_set.h"
#include "db/write/write_batch_internal.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: owned by one thread, but for `prepared`: see Replay.
class StagedUpdates {
 public:
  // The new memtables of a family, oldest first.
  using MemTables = std::map<uint32_t, std::vector<MemTable*>>;

  StagedUpdates() = default;
  StagedUpdates(const StagedUpdates&) = delete;
  StagedUpdates& operator=(const StagedUpdates&) = delete;
  ~StagedUpdates();  // Releases the memtables that are still here.

  // Adds a record that CheckRecord has accepted. `prepared` are the sections
  // before the first record; `view` has all families of the record.
  Status Add(const Slice& record, uint64_t log, const ManifestView& view,
             const PreparedSet& prepared);
  // Adds all of them to new memtables. Later ones will be, too.
  Status MoveToMemTables(const ManifestView& view, const PreparedSet& prepared);

  bool empty() const { return records_.empty() && !in_memtables_; }
  bool in_memtables() const { return in_memtables_; }
  // Returns the records' only log, or 0 if there are several, or none.
  uint64_t OnlyLog() const;
  // Returns the sequence number of the last update in a memtable, or 0.
  SequenceNumber last_sequence() const { return last_sequence_; }
  // Adds the records to the families' current memtables. REQUIRES: they are in
  // no memtable, and the caller alone changes *prepared.
  Status AddToCurrent(const ManifestView& view, PreparedSet* prepared);
  // The caller takes over the memtables.
  MemTables TakeMemTables() { return std::exchange(memtables_, {}); }
  // The sections after the last record. REQUIRES: in_memtables().
  PreparedSet* prepared() { return &*prepared_; }

 private:
  struct Record {
    size_t begin;
    size_t size;
    uint64_t log;
  };

  Status AddToNew(const Slice& record, uint64_t log, const ManifestView& view);

  std::string bytes_;
  std::vector<Record> records_;
  bool in_memtables_ = false;
  MemTables memtables_;
  std::optional<PreparedSet> prepared_;
  SequenceNumber last_sequence_ = 0;
};

// Returns Corruption or NotSupported if a record of that log cannot be applied.
// Sets *updates to whether it has an update, or a mark, of a live family.
Status CheckRecord(const Slice& record, uint64_t log, const ManifestView& view,
                   bool* updates);

}  // namespace varve
