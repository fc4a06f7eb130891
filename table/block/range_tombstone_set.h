// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Range deletions, and lookups of the deletions that cover a key. The bounds of
// all ranges divide the keys into intervals. A segment tree over the intervals
// gives the deletions that cover each of them. A deletion is stored in at most
// two nodes of each level of the tree. For n ranges, memory is O(n log n) in
// the worst case, and O(n) if they are disjoint. A lookup costs a binary search
// and one walk from a leaf to the root.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// Deletes the versions older than `sequence` of all user keys in [begin, end).
struct RangeTombstone {
  Slice begin;
  Slice end;
  SequenceNumber sequence = 0;
};

// Intersects the range with [*lower, *upper). A null pointer is no bound.
// Returns false if the result is empty.
bool ClipRangeTombstone(const InternalKeyComparator& comparator,
                        const Slice* lower, const Slice* upper,
                        RangeTombstone* tombstone);

// A set of range deletions, with copies of their keys.
// Thread-safety: immutable after construction.
class RangeTombstoneSet {
 public:
  // Returns null if all ranges are empty. `comparator` must outlive the result.
  static std::shared_ptr<const RangeTombstoneSet> Build(
      const InternalKeyComparator* comparator,
      const std::vector<RangeTombstone>& tombstones);
  RangeTombstoneSet(const RangeTombstoneSet&) = delete;
  RangeTombstoneSet& operator=(const RangeTombstoneSet&) = delete;

  // The ranges as given to Build, without the empty ones, in no order. The keys
  // live as long as this object.
  size_t size() const { return raw_.size(); }
  RangeTombstone at(size_t i) const {
    const Raw& raw = raw_[i];
    return {bounds_[raw.begin], bounds_[raw.end], raw.sequence};
  }

  // Returns the sequence number of the newest deletion at or before `sequence`
  // that covers the key, or 0. It hides versions of the key with lower numbers.
  SequenceNumber MaxCovering(const Slice& user_key,
                             SequenceNumber sequence) const {
    return MaxCoveringInterval(FindInterval(user_key), sequence);
  }

  // Returns whether a deletion at or after `oldest` covers a possible key in
  // [*begin, *end], or in [*begin, *end) with `end_is_exclusive`. A null bound
  // is open. Costs a step for each deletion.
  bool ReachesInto(const Slice* begin, const Slice* end, bool end_is_exclusive,
                   SequenceNumber oldest) const;

  // Intervals are numbered from 0, for the keys before all bounds, to
  // IntervalCount() - 1, for the keys at and after the last bound. No range
  // covers these two. Interval i of the others is [bound(i - 1), bound(i)).
  size_t IntervalCount() const { return bounds_.size() + 1; }
  const Slice& bound(size_t i) const { return bounds_[i]; }
  size_t FindInterval(const Slice& user_key) const;
  SequenceNumber MaxCoveringInterval(size_t interval,
                                     SequenceNumber sequence) const;

  const InternalKeyComparator& comparator() const { return *comparator_; }
  size_t ApproximateMemoryUsage() const;

 private:
  // A range, by the numbers of its bounds.
  struct Raw {
    size_t begin;
    size_t end;
    SequenceNumber sequence;
  };

  RangeTombstoneSet(const InternalKeyComparator* comparator,
                    const std::vector<RangeTombstone>& tombstones);
  void CollectBounds(const std::vector<RangeTombstone>& tombstones);
  void BuildTree();

  const InternalKeyComparator* const comparator_;
  std::string bytes_;          // The bytes of all bounds.
  std::vector<Slice> bounds_;  // Ascending and distinct.
  std::vector<Raw> raw_;       // Newest first.
  // The children of node i are 2 i and 2 i + 1. Node `leaves + j` belongs to
  // interval j + 1. The sequence numbers of node i, in descending order, begin
  // at node_begin_[i].
  std::vector<size_t> node_begin_;
  std::vector<SequenceNumber> node_sequences_;
};

// Looks up deletions for a sequence of keys, as in an iteration. A move to a
// key in the same interval costs at most two comparisons. A move into the next
// interval costs a third.
// Thread-safety: owned by one thread.
class RangeTombstoneCursor {
 public:
  // `tombstones` must outlive it.
  explicit RangeTombstoneCursor(const RangeTombstoneSet* tombstones)
      : tombstones_(tombstones) {}

  void MoveTo(const Slice& user_key);
  // REQUIRES for all of these: MoveTo was called.
  SequenceNumber MaxCovering(SequenceNumber sequence) const {
    return tombstones_->MaxCoveringInterval(interval_, sequence);
  }
  // Bounds of the interval that contains the key. Null is no bound.
  const Slice* lower() const {
    return interval_ == 0 ? nullptr : &tombstones_->bound(interval_ - 1);
  }
  const Slice* upper() const {
    return interval_ + 1 == tombstones_->IntervalCount()
               ? nullptr
               : &tombstones_->bound(interval_);
  }

 private:
  bool IsBefore(const Slice& user_key) const {
    return upper() == nullptr ||
           tombstones_->comparator().CompareUser(user_key, *upper()) < 0;
  }

  const RangeTombstoneSet* tombstones_;
  size_t interval_ = 0;
};

}  // namespace varve
