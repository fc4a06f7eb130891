// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "db/dead_entries/dead_ranges.h"
#include "db/dead_entries/walked_range.h"
#include "table/block/internal_key.h"

namespace varve {

// What readers report of long walks over dead entries, until background work
// takes it. Holds at most kMaxReports ranges.
//
// Thread-safety: any thread may call any function. None waits: a reader that
// meets another thread here drops its report. If the waste is still there, it
// will be reported again.
class DeadWalkReports {
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
  // After fork(): the thread that was adding a report is in the parent process.
  // Keeps no report.
  void ForgetInChild() {
    Take();
    // relaxed, both: there is no other thread. The list may be half changed.
    if (busy_.load(std::memory_order_relaxed)) {
      new (&reports_) std::vector<Report>();
      busy_.store(false, std::memory_order_relaxed);
    }
  }

 private:
  // Owns `reports_`, if it was false before.
  bool TryEnter() {
    // acquire pairs with the release of Leave.
    return !busy_.exchange(true, std::memory_order_acquire);
  }
  void Leave() {
    // release pairs with TryEnter.
    busy_.store(false, std::memory_order_release);
  }

  const InternalKeyComparator& comparator_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> any_{false};
  std::vector<Report> reports_;  // In key order.
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
