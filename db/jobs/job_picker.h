// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds the flushes, compactions and clean-ups that are due, over all column
// families, and which of them is next. Thread-safety: guarded by the DB mutex.

#include <cstddef>
#include <memory>
#include <vector>

#include "db/compaction/compaction_policy.h"
#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "varve/status.h"

namespace varve {

// Whether compactions may run. Guarded by the DB mutex.
struct CompactionGate {
  int manual_count = 0;  // Calls of CompactRange, and ingestions.
  // The error that pauses compactions: no space. Writes continue.
  Status error;
};

struct DbCore;

class JobPicker {
 public:
  // `core` must outlive this object.
  explicit JobPicker(DbCore& core);
  JobPicker(const JobPicker&) = delete;
  JobPicker& operator=(const JobPicker&) = delete;

  // ---- Flushes ----

  // Returns whether a family waits for a flush that no job has chosen yet.
  bool FlushDueLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns the families to flush next, together: with atomic_flush all, and
  // otherwise the one that keeps the oldest log, and others with it that have
  // little to write, so that they share the syncs of the directory and the
  // MANIFEST.
  std::vector<ColumnFamily*> PickFlushLocked() const VARVE_REQUIRES(kDbMutex);

  // ---- Compactions ----

  CompactionGate& gate() { return gate_; }
  const CompactionGate& gate() const { return gate_; }
  // Returns false while background compactions are paused.
  bool GateIsOpenLocked() const VARVE_REQUIRES(kDbMutex) {
    return gate_.error.ok();
  }
  // Returns whether a background compaction is due, of any family or of one.
  bool CompactionDueLocked() const VARVE_REQUIRES(kDbMutex);
  bool CompactionDueLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(kDbMutex);
  // Returns whether writers wait for compactions, or soon will.
  bool CompactionsAreUrgentLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns a compaction that is due, and its family, or null. Families whose
  // writers wait come first. The others take turns, so that none of them waits
  // for good.
  std::unique_ptr<Compaction> PickCompactionLocked(ColumnFamily** family)
      VARVE_REQUIRES(kDbMutex);
  CompactionContext ContextLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(kDbMutex);

  // Returns the shortest age in seconds for which tables of any family are
  // compacted. 0 if there is none.
  uint64_t ShortestAgeLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns when the first of them gets due. See NextDueTime.
  uint64_t NextDueTimeLocked() const VARVE_REQUIRES(kDbMutex);

  // ---- Dead entries that readers report ----

  // Returns whether dead entries of the family may cause jobs by themselves.
  bool CleansLocked(const ColumnFamily& family) const VARVE_REQUIRES(kDbMutex) {
    return cleans_ && !family.options().disable_auto_compactions;
  }
  // Returns the families for which a clean-up is due.
  std::vector<ColumnFamily*> FamiliesToCleanLocked() const
      VARVE_REQUIRES(kDbMutex);

 private:
  // Returns whether background compactions of the family may begin.
  bool MayCompactLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(kDbMutex) {
    return !family.options().disable_auto_compactions &&
           !family.compactions().is_exclusive;
  }
  bool CleanupDueLocked(ColumnFamily* family) const VARVE_REQUIRES(kDbMutex);
  // Returns the compaction that removes reported dead entries, or null.
  std::unique_ptr<Compaction> PickForReadersLocked(ColumnFamily* family)
      VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  // Whether dead entries may cause jobs by themselves.
  const bool cleans_;
  CompactionGate gate_;
  size_t next_family_ = 0;  // Where the search for a compaction begins.
};

}  // namespace varve
