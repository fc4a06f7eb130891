// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Cache of requested names: a bounded hash table from the bytes of a name to
// its database's entry, which evicts old names. It is read without a lock in
// read-side critical sections, and written with the owner's mutex held.
// Thread-safety: see each function.
//
// States
//   An array of places, in buckets of four. Each is null or points to a
//   CachedName, which never changes. A name's hash selects its bucket; it may
//   be in any place of the bucket.
// Transitions
//   T1 find: in a section, loads the places of a bucket (acquire).
//   T2 learn: with the mutex held, stores a new CachedName (release) in an
//      empty place of its bucket, or replaces the next one in turn, which is
//      retired.
//   T3 forget: with the mutex held, sets places to null and retires their
//      names.
// Invariants
//   I1 The CachedName that a place points to is complete, and lives as long as
//      a section that found it: it is unlinked before it is retired.
//   I2 A cached name is in at most one place: T2 searches for it with the mutex
//      held.
//   I3 The entry that a cached name points to lives at least as long: an owner
//      that ends an entry does T3 and then retires the entry.
// Why each order is needed
//   release and acquire make the CachedName's fields visible (I1). No read
//   depends on two places.
// Bad interleavings prevented
//   B1 A reader compares a cached name that T2 replaces at that moment. It has
//      the old one, which is still alive and still correct.
//   B2 A reader finds the cached name of an entry that is being dropped. By I3
//      the entry is alive; the entry itself shows its state.
// Freshness and progress
//   A reader may miss a name that was just learned, and then takes the slow
//   path. No thread waits.
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

// A name with its hash and with its first and last eight bytes, or all bytes of
// a shorter name, for comparison. Names of up to sixteen bytes are compared by
// these alone.
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
  // Longer names are not learned, since no database has one.
  static constexpr size_t kMaxBytes = 256;

  // Keeps at most `max_cached_names` names. REQUIRES: at least 4.
  explicit NameCache(size_t max_cached_names);
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;
  // REQUIRES: no thread reads it any more.
  ~NameCache();

  // Returns the entry, or null if the name is not cached.
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

  // REQUIRES for all three: the owner's mutex is held. Learn returns false if
  // the name is already cached or too long.
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
