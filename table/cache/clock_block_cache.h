// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Block cache with swizzled pointers and CLOCK eviction. The slot of a table's
// index holds the address of the cached block, so a hit is one load and no
// lookup. The cache itself keeps only the data for eviction: a ring of all
// blocks in each shard, and the hand of the clock.
//
// States. A slot is null, or points to a block that is in a ring and carries
// the cache's hold. Only a thread that holds the shard's mutex changes a slot.
// A block's `refs` counts pins and the hold.
// Transitions
//   T1 Insert stores a block into an empty slot with release.
//   T2 A reader loads a slot with acquire, inside a read-side critical section.
//   T3 Evict stores null, removes the block from its ring, and retires it. The
//      hold is dropped when every read-side critical section that may have seen
//      the block has ended.
//   T4 A reader that needs a block after its section pins the block inside the
//      section.
// Invariants
//   I1 A block that a reader got by T2 is not freed before its section ends,
//      nor while it is pinned.
//   I2 Usage is the sum of the charges of the blocks in the rings.
// Why each order is needed
//   T1 pairs with T2: the reader sees the block's bytes. For readers, T3 needs
//      no order of its own, because Retire begins with a barrier that all of
//      them pass. T3 is a release for B3.
// Bad interleavings prevented
//   B1 Two threads load the same block. Under the mutex the second one finds
//      the slot taken, uses that block and frees its own.
//   B2 A block is pinned (T4) after the hand has checked its pins and before
//      T3. It leaves the cache, and the last unpin frees it.
//   B3 A table is closed while another thread evicts one of its blocks. Both
//      hold the shard's mutex, and the table's memory is freed only after its
//      slots are empty. EraseTable skips empty slots without the mutex: its
//      acquire pairs with T3, the evictor's last access.
//
// Thread-safety: thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/cache/block_cache.h"
#include "util/base/mutex.h"

namespace varve {

class ClockBlockCache final : public BlockCache {
 public:
  explicit ClockBlockCache(const CacheOptions& options);
  ~ClockBlockCache() override;

  BlockRef Lookup(const BlockPlace& place) override;
  bool Admit(const BlockPlace& place) override;
  BlockRef Insert(const BlockPlace& place, BlockRef block) override;
  void EraseTable(uint64_t table_id, BlockSlots slots) override;

  size_t GetUsage() const override;
  size_t GetPinnedUsage() const override;
  void EraseUnreferenced() override;
  uint64_t PathCount() const override;

 protected:
  void Divide(size_t block_bytes) override;

 private:
  struct alignas(64) Shard {
    mutable Mutex mutex;
    size_t capacity_bytes VARVE_GUARDED_BY(mutex) = 0;
    size_t usage_bytes VARVE_GUARDED_BY(mutex) = 0;
    std::vector<Block*> ring VARVE_GUARDED_BY(mutex);
    size_t hand VARVE_GUARDED_BY(mutex) = 0;
    Admission admission VARVE_GUARDED_BY(mutex);
    uint64_t filled_slots VARVE_GUARDED_BY(mutex) = 0;
  };

  Shard* ShardOf(const BlockSlot* slot) const;
  // Evicts until `more_bytes` fit, or until two turns of the hand found no
  // block to evict.
  static void MakeSpace(Shard* shard, size_t more_bytes)
      VARVE_REQUIRES(shard->mutex);
  static void Evict(Shard* shard, Block* block) VARVE_REQUIRES(shard->mutex);
  static void RemoveFromRing(Shard* shard, Block* block)
      VARVE_REQUIRES(shard->mutex);

  const bool strict_;
  const size_t shard_count_;
  const std::unique_ptr<Shard[]> shards_;
};

}  // namespace varve
