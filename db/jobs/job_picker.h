// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds the flushes, compactions and clean-ups that are due, over all column
// families, and which of them is next. Thread-safety: guarded by the DB mutex.

#include <cstddef>
#include <memory>
#include <vector>

#include "db/compaction/compaction_picker.h"
#include "db/directory/db_directory.h"
#include "db/family/family_set.h"
#include "db/jobs/event_queue.h"
#include "monitoring/statistics.h"
#include "varve/options.h"

namespace varve {

// Whether compactions may run. Guarded by the DB mutex.
struct CompactionGate {
  int manual_count = 0;  // Calls of CompactRange.
  // The error that pauses compactions: no space. Writes continue.
  Status error;
};

class JobPicker {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const Options* options;
    const DbDirectory* place;
    const FamilySet* families;
    EventQueue* events;
    Logger* log;
    StatisticsImpl* stats;  // May be null.
    // Whether dead entries may cause jobs by themselves.
    bool cleans;
  };

  explicit JobPicker(const Parts& parts) : parts_(parts) {}
  JobPicker(const JobPicker&) = delete;
  JobPicker& operator=(const JobPicker&) = delete;

  // ---- Flushes ----

  // Returns whether a family waits for a flush that no job has chosen yet.
  bool FlushDueLocked() const;
  // Returns the families to flush next, together: with atomic_flush all, and
  // otherwise the one that keeps the oldest log, and others with it that have
  // little to write, so that they share the syncs of the directory and the
  // MANIFEST.
  std::vector<ColumnFamily*> PickFlushLocked() const;

  // ---- Compactions ----

  CompactionGate& gate() { return gate_; }
  const CompactionGate& gate() const { return gate_; }
  // Returns false while background compactions are paused.
  bool GateIsOpenLocked() const { return gate_.error.ok(); }
  // Returns whether a background compaction is due, of any family or of one.
  bool CompactionDueLocked() const;
  bool CompactionDueLocked(const ColumnFamily& family) const;
  // Returns whether writers wait for compactions, or soon will.
  bool CompactionsAreUrgentLocked() const;
  // Returns a compaction that is due, and its family, or null. Families whose
  // writers wait come first. The others take turns, so that none of them waits
  // for good.
  std::unique_ptr<Compaction> PickCompactionLocked(ColumnFamily** family);
  CompactionPickerContext ContextLocked(const ColumnFamily& family) const;

  // Returns the shortest age in seconds for which tables of any family are
  // compacted. 0 if there is none.
  uint64_t ShortestAgeLocked() const;
  // Returns when the first of them gets due. See NextDueTime.
  uint64_t NextDueTimeLocked() const;

  // ---- Dead entries that readers report ----

  // Returns whether dead entries of the family may cause jobs by themselves.
  bool CleansLocked(const ColumnFamily& family) const {
    return parts_.cleans && !family.options().disable_auto_compactions;
  }
  // Returns the families for which a clean-up is due.
  std::vector<ColumnFamily*> FamiliesToCleanLocked() const;

 private:
  // Returns whether background compactions of the family may begin.
  bool MayCompactLocked(const ColumnFamily& family) const {
    return !family.options().disable_auto_compactions &&
           !family.compactions().is_exclusive;
  }
  bool CleanupDueLocked(ColumnFamily* family) const;
  // Returns the compaction that removes reported dead entries, or null.
  std::unique_ptr<Compaction> PickForReadersLocked(ColumnFamily* family);

  const Parts parts_;
  CompactionGate gate_;
  size_t next_family_ = 0;  // Where the search for a compaction begins.
};

}  // namespace varve
