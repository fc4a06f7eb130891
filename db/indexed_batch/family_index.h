// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "db/indexed_batch/batch_arena.h"
#include "db/indexed_batch/batch_entries.h"
#include "db/indexed_batch/key_order.h"
#include "db/indexed_batch/range_cover.h"
#include "util/bytes/key_fold.h"
#include "varve/comparator.h"
#include "varve/slice.h"

namespace varve {

// Finds the updates of a column family in a batch.
//
// A hash table finds the updates of a key, as the memtable's point index does.
// The order of the keys is built when it is first needed, and kept up to date
// from then on: a batch that is only read by key does not pay for it. With a
// comparator that is not the library's, keys with different bytes can be equal,
// so that there is the order alone.
//
// Has no destructor. Thread-safety: owned by one thread at a time.
class FamilyIndex {
 public:
  // What the batch says of a key.
  struct KeyState {
    EntryId newest = kNoEntry;  // Of the updates that no range deletion hides.
    // Older updates are deleted, and so is the key in the database. Otherwise
    // RangeCover::kNone.
    EntryId floor = RangeCover::kNone;
  };

  FamilyIndex(BatchEntries* entries, uint32_t place, uint32_t id,
              const Comparator* comparator, KeyFolding folding);

  // The index's place in BatchIndex, and the family's id.
  uint32_t place() const { return place_; }
  uint32_t id() const { return id_; }
  const Comparator* comparator() const { return comparator_; }
  KeyFolding folding() const { return folding_; }
  bool empty() const { return key_count_ == 0 && ranges_.empty(); }
  BatchEntries& entries() const { return *entries_; }

  int Compare(const Slice& a, const Slice& b) const {
    return is_bytewise_ ? a.compare(b) : comparator_->Compare(a, b);
  }

  // Returns Compare.
  auto Comparison() const {
    return [this](const Slice& a, const Slice& b) { return Compare(a, b); };
  }

  // ---- Reads. The key is folded if the family's keys are. ----

  KeyState Find(const Slice& key) const {
    const EntryId first = FindFirst(key);
    return StateOf(key, first == kNoEntry ? first : entries_->NewestOf(first));
  }
  // As Find, for the key whose oldest update is `first`.
  KeyState StateOf(EntryId first) const {
    return StateOf(entries_->KeyOf(first), entries_->NewestOf(first));
  }
  bool has_ranges() const { return !cover_.empty(); }
  // Returns whether a range deletion covers the key.
  bool IsCovered(const Slice& key) const {
    return FloorOf(key) != RangeCover::kNone;
  }
  // See RangeCover::FindStretch. REQUIRES: IsCovered(key).
  void FindStretch(const Slice& key, Slice* begin, Slice* end) const {
    cover_.FindStretch(*entries_, key, Comparison(), begin, end);
  }

  // Returns the keys in order.
  const KeyOrder& Order() {
    if (!is_ordered_) [[unlikely]]
      BuildOrder();
    return order_;
  }
  // REQUIRES: Order() was called.
  KeyOrder::Place LowerBound(const Slice& key) const {
    return order_.LowerBound([this, &key](EntryId id) {
      return Compare(entries_->KeyOf(id), key) < 0;
    });
  }

  // ---- Changes ----

  // Adds the newest update of the batch.
  void Add(EntryId id);
  // Adds the newest update of the batch, a range deletion. REQUIRES: its begin
  // is before its end.
  void AddRange(EntryId id);
  // Removes the newest update of the batch. After a range deletion, the index
  // is usable only after RebuildCover.
  void Remove(EntryId id);
  bool needs_cover() const { return needs_cover_; }
  void RebuildCover();

 private:
  struct Slot {
    uint32_t hash;
    EntryId first;  // Or kNoEntry.
  };

  static uint32_t Hash(const Slice& key);

  KeyState StateOf(const Slice& key, EntryId newest) const {
    const EntryId floor = FloorOf(key);
    // kNoEntry is above all floors.
    return {newest < floor ? kNoEntry : newest, floor};
  }
  EntryId FloorOf(const Slice& key) const {
    if (cover_.empty()) [[likely]]
      return RangeCover::kNone;
    return cover_.FloorOf(*entries_, key, Comparison());
  }

  // Returns the key's oldest update, or kNoEntry.
  EntryId FindFirst(const Slice& key) const;
  // Returns the slot of the key, or the one for it. REQUIRES: there are slots.
  Slot* FindSlot(const Slice& key, uint32_t hash) const;
  void AddSlot(EntryId id, uint32_t hash);
  void RemoveSlot(Slot* slot);
  void GrowSlots();
  void BuildOrder();

  BatchEntries* const entries_;
  const uint32_t place_;
  const uint32_t id_;
  const Comparator* const comparator_;
  const KeyFolding folding_;
  const bool is_bytewise_;
  const bool is_hashed_;
  bool is_ordered_;
  bool needs_cover_ = false;
  uint32_t key_count_ = 0;
  uint32_t slot_mask_ = 0;  // The number of slots, a power of two, minus 1.
  Slot* slots_ = nullptr;   // Linear probing, at most 5/8 full.
  KeyOrder order_;
  RangeCover cover_;
  ArenaArray<EntryId> ranges_;  // Oldest first, without empty ones.
};

}  // namespace varve
