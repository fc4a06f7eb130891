// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/recorded_reads.h"

#include <utility>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "varve/db.h"

namespace varve {

// A seek and the moves after it cover one range, from the smallest position to
// the largest. The positions at which the iterator turns, and the last one, are
// enough to know it, so a move in the same direction costs one test.
class RecordingIterator final : public Iterator {
 public:
  RecordingIterator(RecordedReads* reads, std::unique_ptr<Iterator> iterator,
                    ColumnFamilyHandle* family, const ReadOptions& options)
      : reads_(reads),
        iterator_(std::move(iterator)),
        comparator_(*family->GetComparator()),
        folding_(FamilyHandle::FoldingOf(*family)),
        lower_bound_(options.iterate_lower_bound),
        upper_bound_(options.iterate_upper_bound),
        range_{.family = family->GetID(),
               .begin = {},
               .end = {},
               .end_is_inclusive = false,
               .since = options.snapshot->GetSequenceNumber()},
        next_(reads->iterators_) {
    if (next_ != nullptr) next_->previous_ = this;
    reads->iterators_ = this;
  }
  ~RecordingIterator() override {
    if (reads_ == nullptr) return;
    Finish();
    (previous_ == nullptr ? reads_->iterators_ : previous_->next_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }

  void SeekToFirst() override {
    Begin(Direction::kForward, nullptr);
    iterator_->SeekToFirst();
    Copy();
  }
  void SeekToLast() override {
    Begin(Direction::kBackward, nullptr);
    iterator_->SeekToLast();
    Copy();
  }
  void Seek(const Slice& target) override {
    Begin(Direction::kForward, &target);
    iterator_->Seek(target);
    Copy();
  }
  void SeekForPrev(const Slice& target) override {
    Begin(Direction::kBackward, &target);
    iterator_->SeekForPrev(target);
    Copy();
  }
  void Next() override {
    if (direction_ != Direction::kForward) [[unlikely]]
      Turn(Direction::kForward);
    iterator_->Next();
    Copy();
  }
  void Prev() override {
    if (direction_ != Direction::kBackward) [[unlikely]]
      Turn(Direction::kBackward);
    iterator_->Prev();
    Copy();
  }
  Status status() const override { return iterator_->status(); }

 private:
  friend class RecordedReads;

  enum class Direction : uint8_t { kNone, kForward, kBackward };

  void Copy() {
    valid_ = iterator_->Valid();
    if (!valid_) return;
    key_ = iterator_->key();
    value_ = iterator_->value();
  }

  // Folds a key if the family folds. Returns nothing for one that cannot be
  // folded; then the whole of the bounds counts as read.
  std::optional<std::string> Stored(const Slice* key) const {
    if (key == nullptr) return std::nullopt;
    BatchIndex::StoredKey stored;
    if (!stored.Set(*key, folding_).ok()) return std::nullopt;
    return stored.slice().ToString();
  }

  // Begins a range at the target, or at the first or last position. The bounds
  // may be others at the next seek, so they are copied.
  void Begin(Direction direction, const Slice* target) {
    if (reads_ == nullptr) return;
    Finish();
    direction_ = direction;
    lower_ = Stored(lower_bound_);
    upper_ = Stored(upper_bound_);
    begin_is_known_ = direction == Direction::kForward || target != nullptr;
    end_is_known_ = direction == Direction::kBackward || target != nullptr;
    range_.begin = lower_;
    range_.end = upper_;
    range_.end_is_inclusive = false;
    std::optional<std::string> at = Stored(target);
    if (!at.has_value()) return;
    if (!lower_.has_value() || comparator_.Compare(*at, *lower_) > 0) {
      range_.begin = at;
    }
    if (!upper_.has_value() || comparator_.Compare(*at, *upper_) < 0) {
      range_.end = std::move(at);
      range_.end_is_inclusive = true;
    }
  }

  void Turn(Direction direction) {
    NotePosition();
    direction_ = direction;
  }

  // Extends the range to the present position.
  void NotePosition() {
    if (direction_ == Direction::kNone || reads_ == nullptr) return;
    if (!iterator_->Valid()) {
      if (direction_ == Direction::kForward) {
        range_.end = upper_;
        range_.end_is_inclusive = false;
        end_is_known_ = true;
      } else {
        range_.begin = lower_;
        begin_is_known_ = true;
      }
      return;
    }
    const Slice key = iterator_->key();
    if (!begin_is_known_ || (range_.begin.has_value() &&
                             comparator_.Compare(key, *range_.begin) < 0)) {
      range_.begin = key.ToString();
      begin_is_known_ = true;
    }
    if (!end_is_known_ ||
        (range_.end.has_value() && comparator_.Compare(key, *range_.end) > 0)) {
      range_.end = key.ToString();
      range_.end_is_inclusive = true;
      end_is_known_ = true;
    }
  }

  // Adds the range up to now.
  void NoteRange() {
    if (direction_ == Direction::kNone) return;
    NotePosition();
    // A seek beyond a bound has read nothing.
    const bool is_empty = range_.begin.has_value() && range_.end.has_value() &&
                          comparator_.Compare(*range_.begin, *range_.end) >
                              (range_.end_is_inclusive ? 0 : -1);
    if (!is_empty) reads_->ranges_.push_back(range_);
  }

  void Finish() {
    NoteRange();
    direction_ = Direction::kNone;
  }

  RecordedReads* reads_;  // Null after its Clear.
  const std::unique_ptr<Iterator> iterator_;
  const Comparator& comparator_;
  const KeyFolding folding_;
  const Slice* const lower_bound_;
  const Slice* const upper_bound_;
  // Of the present range. One side is not known before the first position.
  Direction direction_ = Direction::kNone;
  bool begin_is_known_ = false;
  bool end_is_known_ = false;
  std::optional<std::string> lower_;
  std::optional<std::string> upper_;
  TrackedRange range_;
  RecordingIterator* next_;
  RecordingIterator* previous_ = nullptr;
};

std::unique_ptr<Iterator> RecordedReads::Record(
    std::unique_ptr<Iterator> iterator, ColumnFamilyHandle* family,
    const ReadOptions& options) {
  return std::make_unique<RecordingIterator>(this, std::move(iterator), family,
                                             options);
}

const std::vector<TrackedRange>& RecordedReads::Ranges() {
  for (RecordingIterator* it = iterators_; it != nullptr; it = it->next_) {
    it->NoteRange();
  }
  return ranges_;
}

void RecordedReads::Clear() {
  for (RecordingIterator* it = iterators_; it != nullptr; it = it->next_) {
    it->reads_ = nullptr;
  }
  iterators_ = nullptr;
  ranges_.clear();
}

}  // namespace varve
