// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/tracked_keys.h"

#include <algorithm>
#include <cstring>

#include "util/bytes/hash.h"

namespace varve {

uint32_t TrackedKeys::Hash(uint32_t family, const Slice& key) {
  return static_cast<uint32_t>(PreviewXxh3(key) >> 32) ^ (family * 0x9E3779B1u);
}

TrackedKey** TrackedKeys::SlotOf(uint32_t hash, uint32_t family,
                                 const Slice& key) const {
  for (uint32_t i = hash;; ++i) {
    TrackedKey** const slot = &slots_[i & (slot_count_ - 1)];
    const TrackedKey* const there = *slot;
    if (there == nullptr || (there->hash == hash && there->family == family &&
                             there->key() == key)) {
      return slot;
    }
  }
}

TrackedKey* TrackedKeys::Find(uint32_t family, const Slice& key) const {
  if (slot_count_ == 0) return nullptr;
  return *SlotOf(Hash(family, key), family, key);
}

TrackedKey* TrackedKeys::FindOrAdd(uint32_t family, const Slice& key) {
  if (2 * count_ >= slot_count_) [[unlikely]]
    Grow();
  const uint32_t hash = Hash(family, key);
  TrackedKey** const slot = SlotOf(hash, family, key);
  if (*slot != nullptr) return *slot;
  void* const memory = arena_.Allocate(sizeof(TrackedKey) + key.size());
  TrackedKey* const added =
      new (memory) TrackedKey{.next = nullptr,
                              .since = 0,
                              .hash = hash,
                              .family = family,
                              .size = static_cast<uint32_t>(key.size()),
                              .reads = 0,
                              .writes = 0,
                              .is_known = false};
  if (!key.empty()) memcpy(added + 1, key.data(), key.size());
  *slot = added;
  (last_ == nullptr ? first_ : last_->next) = added;
  last_ = added;
  ++count_;
  return added;
}

void TrackedKeys::Grow() {
  slot_count_ = std::max(2 * slot_count_, kFirstSlots);
  slots_ = static_cast<TrackedKey**>(
      arena_.Allocate(slot_count_ * sizeof(TrackedKey*)));
  std::fill_n(slots_, slot_count_, nullptr);
  for (TrackedKey* key = first_; key != nullptr; key = key->next) {
    *SlotOf(key->hash, key->family, key->key()) = key;
  }
}

void TrackedKeys::Clear() {
  if (slot_count_ == 0) return;
  arena_.Reset();
  slots_ = nullptr;
  slot_count_ = 0;
  count_ = 0;
  first_ = nullptr;
  last_ = nullptr;
}

}  // namespace varve
