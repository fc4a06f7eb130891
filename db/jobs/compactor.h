// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs compactions: those that are due, and the steps of a manual one. Lets
// compactions pause while the device is full. Thread-safety: functions called
// ...Locked require the DB mutex, and may release it and reacquire it.

#include <cstdint>
#include <set>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_policy.h"
#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "varve/options.h"

namespace varve {

struct DbCore;

class Compactor {
 public:
  // `core` must outlive this object.
  explicit Compactor(DbCore& core) : core_(core) {}
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // The job of a compaction that is due. REQUIRES: the mutex is not held.
  void RunJob();
  // Does DB::CompactRange, after the memtables with keys of the range were
  // flushed. REQUIRES: the caller holds a reference to the family, or a handle.
  Status RunManualLocked(ColumnFamily* family,
                         const CompactRangeOptions& options,
                         const UserKeyRange& range) VARVE_REQUIRES(kDbMutex);

  // Lets paused compactions run.
  void ResumeLocked() VARVE_REQUIRES(kDbMutex);
  // Lets paused compactions run, and waits until it is known whether there is
  // space for them.
  void RetryLocked() VARVE_REQUIRES(kDbMutex);

 private:
  Status RunLocked(ColumnFamily* family, Compaction* compaction)
      VARVE_REQUIRES(kDbMutex);
  Status CompactRangeLocked(ColumnFamily* family,
                            const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(kDbMutex);
  // Returns FindKeptTables of the family's current version.
  std::set<uint64_t> FindKeptLocked(ColumnFamily* family, int level,
                                    const UserKeyRange& range)
      VARVE_REQUIRES(kDbMutex);
  Status CompactLevelLocked(ColumnFamily* family, ManualRequest request,
                            int last, bool exclusive) VARVE_REQUIRES(kDbMutex);
  // Called after a compaction that found no space.
  void PauseLocked(const Status& status) VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
};

}  // namespace varve
