// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs compactions: those that are due, and the steps of a manual one. Lets
// compactions pause while the device is full. Thread-safety: functions called
// ...Locked require the DB mutex, and may release it and reacquire it.

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_policy.h"
#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "varve/db.h"
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

  // Does DB::CompactFiles with the tables of these numbers. Adds the numbers of
  // the new tables to *outputs. REQUIRES: as above.
  Status RunFilesLocked(ColumnFamily* family, const CompactionOptions& options,
                        std::set<uint64_t> numbers, int output_level,
                        std::vector<uint64_t>* outputs)
      VARVE_REQUIRES(kDbMutex);
  // Does DB::PromoteL0. REQUIRES: as above.
  Status PromoteLocked(ColumnFamily* family, int target_level)
      VARVE_REQUIRES(kDbMutex);

  // Lets paused compactions run.
  void ResumeLocked() VARVE_REQUIRES(kDbMutex);
  // Lets paused compactions run, and waits until it is known whether there is
  // space for them.
  void RetryLocked() VARVE_REQUIRES(kDbMutex);

 private:
  // Runs a compaction. Adds the numbers of the new tables to *outputs, unless
  // it is null.
  Status RunLocked(ColumnFamily* family, Compaction* compaction,
                   std::vector<uint64_t>* outputs = nullptr)
      VARVE_REQUIRES(kDbMutex);
  // Calls `work`, which runs compactions for a caller of the DB. `exclusive`:
  // no other compaction of the family runs then.
  Status RunRequestLocked(ColumnFamily* family, bool exclusive,
                          const std::function<Status()>& work)
      VARVE_REQUIRES(kDbMutex);
  std::unique_ptr<Compaction> PickFilesLocked(
      const ColumnFamily& family, int level, int last,
      const std::vector<FileMetaData*>& files) const VARVE_REQUIRES(kDbMutex);
  Status CompactFilesOfLevelLocked(ColumnFamily* family,
                                   const CompactionOptions& options, int level,
                                   int last, std::set<uint64_t>* numbers,
                                   std::vector<uint64_t>* outputs)
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
