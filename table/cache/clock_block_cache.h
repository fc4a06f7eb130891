// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The block cache: a block's address stands in the slot of its table's index
// (a swizzled pointer), so that a hit is one load and no lookup. Here is only
// what eviction needs: rings of all blocks, over which the hand of a CLOCK
// goes.
//
// Words and states. A slot is null, or points to a block that is in a ring and
// carries the cache's hold; only who holds the shard's mutex changes it. A
// block's `refs` counts pins and the hold.
// Transitions. T1: Insert stores a block into an empty slot with release.
// T2: a reader, inside a read-side critical section, loads a slot with acquire.
// T3: Evict
// stores null, takes the block out of its ring, and retires it: the hold is
// dropped when every read-side critical section that may have seen it has
// ended. T4: a reader that needs a block beyond its section pins it inside.
// Invariants. I1: a block that a reader got by T2 is not freed before its
// section ends, nor while it is pinned. I2: usage is the sum of the charges of
// the blocks in the rings.
// Why. T1 pairs with T2: the block's bytes are seen. For readers T3 needs no
// order of its own, since Retire begins with a barrier that all of them pass;
// it is a release for the sake of B3.
// Bad interleavings. B1: two threads load the same block; under the mutex the
// second finds the slot taken, uses that block and frees its own. B2: a block
// is pinned (T4) between the hand's look at its pins and T3: it leaves the
// cache, and is freed by the last pin. B3: a table goes while another thread
// evicts a block of it: both do so under the shard's mutex, and the table's
// memory is freed only after its slots are empty. EraseTable skips empty slots
// without the mutex: its acquire pairs with T3, the evictor's last access.
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
  // Evicts until `more_bytes` fit, or two turns of the hand found nothing.
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
