// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A part of the lock table: a hash table of the keys that are locked, with
// their holders and the queues of those that wait. Nodes come from the stripe's
// pool. Thread-safety: all calls require the stripe's mutex.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "db/transaction/locks/lock_owner.h"
#include "db/transaction/locks/lock_pool.h"
#include "util/base/mutex.h"
#include "varve/slice.h"

namespace varve {

// A key that is locked. Its bytes follow. It has a holder at least.
struct LockEntry {
  LockEntry* next;  // In its bucket.
  uint64_t hash;
  LockHold* holds;     // The holders, of whom an exclusive one is the only one.
  LockAttempt* first;  // The queue.
  LockAttempt* last;
  uint32_t family;
  uint32_t key_size;
  uint32_t hold_count;
  LockMode mode;  // The holders'.

  Slice key() const {
    return {reinterpret_cast<const char*>(this + 1), key_size};
  }
};

// Own cache lines: neighbours are used by other threads.
class alignas(64) LockStripe {
 public:
  LockStripe() = default;
  LockStripe(const LockStripe&) = delete;
  LockStripe& operator=(const LockStripe&) = delete;

  Mutex* mutex() VARVE_RETURN_CAPABILITY(mutex_) { return &mutex_; }

  // Returns the key's entry, or null.
  LockEntry* Find(uint64_t hash, uint32_t family, const Slice& key) const
      VARVE_REQUIRES(mutex_);
  // Adds an entry, which has no holder yet. REQUIRES: the key has none.
  LockEntry* Add(uint64_t hash, uint32_t family, const Slice& key)
      VARVE_REQUIRES(mutex_);
  // Removes an entry without holders and waiters.
  void Remove(LockEntry* entry) VARVE_REQUIRES(mutex_);
  // Returns an entry of the family, or null if there is none in the bucket.
  LockEntry* FirstOf(size_t bucket, uint32_t family) const
      VARVE_REQUIRES(mutex_);
  // Calls function(const LockEntry&) with each entry.
  template <typename Function>
  void ForEach(Function function) const VARVE_REQUIRES(mutex_) {
    for (size_t i = 0; i < bucket_count_; ++i) {
      for (const LockEntry* e = buckets_[i]; e != nullptr; e = e->next) {
        function(*e);
      }
    }
  }
  size_t bucket_count() const VARVE_REQUIRES(mutex_) { return bucket_count_; }

  // Adds a holder to the entry.
  LockHold* AddHold(LockEntry* entry, LockOwner* owner) VARVE_REQUIRES(mutex_);
  // Takes the holder out of its entry. The hold stays its owner's.
  static void Detach(LockHold* hold);
  // REQUIRES: the hold is detached.
  void Free(LockHold* hold) VARVE_REQUIRES(mutex_);

 private:
  static constexpr size_t kFirstBuckets = 16;
  static constexpr size_t kKeptBuckets = 1024;

  size_t BucketOf(uint64_t hash) const VARVE_REQUIRES(mutex_) {
    return hash & (bucket_count_ - 1);
  }
  void Grow() VARVE_REQUIRES(mutex_);
  // Frees what many locks have left, when the last one is gone.
  void TrimIfEmpty() VARVE_REQUIRES(mutex_);

  Mutex mutex_;
  std::unique_ptr<LockEntry*[]> buckets_ VARVE_GUARDED_BY(mutex_);
  size_t bucket_count_ VARVE_GUARDED_BY(mutex_) = 0;  // A power of two, or 0.
  size_t size_ VARVE_GUARDED_BY(mutex_) = 0;
  LockPool pool_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
