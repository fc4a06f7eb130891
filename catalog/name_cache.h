// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A cache of names: which database a name led to that was requested with the
// same bytes before. A hash table of bounded size that forgets. It is read in
// read-side critical sections, without a lock, and written with its owner's
// mutex held.
// Thread-safety: as each function says.
//
// Words and states
//   An array of places, in buckets of four; each is null or leads to a
//   CachedName, which never changes. The hash of a name says which bucket it is
//   in, nothing says which place.
// Transitions
//   T1 find: in a section, loads the places of a bucket (acquire).
//   T2 learn: with the mutex, stores a new CachedName (release) to an empty
//      place of its bucket, or over the one whose turn it is, which is retired.
//   T3 forget: with the mutex, nulls places and retires what was there.
// Invariants
//   I1 what a place leads to is whole, and lives as long as a section that
//      found it: retired after it was unlinked.
//   I2 a cached name is in one place at most: T2 looks for it with the mutex
//      held.
//   I3 the entry that a cached name leads to lives at least as long: an owner
//      that ends an entry does T3, and then retires it.
// Why each order is needed
//   release and acquire make the CachedName's fields visible (I1). Nothing is
//   read that depends on two places.
// Bad interleavings prevented
//   B1 a reader compares a cached name that T2 replaces at that moment: it has
//      the old one, which is still alive and still right.
//   B2 a reader finds the cached name of an entry that is being dropped: I3;
//      what the entry says of itself is not the table's business.
// Freshness and progress
//   A reader may miss what was just learnt, and then goes the slow way. Nobody
//   waits.
// Reclamation
//   util/threads/epoch.h.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "util/bytes/coding.h"
#include "util/bytes/hash.h"
#include "util/threads/epoch.h"
#include "varve/slice.h"

namespace varve {

struct CatalogEntry;

// A name with what it is compared by: its first and last eight bytes, or what
// there is of them, which up to sixteen bytes are all.
struct HashedName {
  explicit HashedName(const Slice& name) : bytes(name) {
    const char* const p = name.data();
    const size_t n = name.size();
    if (n >= 8) {
      first = DecodeFixed64(p);
      last = DecodeFixed64(p + n - 8);
    } else if (n >= 4) {
      first = DecodeFixed32(p);
      last = DecodeFixed32(p + n - 4);
    } else {
      for (const char c : name) {
        first = first << 8 | static_cast<unsigned char>(c);
      }
    }
    hash = n <= 16
               ? hash_internal::Fold(first ^ hash_internal::kSecretWord0,
                                     (last + n) ^ hash_internal::kSecretWord1)
               : PreviewXxh3(name);
  }

  Slice bytes;
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t hash = 0;
};

class NameCache {
 public:
  // Longer ones are not learnt: none is the name of a database.
  static constexpr size_t kMaxBytes = 256;

  // Keeps `max_cached_names` at most. REQUIRES: at least 4.
  explicit NameCache(size_t max_cached_names);
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;
  // REQUIRES: nobody reads any more.
  ~NameCache();

  // Null if the name is not cached.
  // REQUIRES: the caller is in a read-side critical section.
  CatalogEntry* Find(const HashedName& name) const {
    const std::atomic<const CachedName*>* const bucket = BucketOf(name.hash);
    for (size_t i = 0; i < kWays; ++i) {
      // acquire: pairs with the release in Learn.
      const CachedName* const s = bucket[i].load(std::memory_order_acquire);
      if (s != nullptr && s->first == name.first && s->last == name.last &&
          s->bytes.size() == name.bytes.size() &&
          (name.bytes.size() <= 16 || name.bytes == Slice(s->bytes))) {
        return s->entry;
      }
    }
    return nullptr;
  }

  // All three REQUIRE that the owner's mutex is held. False if the name is
  // known already, or too long.
  bool Learn(const HashedName& name, CatalogEntry* entry);
  void Forget(const CatalogEntry* entry);
  size_t size() const { return size_; }

 private:
  static constexpr size_t kWays = 4;

  struct CachedName {
    uint64_t first;
    uint64_t last;
    CatalogEntry* entry;
    std::string bytes;
  };

  const std::atomic<const CachedName*>* BucketOf(uint64_t hash) const {
    return &places_[(hash & bucket_mask_) * kWays];
  }
  static void RetireName(const CachedName* cached);

  // Immutable after construction.
  size_t bucket_mask_ = 0;
  std::unique_ptr<std::atomic<const CachedName*>[]> places_;

  // Guarded by the owner's mutex.
  size_t size_ = 0;
  size_t turn_ = 0;
};

}  // namespace varve
