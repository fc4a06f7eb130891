// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/range_tombstone_filter.h"

#include <algorithm>
#include <string>
#include <utility>

namespace varve {

namespace {

// The number of consecutive hidden entries after which the filter seeks.
constexpr int kStepsBeforeSeek = 4;

class RangeTombstoneFilter final : public InternalIterator {
 public:
  RangeTombstoneFilter(
      const InternalKeyComparator* comparator, SequenceNumber sequence,
      std::unique_ptr<InternalIterator> source,
      const RangeTombstoneFilters::SetList& above,
      std::span<const std::shared_ptr<const RangeTombstoneSet>> own)
      : comparator_(*comparator),
        sequence_(sequence),
        source_(std::move(source)),
        sets_(above.get_allocator()),
        above_count_(above.size()),
        cursors_(above.get_allocator()),
        bound_key_(above.get_allocator().memory()) {
    sets_.reserve(above.size() + own.size());
    sets_.insert(sets_.end(), above.begin(), above.end());
    sets_.insert(sets_.end(), own.begin(), own.end());
    cursors_.reserve(sets_.size());
    for (const auto& set : sets_) cursors_.emplace_back(set.get());
  }

  Status status() const override {
    return in_order_ ? source_->status()
                     : Status::Corruption("keys are not in order");
  }

  void SeekToFirst() override {
    BeginSeek();
    source_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    BeginSeek();
    source_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& internal_key) override {
    BeginSeek();
    source_->Seek(internal_key);
    SkipForward();
  }
  bool PrepareSeek(const Slice& internal_key, int step) override {
    if (step == 0) BeginSeek();
    return source_->PrepareSeek(internal_key, step);
  }
  void FinishSeek(const Slice& internal_key) override {
    source_->FinishSeek(internal_key);
    SkipForward();
  }
  void SeekForPrev(const Slice& internal_key) override {
    BeginSeek();
    source_->SeekForPrev(internal_key);
    SkipBackward();
  }
  void Next() override {
    source_->Next();
    SkipForward();
  }
  void Prev() override {
    source_->Prev();
    SkipBackward();
  }
  void SkipDeadForward(DeadWalk* walk) override {
    source_->SkipDeadForward(walk);
    SkipForward();
  }
  void SkipDeadBackward(DeadWalk* walk) override {
    source_->SkipDeadBackward(walk);
    SkipBackward();
  }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    source_->SkipHidden(deletions, walk);
    SkipForward();
  }
  // Of deletions that a range deletion hides, too: all that they hide is older,
  // so it is hidden as well.
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    source_->CollectDeletions(walk, deletions);
  }

 private:
  enum class Hidden : uint8_t { kNo, kEntry, kWholeSpan };

  void BeginSeek() {
    in_order_ = true;
    last_bound_ = nullptr;
  }

  void SetDirection(bool forward) {
    if (forward == forward_) return;
    forward_ = forward;
    last_bound_ = nullptr;
  }

  // Returns whether a seek to the bound goes farther in this direction than the
  // seek before. In a crafted table, whose keys are not in order, seeks could
  // otherwise lead back for ever.
  bool IsFarther(const Slice* bound) {
    if (last_bound_ != nullptr) {
      const int order = comparator_.CompareUser(*bound, *last_bound_);
      if (forward_ ? order <= 0 : order >= 0) in_order_ = false;
    }
    last_bound_ = bound;
    return in_order_;
  }

  void SkipForward() {
    SetDirection(true);
    int steps = 0;
    while (source_->Valid()) {
      const Hidden hidden = Classify(&steps);
      if (hidden == Hidden::kNo) break;
      if (hidden == Hidden::kWholeSpan && ++steps > kStepsBeforeSeek) {
        if (!IsFarther(upper_)) return ShowNothing();
        source_->Seek(BoundKey(*upper_));
      } else {
        source_->Next();
      }
    }
    Show(source_->position());
  }

  void SkipBackward() {
    SetDirection(false);
    int steps = 0;
    while (source_->Valid()) {
      const Hidden hidden = Classify(&steps);
      if (hidden == Hidden::kNo) break;
      if (hidden == Hidden::kWholeSpan && ++steps > kStepsBeforeSeek) {
        if (!IsFarther(lower_)) return ShowNothing();
        source_->SeekForPrev(BoundKey(*lower_));
      } else {
        source_->Prev();
      }
    }
    Show(source_->position());
  }

  // Returns whether the source's current entry is hidden. Enters the entry's
  // span, and resets *steps if that is another span.
  Hidden Classify(int* steps) {
    const Slice user_key = ExtractUserKey(source_->key());
    if (!entered_ ||
        (upper_ != nullptr &&
         comparator_.CompareUser(user_key, *upper_) >= 0) ||
        (lower_ != nullptr && comparator_.CompareUser(user_key, *lower_) < 0)) {
      EnterSpan(user_key);
      *steps = 0;
    }
    if (all_hidden_) return Hidden::kWholeSpan;
    return ExtractSequence(source_->key()) < own_cover_ ? Hidden::kEntry
                                                        : Hidden::kNo;
  }

  // Enters the span around the key in which each set gives the same result.
  void EnterSpan(const Slice& user_key) {
    entered_ = true;
    all_hidden_ = false;
    own_cover_ = 0;
    lower_ = nullptr;
    upper_ = nullptr;
    for (size_t i = 0; i < cursors_.size(); ++i) {
      RangeTombstoneCursor& cursor = cursors_[i];
      cursor.MoveTo(user_key);
      const Slice* const lower = cursor.lower();
      if (lower != nullptr &&
          (lower_ == nullptr || comparator_.CompareUser(*lower, *lower_) > 0)) {
        lower_ = lower;
      }
      const Slice* const upper = cursor.upper();
      if (upper != nullptr &&
          (upper_ == nullptr || comparator_.CompareUser(*upper, *upper_) < 0)) {
        upper_ = upper;
      }
      const SequenceNumber cover = cursor.MaxCovering(sequence_);
      if (i >= above_count_) {
        own_cover_ = std::max(own_cover_, cover);
      } else if (cover != 0) {
        all_hidden_ = true;
      }
    }
  }

  // Returns an internal key before all versions of the user key.
  Slice BoundKey(const Slice& user_key) {
    char* const key = bound_key_.Reserve(user_key.size() + kTrailerSize);
    return WriteInternalKey(key, user_key, SeekTrailer(kMaxSequenceNumber));
  }

  const InternalKeyComparator& comparator_;
  const SequenceNumber sequence_;
  const std::unique_ptr<InternalIterator> source_;
  RangeTombstoneFilters::SetList sets_;  // First above, then the source's own.
  const size_t above_count_;
  ArenaVector<RangeTombstoneCursor> cursors_;

  bool entered_ = false;
  // Null if there is no bound. A hidden span has both bounds.
  const Slice* lower_ = nullptr;
  const Slice* upper_ = nullptr;
  bool all_hidden_ = false;
  SequenceNumber own_cover_ = 0;
  const Slice* last_bound_ = nullptr;  // Bound of the last seek over a span.
  bool forward_ = true;
  bool in_order_ = true;
  ArenaBuffer bound_key_;
};

}  // namespace

std::unique_ptr<InternalIterator> RangeTombstoneFilters::Wrap(
    std::unique_ptr<InternalIterator> source,
    std::span<const std::shared_ptr<const RangeTombstoneSet>> own) {
  if (above_.empty() && own.empty()) return source;
  std::unique_ptr<InternalIterator> filter(new (memory()) RangeTombstoneFilter(
      comparator_, sequence_, std::move(source), above_, own));
  above_.insert(above_.end(), own.begin(), own.end());
  return filter;
}

}  // namespace varve
