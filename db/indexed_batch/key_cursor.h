// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "db/indexed_batch/batch_index.h"
#include "db/indexed_batch/family_index.h"
#include "db/indexed_batch/key_order.h"
#include "varve/slice.h"

namespace varve {

// A position among the keys of a family in a batch, in order. A key whose
// updates are all deleted is one of them.
//
// It stays at its key if keys are added. If updates were removed it is lost,
// and must seek. Thread-safety: owned by one thread at a time.
class KeyCursor {
 public:
  // `index` must outlive this object.
  KeyCursor(BatchIndex* index, const FamilyIndex& family)
      : index_(*index),
        family_id_(family.id()),
        comparator_(family.comparator()),
        folding_(family.folding()) {}
  KeyCursor(const KeyCursor&) = delete;
  KeyCursor& operator=(const KeyCursor&) = delete;

  KeyFolding folding() const { return folding_; }
  // Returns whether updates were removed since the last seek.
  bool IsLost() const { return removals_ != index_.removals(); }
  // Returns whether neither keys were added nor updates removed since the last
  // move.
  bool IsCurrent() const {
    return !IsLost() && version_ == family_->Order().version();
  }

  // Makes the family usable after updates were removed. Seeks do so, too. The
  // cursor is at no key then. Returns an error if the batch now has updates of
  // the family with another comparator or folding.
  Status Renew();
  // REQUIRES: !IsLost().
  FamilyIndex& family() const { return *family_; }

  // Move to a key; `target` is folded. REQUIRES: !IsLost().
  void SeekToFirst() { Set({}); }
  void SeekToLast() { SetBefore(family_->Order().End()); }
  void Seek(const Slice& target) {
    family_->Order();
    Set(family_->LowerBound(target));
  }
  void SeekForPrev(const Slice& target) {
    const KeyOrder& order = family_->Order();
    const KeyOrder::Place place = family_->LowerBound(target);
    if (!order.IsEnd(place) &&
        family_->Compare(index_.entries().KeyOf(order.At(place)), target) ==
            0) {
      Set(place);
    } else {
      SetBefore(place);
    }
  }
  // Moves to the first key after `target`, or to the last key before it.
  void SeekAfter(const Slice& target) {
    Seek(target);
    if (valid_ && family_->Compare(key(), target) == 0) Next();
  }
  void SeekBefore(const Slice& target) {
    family_->Order();
    SetBefore(family_->LowerBound(target));
  }
  void Next() {
    Find();
    Set(family_->Order().Next(place_));
  }
  void Prev() {
    Find();
    SetBefore(place_);
  }

  // The others REQUIRE: Valid().
  bool Valid() const { return valid_; }
  // Returns the key's oldest update.
  EntryId first() const { return first_; }
  // Valid until the batch changes.
  Slice key() const { return index_.entries().KeyOf(first_); }
  FamilyIndex::KeyState State() const { return family_->StateOf(first_); }

 private:
  void Set(KeyOrder::Place place) {
    const KeyOrder& order = family_->Order();
    version_ = order.version();
    place_ = place;
    valid_ = !order.IsEnd(place);
    if (valid_) first_ = order.At(place);
  }
  void SetBefore(KeyOrder::Place place) {
    const KeyOrder& order = family_->Order();
    Set(KeyOrder::IsFirst(place) ? order.End() : order.Previous(place));
  }
  // Makes place_ the one of first_.
  void Find() {
    if (version_ != family_->Order().version()) {
      place_ = family_->LowerBound(key());
    }
  }

  BatchIndex& index_;
  const uint32_t family_id_;
  const Comparator* const comparator_;
  const KeyFolding folding_;
  FamilyIndex* family_ = nullptr;
  uint64_t removals_ = UINT64_MAX;  // Of index_, when family_ was found.
  uint64_t version_ = 0;            // Of the order, when place_ was.
  KeyOrder::Place place_;
  EntryId first_ = kNoEntry;
  bool valid_ = false;
};

inline Status KeyCursor::Renew() {
  if (!IsLost()) return Status::OK();
  valid_ = false;
  FamilyIndex* found = nullptr;
  Status status = index_.FindFamily(family_id_, comparator_, folding_, &found);
  if (!status.ok()) return status;
  family_ = found;
  removals_ = index_.removals();
  return status;
}

}  // namespace varve
