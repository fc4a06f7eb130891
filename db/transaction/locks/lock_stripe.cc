// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/locks/lock_stripe.h"

#include <cstring>
#include <new>
#include <utility>

namespace varve {

LockEntry* LockStripe::Find(uint64_t hash, uint32_t family,
                            const Slice& key) const {
  if (size_ == 0) return nullptr;
  LockEntry* entry = buckets_[BucketOf(hash)];
  while (entry != nullptr && (entry->hash != hash || entry->family != family ||
                              entry->key() != key)) {
    entry = entry->next;
  }
  return entry;
}

LockEntry* LockStripe::Add(uint64_t hash, uint32_t family, const Slice& key) {
  if (size_ == bucket_count_) Grow();
  auto* const entry =
      new (pool_.Take(sizeof(LockEntry) + key.size())) LockEntry();
  entry->hash = hash;
  entry->family = family;
  entry->key_size = static_cast<uint32_t>(key.size());
  if (!key.empty()) memcpy(entry + 1, key.data(), key.size());
  entry->next = std::exchange(buckets_[BucketOf(hash)], entry);
  ++size_;
  return entry;
}

void LockStripe::Remove(LockEntry* entry) {
  VARVE_DCHECK(entry->hold_count == 0 && entry->first == nullptr);
  LockEntry** link = &buckets_[BucketOf(entry->hash)];
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  --size_;
  pool_.Give(entry, sizeof(LockEntry) + entry->key_size);
  TrimIfEmpty();
}

LockEntry* LockStripe::FirstOf(size_t bucket, uint32_t family) const {
  LockEntry* entry = buckets_[bucket];
  while (entry != nullptr && entry->family != family) entry = entry->next;
  return entry;
}

LockHold* LockStripe::AddHold(LockEntry* entry, LockOwner* owner) {
  auto* const hold = new (pool_.Take(sizeof(LockHold))) LockHold();
  hold->owner = owner;
  hold->entry = entry;
  hold->tag = static_cast<uint32_t>(entry->hash >> 32);
  hold->next_of_key = entry->holds;
  if (entry->holds != nullptr) entry->holds->previous_of_key = hold;
  entry->holds = hold;
  ++entry->hold_count;
  return hold;
}

void LockStripe::Detach(LockHold* hold) {
  LockEntry* const entry = std::exchange(hold->entry, nullptr);
  LockHold* const previous = hold->previous_of_key;
  (previous == nullptr ? entry->holds : previous->next_of_key) =
      hold->next_of_key;
  if (hold->next_of_key != nullptr) {
    hold->next_of_key->previous_of_key = previous;
  }
  --entry->hold_count;
}

void LockStripe::Free(LockHold* hold) {
  pool_.Give(hold, sizeof(LockHold));
  TrimIfEmpty();
}

void LockStripe::Grow() {
  const size_t count = bucket_count_ == 0 ? kFirstBuckets : bucket_count_ * 2;
  auto old = std::exchange(buckets_, std::make_unique<LockEntry*[]>(count));
  const size_t old_count = std::exchange(bucket_count_, count);
  for (size_t i = 0; i < old_count; ++i) {
    for (LockEntry* entry = old[i]; entry != nullptr;) {
      LockEntry* const next = entry->next;
      entry->next = std::exchange(buckets_[BucketOf(entry->hash)], entry);
      entry = next;
    }
  }
}

void LockStripe::TrimIfEmpty() {
  if (pool_.has_blocks_out()) return;
  pool_.Trim();
  if (bucket_count_ <= kKeptBuckets) return;
  buckets_.reset();
  bucket_count_ = 0;
}

}  // namespace varve
