// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Deletions of ranges of keys, and what they hide. The bounds of all ranges cut
// the keys into intervals; a segment tree over these says of each interval
// which deletions cover it. A deletion is noted in at most two nodes of each
// layer of the tree, so that memory is n log n for n ranges in the worst case,
// and n for disjoint ones, and a question costs a binary search and one walk
// from a leaf to the root.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// Hides the versions that are older than `sequence` of all user keys from
// `begin` up to, not including, `end`.
struct RangeTombstone {
  Slice begin;
  Slice end;
  SequenceNumber sequence = 0;
};

// Narrows the range to keys from *lower, up to, not including, *upper; null is
// no bound. False if nothing is left.
bool ClipRangeTombstone(const InternalKeyComparator& comparator,
                        const Slice* lower, const Slice* upper,
                        RangeTombstone* tombstone);

// A set of range deletions. Has copies of their keys.
// Thread-safety: immutable after construction.
class RangeTombstoneSet {
 public:
  // Null if none of the ranges has a key in it. `comparator` must outlive the
  // result.
  static std::shared_ptr<const RangeTombstoneSet> Build(
      const InternalKeyComparator* comparator,
      const std::vector<RangeTombstone>& tombstones);
  RangeTombstoneSet(const RangeTombstoneSet&) = delete;
  RangeTombstoneSet& operator=(const RangeTombstoneSet&) = delete;

  // As they were given, without the empty ones, in no order. The keys live as
  // long as this.
  size_t size() const { return raw_.size(); }
  RangeTombstone at(size_t i) const {
    const Raw& raw = raw_[i];
    return {bounds_[raw.begin], bounds_[raw.end], raw.sequence};
  }

  // The newest deletion at or before `sequence` that covers the key; 0 if
  // there is none. It hides the key's versions below that number.
  SequenceNumber MaxCovering(const Slice& user_key,
                             SequenceNumber sequence) const {
    return MaxCoveringInterval(FindInterval(user_key), sequence);
  }

  // Intervals are numbered from 0, of the keys before all bounds, to
  // IntervalCount() - 1, of those at and behind the last. These two are not
  // covered; interval i, of the others, is [bound(i - 1), bound(i)).
  size_t IntervalCount() const { return bounds_.size() + 1; }
  const Slice& bound(size_t i) const { return bounds_[i]; }
  size_t FindInterval(const Slice& user_key) const;
  SequenceNumber MaxCoveringInterval(size_t interval,
                                     SequenceNumber sequence) const;

  const InternalKeyComparator& comparator() const { return *comparator_; }
  size_t ApproximateMemoryUsage() const;

 private:
  // A range by the numbers of its bounds.
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
  std::string bytes_;          // Of all bounds.
  std::vector<Slice> bounds_;  // Rising, each once.
  std::vector<Raw> raw_;       // Newest first.
  // Node i's children are 2 i and 2 i + 1; node `leaves + j` is of interval
  // j + 1. The sequence numbers of node i, falling, are those from
  // node_begin_[i] on.
  std::vector<size_t> node_begin_;
  std::vector<SequenceNumber> node_sequences_;
};

// Follows a walk over keys through a set of deletions. A move to a key in the
// same interval costs at most two comparisons, one into the next a third.
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
  // The interval around the key; null is no bound.
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
