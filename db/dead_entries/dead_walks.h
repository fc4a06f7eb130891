// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the iterators of a database remember and report about dead entries.

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "db/dead_entries/dead_ranges.h"
#include "db/dead_entries/dead_walk_reports.h"
#include "db/dead_entries/walked_range.h"
#include "db/write/write_queue.h"
#include "monitoring/statistics.h"

namespace varve {

// Thread-safety: thread-safe, but for leader_ranges.
class DeadWalks {
 public:
  // `last_sequence` returns the newest visible number. `wake` is called after
  // a report, and must not wait. With `always`, all walks are remembered and
  // reported, however short (experiment waste=always). All arguments must
  // outlive this object.
  DeadWalks(const InternalKeyComparator* comparator, WriteQueue* write_queue,
            StatisticsImpl* stats, bool always,
            std::function<SequenceNumber()> last_sequence,
            std::function<void()> wake)
      : always_(always),
        write_queue_(*write_queue),
        stats_(stats),
        last_sequence_(std::move(last_sequence)),
        wake_(std::move(wake)),
        ranges_(comparator),
        reports_(comparator) {}
  DeadWalks(const DeadWalks&) = delete;
  DeadWalks& operator=(const DeadWalks&) = delete;

  // For an iterator that has walked over deletions and found nothing live.
  // Remembers long walks and, with `reports`, reports them. Never waits.
  // REQUIRES: the thread does not lead the queue.
  void Note(const WalkedRange& walk, bool reports);

  // The number of iterators that had to leave out what range deletions in the
  // active memtable hide. relaxed everywhere: a count, of which races lose a
  // little. kDecided: no more are counted until the memtable is switched.

  // For a new iterator of that kind.
  void NoteRangeDeletions() {
    const uint64_t count = RangeDeletionReads() + 1;
    if (count > kDecided) return;
    SetRangeDeletionReads(count);
    if (ReadsRangeDeletions()) wake_();
  }
  // Returns whether there were enough to decide what to do about it.
  bool ReadsRangeDeletions() const {
    const uint64_t count = RangeDeletionReads();
    return count >= (always_ ? 1 : kRangeDeletionReads) && count < kDecided;
  }
  void DecideRangeDeletions() { SetRangeDeletionReads(kDecided); }
  void BeginMemTable() { SetRangeDeletionReads(0); }

  const DeadRanges& ranges() const { return ranges_; }
  DeadWalkReports* reports() { return &reports_; }
  // For the leader of the write queue.
  DeadRanges* leader_ranges() { return &ranges_; }

 private:
  // Walks over this many deletions are remembered. Fewer would hardly be faster
  // to step over than to walk over.
  static constexpr uint64_t kRemembered = 128;
  // So are walks that add this many to a range that is known.
  static constexpr uint64_t kAdded = 16;
  // Walks over this many are reported.
  static constexpr uint64_t kReported = 256;
  // So many iterators make range deletions in memory worth a flush.
  static constexpr uint64_t kRangeDeletionReads = 64;
  static constexpr uint64_t kDecided = uint64_t{1} << 32;

  uint64_t RangeDeletionReads() const {
    // relaxed: as above.
    return range_deletion_reads_.load(std::memory_order_relaxed);
  }
  void SetRangeDeletionReads(uint64_t count) {
    // relaxed: as above.
    range_deletion_reads_.store(count, std::memory_order_relaxed);
  }

  const bool always_;
  WriteQueue& write_queue_;
  StatisticsImpl* const stats_;
  const std::function<SequenceNumber()> last_sequence_;
  const std::function<void()> wake_;
  DeadRanges ranges_;
  DeadWalkReports reports_;
  std::atomic<uint64_t> range_deletion_reads_{0};
};

}  // namespace varve
