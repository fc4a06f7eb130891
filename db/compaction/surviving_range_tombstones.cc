// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/surviving_range_tombstones.h"

#include <algorithm>

namespace varve {

SurvivingRangeTombstones::SurvivingRangeTombstones(
    const RangeTombstoneSet* tombstones,
    const std::vector<SequenceNumber>& snapshots,
    const OlderTables* older_tables)
    : tombstones_(tombstones) {
  if (tombstones != nullptr) Collect(snapshots, older_tables);
}

void SurvivingRangeTombstones::Collect(
    const std::vector<SequenceNumber>& snapshots,
    const OlderTables* older_tables) {
  // Tombstones in adjacent intervals with one sequence number are one deletion.
  std::vector<Piece> open;
  std::vector<Piece> next;
  for (size_t i = 1; i < tombstones_->IntervalCount(); ++i) {
    next.clear();
    for (const SequenceNumber sequence : In(i, snapshots, older_tables)) {
      const auto before = std::find_if(
          open.begin(), open.end(),
          [sequence](const Piece& p) { return p.sequence == sequence; });
      if (before == open.end()) {
        next.push_back({sequence, i - 1});
      } else {
        next.push_back(*before);
        open.erase(before);
      }
    }
    for (const Piece& piece : open) {
      list_.push_back({tombstones_->bound(piece.begin),
                       tombstones_->bound(i - 1), piece.sequence});
    }
    open.swap(next);
  }
}

std::vector<SequenceNumber> SurvivingRangeTombstones::In(
    size_t interval, const std::vector<SequenceNumber>& snapshots,
    const OlderTables* older_tables) const {
  std::vector<SequenceNumber> result;
  // No interval after the last bound is covered, so all pieces end there.
  if (interval + 1 == tombstones_->IntervalCount()) return result;
  SequenceNumber last = 0;
  for (size_t i = 0; i <= snapshots.size(); ++i) {
    const SequenceNumber stripe =
        i < snapshots.size() ? snapshots[i] : kMaxSequenceNumber;
    const SequenceNumber newest =
        tombstones_->MaxCoveringInterval(interval, stripe);
    const bool of_this_stripe = newest > last;
    last = stripe;
    if (!of_this_stripe) continue;
    const bool oldest_stripe = i == 0;
    if (oldest_stripe && older_tables != nullptr &&
        !older_tables->MayHaveAny(tombstones_->bound(interval - 1),
                                  tombstones_->bound(interval))) {
      continue;
    }
    result.push_back(newest);
  }
  return result;
}

std::vector<RangeTombstone> SurvivingRangeTombstones::Between(
    const std::optional<Slice>& lower,
    const std::optional<Slice>& upper) const {
  std::vector<RangeTombstone> clipped;
  for (RangeTombstone tombstone : list_) {
    if (ClipRangeTombstone(tombstones_->comparator(), lower ? &*lower : nullptr,
                           upper ? &*upper : nullptr, &tombstone)) {
      clipped.push_back(tombstone);
    }
  }
  return clipped;
}

void SurvivingRangeTombstones::AddTo(const std::optional<Slice>& lower,
                                     const std::optional<Slice>& upper,
                                     bool hidden, TableOutput* output) const {
  if (list_.empty()) return;
  const InternalKeyComparator& comparator = tombstones_->comparator();
  std::vector<RangeTombstone> clipped = Between(lower, upper);
  std::sort(clipped.begin(), clipped.end(),
            [&](const RangeTombstone& a, const RangeTombstone& b) {
              const int r = comparator.CompareUser(a.begin, b.begin);
              return r != 0 ? r < 0 : a.sequence > b.sequence;
            });
  for (const RangeTombstone& tombstone : clipped) {
    output->AddRangeTombstone(tombstone);
    if (!hidden) continue;
    output->CountHidden(kMaxSequenceNumber,
                        tombstone.begin.size() + tombstone.end.size());
  }
}

}  // namespace varve
