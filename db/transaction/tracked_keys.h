// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The keys that the commit of an optimistic transaction checks: a hash table in
// an arena, whose memory is used again by the next transaction.
// Thread-safety: owned by one thread at a time.

#include <cstdint>

#include "db/indexed_batch/batch_arena.h"
#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// Its bytes follow. It stays at its address until Clear.
struct TrackedKey {
  TrackedKey* next;  // The key that was tracked after this one.
  // Nobody else may have changed the key after this moment.
  SequenceNumber since;
  uint32_t hash;
  uint32_t family;  // The id of the column family.
  uint32_t size;
  // The calls of GetForUpdate, and the updates, that need the check. None is
  // left if they were all taken back.
  uint32_t reads;
  uint32_t writes;
  // A serializable transaction knows the key's value. This is not taken back.
  bool is_known;

  Slice key() const { return {reinterpret_cast<const char*>(this + 1), size}; }
  bool IsNeeded() const { return reads != 0 || writes != 0 || is_known; }
};

class TrackedKeys {
 public:
  TrackedKeys() = default;
  TrackedKeys(const TrackedKeys&) = delete;
  TrackedKeys& operator=(const TrackedKeys&) = delete;

  // Returns the key, or null if it was not added.
  TrackedKey* Find(uint32_t family, const Slice& key) const;
  // Returns the key. Adds it if it is not there: nothing needs it then, and the
  // caller must set `since`.
  TrackedKey* FindOrAdd(uint32_t family, const Slice& key);
  // Removes all keys, and keeps the memory.
  void Clear();

  bool empty() const { return count_ == 0; }
  // Follow `next` for the others.
  const TrackedKey* first() const { return first_; }

 private:
  static uint32_t Hash(uint32_t family, const Slice& key);
  // Returns the key's slot, or the free one for it. REQUIRES: there are slots.
  TrackedKey** SlotOf(uint32_t hash, uint32_t family, const Slice& key) const;
  void Grow();

  static constexpr uint32_t kFirstSlots = 16;

  BatchArena arena_;
  TrackedKey** slots_ = nullptr;  // In the arena; at least half are free.
  uint32_t slot_count_ = 0;       // A power of two, or 0.
  uint32_t count_ = 0;
  TrackedKey* first_ = nullptr;
  TrackedKey* last_ = nullptr;
};

}  // namespace varve
