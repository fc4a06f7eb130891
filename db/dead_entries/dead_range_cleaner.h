// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides what to do about the ranges in which readers walk over many dead
// entries. A range goes from place to place on its way down: a memtable that
// holds much of its dead is flushed, then level 0 is compacted, then table by
// table the topmost level with deletions in the range, until nothing is left.
//
// Two rules bound the work. Nothing is done as long as a snapshot needs the
// entries. And work is paid for, from a budget that grows by a tenth of the
// bytes that are flushed: a compaction that frees less than half of what it
// rewrites costs the difference, and a flush the compaction that it causes.
// Readers alone thus cannot cause more.
//
// Thread-safety: guarded by the DB mutex.

#include <cstdint>
#include <string>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/dead_entries/dead_range_examination.h"
#include "db/dead_entries/dead_walk_reports.h"
#include "table/block/internal_key.h"
#include "varve/options.h"

namespace varve {

class DeadRangeCleaner {
 public:
  // What is to be done about a range.
  enum class Plan : uint8_t {
    kExamine,
    kFlush,            // Of the active memtable.
    kWaitForJob,       // A flush, or a compaction of the range.
    kCompact,          // Of `found.level`.
    kWaitForSnapshot,  // Some snapshot sees the entries.
    kWaitForBudget,
  };
  struct Target {
    DeadWalkReports::Report report;
    Plan plan = Plan::kExamine;
    DeadRangeFindings found;  // Valid unless kExamine.
    // The level that was last compacted for the range, and what was there.
    int done_level = -1;
    uint64_t done_dead = 0;
    uint64_t id = 0;
    bool is_new = true;  // Not examined yet.
  };

  // With `always`, any dead entry is worth any job (experiment waste=always).
  // The pointers must outlive this.
  DeadRangeCleaner(const Options* options,
                   const InternalKeyComparator* comparator, bool always);
  DeadRangeCleaner(const DeadRangeCleaner&) = delete;
  DeadRangeCleaner& operator=(const DeadRangeCleaner&) = delete;

  void AddLocked(std::vector<DeadWalkReports::Report> reports);
  // Call it after each flush and compaction: ranges that wait are examined
  // again.
  void WakeLocked();
  // Call it when a snapshot may have been released: ranges that waited for it
  // are examined again.
  void NoteSnapshotsLocked(SequenceNumber oldest_snapshot);
  // Returns true if a range is to be examined.
  bool MustExamineLocked() const;
  // Returns copies of those ranges.
  std::vector<Target> ToExamineLocked() const;
  // Returns how many dead entries a place needs to be worth a job. Needs no
  // mutex.
  uint64_t LeastDead(const Target& target) const;
  // Sets the plan of the range with that id, or forgets the range if nothing is
  // left to do. Findings from before the last WakeLocked do not count: `wakes`
  // is wakes() from before the examination. `oldest_snapshot` is the smallest
  // number that a snapshot reads at. `memtable_bytes` is the size of the active
  // memtable.
  void PlanLocked(uint64_t id, const DeadRangeFindings& found,
                  SequenceNumber oldest_snapshot, uint64_t memtable_bytes,
                  uint64_t wakes);
  uint64_t wakes() const { return wakes_; }
  // Returns true if a range wants the active memtable to be flushed.
  bool WantsFlushLocked() const;
  // Returns what an early flush costs, if `base_bytes` are in the level that
  // level 0 is compacted into: a log and a table with their syncs, and a part
  // of the next compaction of level 0, which comes earlier.
  uint64_t FlushCost(uint64_t base_bytes) const;
  // Returns true if the budget pays for the flush of a memtable of that size,
  // whatever is in it. Only being early costs something: its entries are
  // written sooner or later.
  bool CanPayLocked(uint64_t memtable_bytes) const {
    constexpr uint64_t kEarlyPart = 16;
    return always_ ||
           static_cast<int64_t>(memtable_bytes / kEarlyPart) <= budget_bytes_;
  }
  // Records that its flush is due, and takes what that costs from the budget:
  // nothing if it was due anyway.
  void AwaitFlushLocked(uint64_t cost_bytes);

  // Returns the next range to compact, or null: the one whose dead entries cost
  // readers most for each byte to rewrite. The pointer is valid until the next
  // call of another function.
  const Target* NextToCompactLocked() const;
  bool WantsCompactionLocked() const {
    return NextToCompactLocked() != nullptr;
  }
  // Records that a compaction for the range begins, or that none can begin
  // until another one has ended.
  void CompactionBeginsLocked(uint64_t id);
  void WaitForJobLocked(uint64_t id);
  // Records that its table is not there any more.
  void ExamineAgainLocked(uint64_t id);
  // Records the outcome of a compaction for readers.
  void CountCompactionLocked(const Compaction& compaction,
                             uint64_t output_bytes);
  void CountFlushedLocked(uint64_t bytes);

  const std::vector<Target>& targets() const { return targets_; }
  uint64_t budget_bytes() const {
    return budget_bytes_ > 0 ? static_cast<uint64_t>(budget_bytes_) : 0;
  }

 private:
  static constexpr size_t kMaxTargets = 16;

  Target* Find(uint64_t id);
  bool IsAffordable(const Target& target, uint64_t dead, uint64_t entries,
                    uint64_t bytes) const;

  const bool always_;
  const Options* const options_;
  const InternalKeyComparator& comparator_;
  std::vector<Target> targets_;
  uint64_t next_id_ = 1;
  uint64_t wakes_ = 0;
  int64_t budget_bytes_;
};

// Returns a word or two for the plan.
const char* PlanName(DeadRangeCleaner::Plan plan);

}  // namespace varve
