// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "catalog/spelling_table.h"

#include <bit>

namespace varve {

SpellingTable::SpellingTable(size_t max_spellings)
    : bucket_mask_(std::bit_floor(max_spellings / kWays) - 1),
      places_(std::make_unique<std::atomic<const Spelling*>[]>(
          (bucket_mask_ + 1) * kWays)) {}

SpellingTable::~SpellingTable() {
  for (size_t i = 0; i < (bucket_mask_ + 1) * kWays; ++i) {
    // relaxed: nobody reads any more.
    delete places_[i].load(std::memory_order_relaxed);
  }
}

void SpellingTable::RetireSpelling(const Spelling* spelling) {
  Retire(const_cast<Spelling*>(spelling),
         [](void* object) { delete static_cast<Spelling*>(object); });
}

bool SpellingTable::Learn(const SpelledName& name, CatalogEntry* entry) {
  if (name.bytes.size() > kMaxBytes || Find(name) != nullptr) {
    return false;
  }
  std::atomic<const Spelling*>* const bucket =
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
  const Spelling* const old = bucket[place].load(std::memory_order_relaxed);
  // release: pairs with the acquire in Find.
  bucket[place].store(
      new Spelling{name.first, name.last, entry, name.bytes.ToString()},
      std::memory_order_release);
  if (old != nullptr) RetireSpelling(old);
  return true;
}

void SpellingTable::Forget(const CatalogEntry* entry) {
  for (size_t i = 0; i < (bucket_mask_ + 1) * kWays; ++i) {
    // relaxed, both: it changes with the mutex held only, and who sees the null
    // early or late does no harm.
    const Spelling* const spelling = places_[i].load(std::memory_order_relaxed);
    if (spelling == nullptr || spelling->entry != entry) continue;
    places_[i].store(nullptr, std::memory_order_relaxed);
    --size_;
    RetireSpelling(spelling);
  }
}

}  // namespace varve
