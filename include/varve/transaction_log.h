// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The updates of a database in their order, as RocksDB's GetUpdatesSince gives
// them. docs/streams.md explains how to use it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

// A batch of the log.
struct BatchResult {
  // The sequence number of its first update. The next update has the next
  // number.
  uint64_t sequence = 0;
  // Not null. It can be written to another database whose column families have
  // the same ids.
  std::unique_ptr<WriteBatch> writeBatchPtr;
};

// Updates that the stream does not have.
struct TransactionLogGap {
  enum class Kind : uint8_t {
    kNone,      // There is no gap.
    kIngested,  // Tables from outside were added; `files` names them.
    kRemoved,   // DeleteFilesInRanges removed the tables that `files` names.
    kUnlogged,  // No log has them. They were written with disable_wal, or lost.
    kGone,      // Logs that had them were removed.
    kDamaged,   // A log that had them is damaged.
  };
  // A table.
  struct File {
    // Of its column family.
    uint32_t column_family_id = 0;
    // In the database's directory, with a slash in front. A compaction may have
    // removed it since.
    std::string name;
    // The path that the program gave; empty if it was not its file.
    std::string external_path;
  };

  // Why they are missing.
  Kind kind = Kind::kNone;
  // The first and the last missing sequence number.
  uint64_t first = 0;
  uint64_t last = 0;
  std::vector<File> files;
};

// Reads the batches of a database's logs in their order: no batch is left out,
// given twice or given in part. A batch is what was written to the log
// together: a commit of several writers is one. It is in one of three states:
//
// - Valid() is true: GetBatch returns the batch.
// - Valid() is false and status() is OK: there are no further updates now.
//   Next, or Wait, goes on when something was written.
// - Valid() is false and status() is an error. After an error with a gap
//   (GetGap returns true), Next goes on after the missing updates. Otherwise
//   Next tries again.
//
// A transaction that was prepared is there at its commit, as one batch with the
// commit's sequence number. Updates that were written with disable_wal and
// tables from outside have sequence numbers and are in no log: they are gaps
// with the status Incomplete. Updates of logs that were removed are gaps with
// NotFound, damaged ones with Corruption. Batches without updates are left out.
//
// Thread-safety: owned by one thread at a time. Other threads may use the
// database. Lifetime: it must be destroyed before the database is closed.
class VARVE_EXPORT TransactionLogIterator {
 public:
  // RocksDB's options of an iterator.
  struct ReadOptions {
    // No effect: checksums are always verified.
    bool verify_checksums_ = true;
  };

  TransactionLogIterator() = default;
  TransactionLogIterator(const TransactionLogIterator&) = delete;
  TransactionLogIterator& operator=(const TransactionLogIterator&) = delete;
  virtual ~TransactionLogIterator() = default;

  // Returns true if there is a batch.
  virtual bool Valid() = 0;
  // Moves to the next batch, or to the next state as above.
  virtual void Next() = 0;
  // Returns OK, or why there is no batch.
  virtual Status status() = 0;
  // Returns a copy of the batch. REQUIRES: Valid().
  virtual BatchResult GetBatch() = 0;

  // If there are no further updates, waits for the next write and does Next.
  // Returns Valid(), and false after `timeout_us` microseconds (UINT64_MAX: no
  // limit). The status is ShutdownInProgress if the database ends its
  // background work. In the other states, returns at once. A write is not
  // delayed by this, except that it wakes the thread.
  virtual bool Wait(uint64_t timeout_us) = 0;
  // Stores the gap at which the iterator is, and returns whether there is one.
  virtual bool GetGap(TransactionLogGap* gap) = 0;
};

}  // namespace varve
