// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/indexed_batch/family_index.h"

#include <algorithm>

#include "util/bytes/hash.h"

namespace varve {

FamilyIndex::FamilyIndex(BatchEntries* entries, uint32_t place, uint32_t id,
                         const Comparator* comparator, KeyFolding folding)
    : entries_(entries),
      place_(place),
      id_(id),
      comparator_(comparator),
      folding_(folding),
      is_bytewise_(comparator == BytewiseComparator()),
      is_hashed_(is_bytewise_ || comparator == ReverseBytewiseComparator()),
      is_ordered_(!is_hashed_) {}

uint32_t FamilyIndex::Hash(const Slice& key) {
  return static_cast<uint32_t>(PreviewXxh3(key));
}

FamilyIndex::Slot* FamilyIndex::FindSlot(const Slice& key,
                                         uint32_t hash) const {
  for (uint32_t i = hash & slot_mask_;; i = (i + 1) & slot_mask_) {
    Slot* const slot = &slots_[i];
    if (slot->first == kNoEntry ||
        (slot->hash == hash && entries_->KeyOf(slot->first) == key)) {
      return slot;
    }
  }
}

EntryId FamilyIndex::FindFirst(const Slice& key) const {
  if (is_hashed_) [[likely]]
    return slots_ == nullptr ? kNoEntry : FindSlot(key, Hash(key))->first;
  const KeyOrder::Place place = LowerBound(key);
  if (order_.IsEnd(place)) return kNoEntry;
  const EntryId first = order_.At(place);
  return Compare(entries_->KeyOf(first), key) == 0 ? first : kNoEntry;
}

void FamilyIndex::GrowSlots() {
  constexpr uint32_t kFirstSlots = 16;
  const Slot* const old = slots_;
  const uint32_t old_count = old == nullptr ? 0 : slot_mask_ + 1;
  const uint32_t count = std::max(2 * old_count, kFirstSlots);
  slots_ =
      static_cast<Slot*>(entries_->arena()->Allocate(count * sizeof(Slot)));
  slot_mask_ = count - 1;
  std::fill_n(slots_, count, Slot{.hash = 0, .first = kNoEntry});
  for (uint32_t i = 0; i < old_count; ++i) {
    if (old[i].first != kNoEntry) AddSlot(old[i].first, old[i].hash);
  }
}

void FamilyIndex::AddSlot(EntryId id, uint32_t hash) {
  uint32_t i = hash & slot_mask_;
  while (slots_[i].first != kNoEntry) i = (i + 1) & slot_mask_;
  slots_[i] = {.hash = hash, .first = id};
}

void FamilyIndex::RemoveSlot(Slot* slot) {
  // Moves slots into the gap that a search would not find beyond it.
  auto gap = static_cast<uint32_t>(slot - slots_);
  for (uint32_t i = gap;;) {
    i = (i + 1) & slot_mask_;
    if (slots_[i].first == kNoEntry) break;
    const uint32_t home = slots_[i].hash & slot_mask_;
    if (((i - home) & slot_mask_) < ((i - gap) & slot_mask_)) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap].first = kNoEntry;
}

void FamilyIndex::Add(EntryId id) {
  BatchEntries& entries = *entries_;
  const Slice key = entries.KeyOf(id);
  EntryId first = kNoEntry;
  if (is_hashed_) [[likely]] {
    const uint32_t hash = Hash(key);
    if (uint64_t{key_count_} * 8 >= (uint64_t{slot_mask_} + 1) * 5 ||
        slots_ == nullptr) [[unlikely]] {
      GrowSlots();
    }
    Slot* const slot = FindSlot(key, hash);
    first = slot->first;
    if (first == kNoEntry) *slot = {.hash = hash, .first = id};
  }
  if (first == kNoEntry && is_ordered_) {
    const KeyOrder::Place place = LowerBound(key);
    if (!is_hashed_ && !order_.IsEnd(place) &&
        Compare(entries.KeyOf(order_.At(place)), key) == 0) {
      first = order_.At(place);
    } else {
      order_.Insert(entries.arena(), place, id);
    }
  }
  if (first == kNoEntry) {
    ++key_count_;
    return;
  }
  const EntryId newest = entries.NewestOf(first);
  entries[id].older = newest;
  entries[id].newer = first;
  entries[newest].newer = id;
  entries[first].older = id;
}

void FamilyIndex::AddRange(EntryId id) {
  ranges_.Append(entries_->arena(), id);
  cover_.Add(entries_, id, Comparison());
}

void FamilyIndex::Remove(EntryId id) {
  BatchEntries& entries = *entries_;
  if (entries.TypeOf(id) == ValueType::kRangeDeletion) {
    // An empty range is not among them.
    if (ranges_.empty() || ranges_.back() != id) return;
    ranges_.Truncate(ranges_.size() - 1);
    needs_cover_ = true;
    return;
  }
  if (entries.HasOlder(id)) {
    const EntryId first = entries.Newer(id);
    const EntryId older = entries.Older(id);
    entries[older].newer = first;
    entries[first].older = older;
    return;
  }
  --key_count_;
  const Slice key = entries.KeyOf(id);
  if (is_hashed_) RemoveSlot(FindSlot(key, Hash(key)));
  if (is_ordered_) order_.Erase(entries.arena(), LowerBound(key));
}

void FamilyIndex::RebuildCover() {
  needs_cover_ = false;
  cover_.Clear();
  for (const EntryId range : ranges_) {
    cover_.Add(entries_, range, Comparison());
  }
}

void FamilyIndex::BuildOrder() {
  is_ordered_ = true;
  if (key_count_ == 0) return;
  auto* const ids = static_cast<EntryId*>(
      entries_->arena()->Allocate(key_count_ * sizeof(EntryId)));
  uint32_t count = 0;
  for (uint32_t i = 0; i <= slot_mask_; ++i) {
    if (slots_[i].first != kNoEntry) ids[count++] = slots_[i].first;
  }
  std::sort(ids, ids + count, [this](EntryId a, EntryId b) {
    return Compare(entries_->KeyOf(a), entries_->KeyOf(b)) < 0;
  });
  order_.AppendSorted(entries_->arena(), ids, count);
}

}  // namespace varve
