// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "catalog/name_cache.h"

#include <bit>

namespace varve {

NameCache::NameCache(size_t max_cached_names)
    : bucket_mask_(std::bit_floor(max_cached_names / kWays) - 1),
      places_(std::make_unique<std::atomic<const CachedName*>[]>(
          (bucket_mask_ + 1) * kWays)) {}

NameCache::~NameCache() {
  for (size_t i = 0; i < (bucket_mask_ + 1) * kWays; ++i) {
    // relaxed: no thread reads it any more.
    delete places_[i].load(std::memory_order_relaxed);
  }
}

void NameCache::RetireName(const CachedName* cached) {
  Retire(const_cast<CachedName*>(cached),
         [](void* object) { delete static_cast<CachedName*>(object); });
}

bool NameCache::Learn(const HashedName& name, CatalogEntry* entry) {
  if (name.bytes.size() > kMaxBytes || Find(name) != nullptr) {
    return false;
  }
  std::atomic<const CachedName*>* const bucket =
      &places_[(name.hash & bucket_mask_) * kWays];
  size_t place = 0;
  // relaxed: it changes with the mutex held only.
  while (place < kWays &&
         bucket[place].load(std::memory_order_relaxed) != nullptr) {
    ++place;
  }
  if (place == kWays) {
    place = turn_++ % kWays;
  } else {
    ++size_;
  }
  // relaxed: as above.
  const CachedName* const old = bucket[place].load(std::memory_order_relaxed);
  // release: pairs with the acquire in Find.
  bucket[place].store(
      new CachedName{name.first, name.last, entry, name.bytes.ToString()},
      std::memory_order_release);
  if (old != nullptr) RetireName(old);
  return true;
}

void NameCache::Forget(const CatalogEntry* entry) {
  for (size_t i = 0; i < (bucket_mask_ + 1) * kWays; ++i) {
    // relaxed, both: it changes with the mutex held only, and a reader may see
    // the null early or late.
    const CachedName* const cached = places_[i].load(std::memory_order_relaxed);
    if (cached == nullptr || cached->entry != entry) continue;
    places_[i].store(nullptr, std::memory_order_relaxed);
    --size_;
    RetireName(cached);
  }
}

}  // namespace varve
