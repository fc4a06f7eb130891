// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/indexed_batch/merged_iterator.h"

#include <optional>
#include <string>
#include <utility>

#include "db/indexed_batch/key_cursor.h"
#include "db/merge/merge_all.h"
#include "table/reader/merge_operands.h"

namespace varve {

namespace {

// One bound of the iterator.
class Bound {
 public:
  // The slice must outlive this object, except if keys are folded.
  Status Set(const Slice* given, KeyFolding folding) {
    if (given == nullptr) return Status::OK();
    if (folding == KeyFolding::kNone) {
      given_ = given;
      return Status::OK();
    }
    BatchIndex::StoredKey stored;
    Status status = stored.Set(*given, folding);
    if (status.ok()) key_ = copy_ = stored.slice().ToString();
    return status;
  }
  // The caller may have changed it.
  void Look() {
    if (given_ != nullptr) key_ = *given_;
  }
  const std::optional<Slice>& key() const { return key_; }

 private:
  const Slice* given_ = nullptr;
  std::string copy_;
  std::optional<Slice> key_;
};

// The current key is copied if it is the batch's, so that changes of the batch
// do not matter to it. In the direction of iteration, the base iterator and the
// cursor are each at the current key or at their first one beyond it.
class MergedIterator final : public Iterator {
 public:
  explicit MergedIterator(MergedIteratorParts parts)
      : cursor_(parts.index, *parts.family),
        index_(*parts.index),
        base_(std::move(parts.base)),
        merge_operator_(parts.merge_operator),
        ends_with_batch_(parts.ends_with_batch) {
    if (parts.options == nullptr) return;
    bound_error_ =
        lower_.Set(parts.options->iterate_lower_bound, cursor_.folding());
    if (!bound_error_.ok()) return;
    bound_error_ =
        upper_.Set(parts.options->iterate_upper_bound, cursor_.folding());
  }

  Status status() const override {
    return error_.ok() ? base_->status() : error_;
  }

  void SeekToFirst() override {
    if (!Begin(true)) return;
    if (lower_.key()) {
      cursor_.Seek(*lower_.key());
    } else {
      cursor_.SeekToFirst();
    }
    base_->SeekToFirst();
    Find();
  }
  void SeekToLast() override {
    if (!Begin(false)) return;
    if (upper_.key()) {
      cursor_.SeekBefore(*upper_.key());
    } else {
      cursor_.SeekToLast();
    }
    base_->SeekToLast();
    Find();
  }
  void Seek(const Slice& target) override {
    BatchIndex::StoredKey stored;
    if (!Begin(true) || !Store(target, &stored)) return;
    const std::optional<Slice>& lower = lower_.key();
    const bool is_below =
        lower && cursor_.family().Compare(stored.slice(), *lower) < 0;
    cursor_.Seek(is_below ? *lower : stored.slice());
    // Last, because the target may be its key.
    base_->Seek(target);
    Find();
  }
  void SeekForPrev(const Slice& target) override {
    BatchIndex::StoredKey stored;
    if (!Begin(false) || !Store(target, &stored)) return;
    const std::optional<Slice>& upper = upper_.key();
    if (upper && cursor_.family().Compare(stored.slice(), *upper) >= 0) {
      cursor_.SeekBefore(*upper);
    } else {
      cursor_.SeekForPrev(stored.slice());
    }
    base_->SeekForPrev(target);
    Find();
  }

  void Next() override { Move(true); }
  void Prev() override { Move(false); }

 private:
  enum class At : uint8_t { kBase, kBatch, kBoth };

  // Begins a seek.
  bool Begin(bool forward) {
    valid_ = false;
    forward_ = forward;
    lower_.Look();
    upper_.Look();
    error_ = bound_error_.ok() ? cursor_.Renew() : bound_error_;
    return error_.ok();
  }
  bool Store(const Slice& target, BatchIndex::StoredKey* stored) {
    error_ = stored->Set(target, cursor_.folding());
    return error_.ok();
  }

  void Move(bool forward) {
    // If updates were removed, the base iterator may have passed keys that are
    // not deleted any more.
    const bool turns = forward != forward_ || cursor_.IsLost();
    forward_ = forward;
    const bool has_ended = ends_with_batch_ && !cursor_.Valid();
    if (turns || (!cursor_.IsCurrent() && !has_ended)) [[unlikely]] {
      error_ = cursor_.Renew();
      if (!error_.ok()) {
        valid_ = false;
        return;
      }
      if (forward) {
        cursor_.SeekAfter(key_);
      } else {
        cursor_.SeekBefore(key_);
      }
    } else if (at_ != At::kBase) {
      StepCursor();
    }
    if (turns) {
      SeekBaseBeyond();
    } else if (at_ != At::kBatch) {
      StepBase();
    }
    Find();
  }
  void StepCursor() {
    if (forward_) {
      cursor_.Next();
    } else {
      cursor_.Prev();
    }
  }
  void StepBase() {
    if (forward_) {
      base_->Next();
    } else {
      base_->Prev();
    }
  }
  // Moves the base iterator to the first key beyond the current one.
  void SeekBaseBeyond() {
    if (at_ == At::kBase) saved_key_.assign(key_.data(), key_.size());
    const Slice key = saved_key_;
    if (forward_) {
      base_->Seek(key);
    } else {
      base_->SeekForPrev(key);
    }
    if (base_->Valid() && cursor_.family().Compare(base_->key(), key) == 0) {
      StepBase();
    }
  }

  bool IsInBounds(const Slice& key) const {
    const std::optional<Slice>& bound = forward_ ? upper_.key() : lower_.key();
    if (!bound) return true;
    const int order = cursor_.family().Compare(key, *bound);
    return forward_ ? order < 0 : order >= 0;
  }

  // Moves on to the first key that is not deleted.
  void Find() {
    valid_ = false;
    const FamilyIndex& family = cursor_.family();
    for (;;) {
      const bool has_base = base_->Valid();
      if (!has_base && !base_->status().ok()) return;
      const bool has_batch = cursor_.Valid() && IsInBounds(cursor_.key());
      if (!has_base && !has_batch) return;
      // Whether the base's key comes first.
      int order = has_base ? -1 : 1;
      if (has_base && has_batch) {
        order = family.Compare(base_->key(), cursor_.key());
        if (!forward_) order = -order;
      }
      if (order < 0) {
        if (family.has_ranges() && family.IsCovered(base_->key())) {
          SkipCovered();
          continue;
        }
        at_ = At::kBase;
        key_ = base_->key();
        value_ = base_->value();
        valid_ = true;
        return;
      }
      at_ = order == 0 ? At::kBoth : At::kBatch;
      if (TakeFromBatch()) return;
      StepCursor();
      if (order == 0) StepBase();
    }
  }

  // Moves the base iterator past the deleted keys around its own.
  void SkipCovered() {
    const FamilyIndex& family = cursor_.family();
    Slice begin;
    Slice end;
    family.FindStretch(base_->key(), &begin, &end);
    // Often a range has one key.
    StepBase();
    if (!base_->Valid()) return;
    if (forward_) {
      if (family.Compare(base_->key(), end) < 0) base_->Seek(end);
    } else if (family.Compare(base_->key(), begin) >= 0) {
      base_->SeekForPrev(begin);
      if (base_->Valid() && family.Compare(base_->key(), begin) == 0) {
        base_->Prev();
      }
    }
  }

  // Makes the cursor's key the current one. Returns false if the batch deletes
  // it. A failed merge is an error, and ends the iteration.
  bool TakeFromBatch() {
    const FamilyIndex::KeyState state = cursor_.State();
    if (state.newest == kNoEntry) return false;
    const BatchEntries& entries = index_.entries();
    const ValueType type = entries.TypeOf(state.newest);
    if (IsDeletion(type)) return false;
    const Slice key = entries.KeyOf(state.newest);
    saved_key_.assign(key.data(), key.size());
    if (type == ValueType::kMerge) [[unlikely]] {
      error_ = Merge(state);
      if (!error_.ok()) return true;
    } else {
      const Slice value = entries.ValueOf(state.newest);
      saved_value_.assign(value.data(), value.size());
    }
    key_ = saved_key_;
    value_ = saved_value_;
    valid_ = true;
    return true;
  }
  Status Merge(const FamilyIndex::KeyState& state) {
    MergeOperands operands;
    if (index_.CollectOperands(state, &operands) && at_ == At::kBoth) {
      operands.SetBase(base_->value());
    }
    return MergeAll(merge_operator_, saved_key_, operands, nullptr,
                    &saved_value_);
  }

  KeyCursor cursor_;
  BatchIndex& index_;
  const std::unique_ptr<Iterator> base_;
  const MergeOperator* const merge_operator_;
  const bool ends_with_batch_;
  Bound lower_;
  Bound upper_;
  Status bound_error_;
  bool forward_ = true;
  At at_ = At::kBase;  // Where the current entry is from.
  // Of the current entry, if it is from the batch.
  std::string saved_key_;
  std::string saved_value_;
  Status error_;
};

}  // namespace

std::unique_ptr<Iterator> NewMergedIterator(MergedIteratorParts parts) {
  return std::make_unique<MergedIterator>(std::move(parts));
}

}  // namespace varve
