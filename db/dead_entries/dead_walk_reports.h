// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/dead_entries/dead_ranges.h"
#include "db/dead_entries/walked_range.h"
#include "table/block/internal_key.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"

namespace varve {

// What readers report of long walks over dead entries, until background work
// takes it. Holds at most kMaxReports ranges.
//
// Thread-safety: any thread may call any function. None waits: a reader that
// meets another thread here drops its report. If the waste is still there, it
// will be reported again.
class DeadWalkReports final : private ForkWatch {
 public:
  static constexpr size_t kMaxReports = 16;

  // A report has no sequence numbers of candidates: `range.sequence` is the
  // newest of its walks, and `range.dead` the deletions of the longest.
  struct Report {
    DeadRange range;
    SequenceNumber first_sequence = 0;  // The oldest of its walks.
    uint64_t walks = 0;
    uint64_t passed = 0;  // Deletions that all walks passed.
  };

  explicit DeadWalkReports(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}
  DeadWalkReports(const DeadWalkReports&) = delete;
  DeadWalkReports& operator=(const DeadWalkReports&) = delete;

  // Adds a walk. Walks of ranges that overlap become one report of both
  // ranges. If there are too many, those that are neighbours become one.
  void Add(const WalkedRange& walk);
  // Returns whether there are reports, which may be outdated at once.
  bool Any() const {
    // relaxed: a hint.
    return any_.load(std::memory_order_relaxed);
  }
  // Removes and returns the reports. Returns none if a reader is adding one.
  std::vector<Report> Take();

 private:
  // Forgets all reports. A thread that was adding one is in the parent process.
  void InForkedChild() override;

  const InternalKeyComparator& comparator_;
  // Nobody waits for it.
  Mutex mutex_;
  std::vector<Report> reports_ VARVE_GUARDED_BY(mutex_);  // In key order.
  std::atomic<bool> any_{false};
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

// Returns whether a key may lie in both ranges.
bool RangesOverlap(const InternalKeyComparator& comparator, const DeadRange& a,
                   const DeadRange& b);

// Adds a report to a list in key order of at most `limit` reports. Those
// that it overlaps become one with it.
void MergeReport(const InternalKeyComparator& comparator,
                 DeadWalkReports::Report report, size_t limit,
                 std::vector<DeadWalkReports::Report>* reports);

}  // namespace varve
