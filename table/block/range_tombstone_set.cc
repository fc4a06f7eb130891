// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/range_tombstone_set.h"

#include <algorithm>
#include <functional>

namespace varve {

bool ClipRangeTombstone(const InternalKeyComparator& comparator,
                        const Slice* lower, const Slice* upper,
                        RangeTombstone* tombstone) {
  if (lower != nullptr &&
      comparator.CompareUser(tombstone->begin, *lower) < 0) {
    tombstone->begin = *lower;
  }
  if (upper != nullptr && comparator.CompareUser(tombstone->end, *upper) > 0) {
    tombstone->end = *upper;
  }
  return comparator.CompareUser(tombstone->begin, tombstone->end) < 0;
}

bool RangeTombstoneSet::ReachesInto(const Slice* begin, const Slice* end,
                                    bool end_is_exclusive,
                                    SequenceNumber oldest) const {
  for (const Raw& raw : raw_) {
    if (raw.sequence < oldest) return false;  // The newest come first.
    if (begin != nullptr &&
        comparator_->CompareUser(bounds_[raw.end], *begin) <= 0) {
      continue;
    }
    if (end == nullptr) return true;
    const int r = comparator_->CompareUser(bounds_[raw.begin], *end);
    if (r < 0 || (r == 0 && !end_is_exclusive)) return true;
  }
  return false;
}

std::shared_ptr<const RangeTombstoneSet> RangeTombstoneSet::Build(
    const InternalKeyComparator* comparator,
    const std::vector<RangeTombstone>& tombstones) {
  std::vector<RangeTombstone> useful;
  useful.reserve(tombstones.size());
  for (const RangeTombstone& tombstone : tombstones) {
    if (comparator->CompareUser(tombstone.begin, tombstone.end) < 0) {
      useful.push_back(tombstone);
    }
  }
  if (useful.empty()) return nullptr;
  return std::shared_ptr<const RangeTombstoneSet>(
      new RangeTombstoneSet(comparator, useful));
}

RangeTombstoneSet::RangeTombstoneSet(
    const InternalKeyComparator* comparator,
    const std::vector<RangeTombstone>& tombstones)
    : comparator_(comparator) {
  CollectBounds(tombstones);
  raw_.reserve(tombstones.size());
  for (const RangeTombstone& tombstone : tombstones) {
    // A bound begins the interval that it is found in.
    raw_.push_back({FindInterval(tombstone.begin) - 1,
                    FindInterval(tombstone.end) - 1, tombstone.sequence});
  }
  std::sort(raw_.begin(), raw_.end(),
            [](const Raw& a, const Raw& b) { return a.sequence > b.sequence; });
  BuildTree();
}

void RangeTombstoneSet::CollectBounds(
    const std::vector<RangeTombstone>& tombstones) {
  const auto before = [this](const Slice& a, const Slice& b) {
    return comparator_->CompareUser(a, b) < 0;
  };
  const auto equal = [this](const Slice& a, const Slice& b) {
    return comparator_->CompareUser(a, b) == 0;
  };
  bounds_.reserve(2 * tombstones.size());
  for (const RangeTombstone& tombstone : tombstones) {
    bounds_.push_back(tombstone.begin);
    bounds_.push_back(tombstone.end);
  }
  std::sort(bounds_.begin(), bounds_.end(), before);
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end(), equal),
                bounds_.end());
  bounds_.shrink_to_fit();
  size_t size = 0;
  for (const Slice& bound : bounds_) size += bound.size();
  bytes_.reserve(size);  // The bytes stay where they are.
  for (Slice& bound : bounds_) {
    bytes_.append(bound.data(), bound.size());
    bound = Slice(bytes_.data() + bytes_.size() - bound.size(), bound.size());
  }
}

void RangeTombstoneSet::BuildTree() {
  const size_t leaves = bounds_.size() - 1;
  // Calls visit(node) for the nodes that together cover the range.
  const auto for_nodes = [leaves](const Raw& raw, auto visit) {
    size_t first = raw.begin + leaves;
    size_t last = raw.end + leaves;
    for (; first < last; first /= 2, last /= 2) {
      if (first % 2 == 1) visit(first++);
      if (last % 2 == 1) visit(--last);
    }
  };
  node_begin_.assign(2 * leaves + 1, 0);
  for (const Raw& raw : raw_) {
    for_nodes(raw, [this](size_t node) { ++node_begin_[node + 1]; });
  }
  for (size_t i = 1; i < node_begin_.size(); ++i) {
    node_begin_[i] += node_begin_[i - 1];
  }
  node_sequences_.resize(node_begin_.back());
  std::vector<size_t> next(node_begin_);
  for (const Raw& raw : raw_) {
    for_nodes(raw, [this, &next, &raw](size_t node) {
      node_sequences_[next[node]++] = raw.sequence;
    });
  }
}

size_t RangeTombstoneSet::FindInterval(const Slice& user_key) const {
  const auto it =
      std::upper_bound(bounds_.begin(), bounds_.end(), user_key,
                       [this](const Slice& key, const Slice& bound) {
                         return comparator_->CompareUser(key, bound) < 0;
                       });
  return static_cast<size_t>(it - bounds_.begin());
}

SequenceNumber RangeTombstoneSet::MaxCoveringInterval(
    size_t interval, SequenceNumber sequence) const {
  if (interval == 0 || interval == bounds_.size()) return 0;
  SequenceNumber result = 0;
  for (size_t node = interval - 1 + bounds_.size() - 1; node > 0; node /= 2) {
    const SequenceNumber* const begin =
        node_sequences_.data() + node_begin_[node];
    const SequenceNumber* const end =
        node_sequences_.data() + node_begin_[node + 1];
    const SequenceNumber* const visible =
        std::lower_bound(begin, end, sequence, std::greater<>());
    if (visible != end) result = std::max(result, *visible);
  }
  return result;
}

size_t RangeTombstoneSet::ApproximateMemoryUsage() const {
  return sizeof(*this) + bytes_.capacity() +
         bounds_.capacity() * sizeof(Slice) + raw_.capacity() * sizeof(Raw) +
         node_begin_.capacity() * sizeof(size_t) +
         node_sequences_.capacity() * sizeof(SequenceNumber);
}

void RangeTombstoneCursor::MoveTo(const Slice& user_key) {
  if (lower() == nullptr ||
      tombstones_->comparator().CompareUser(user_key, *lower()) >= 0) {
    if (IsBefore(user_key)) return;
    ++interval_;
    if (IsBefore(user_key)) return;
  }
  interval_ = tombstones_->FindInterval(user_key);
}

}  // namespace varve
