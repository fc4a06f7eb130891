// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Block cache with swizzled pointers and CLOCK eviction. The slot of a table's
// index holds the address of the cached block, so a hit is one load and no
// lookup. The cache itself keeps only the data for eviction: a ring of all
// blocks in each shard, and the hand of the clock.
//
// The hand passes over a block that is pinned. It clears the mark of a block
// that was used since its last visit, and evicts a block without a mark. If
// blocks are read often and inserted rarely, all are marked, and the hand would
// go around the whole ring for one insertion, with the shard's mutex held. So
// an insertion spares at most kMaxSpared marked blocks, and then evicts the
// next one marked or not. The hand has not visited that block for longer than
// any other. A whole turn, if all blocks are marked, evicts its oldest as well.
// With random reads less than half of the blocks are marked, so the bound is
// hardly ever reached, and hit rates stay as they are without it
// (docs/results/read_path.md).
//
// States. A slot is null, or points to a block that is in a ring and carries
// the cache's hold. Only a thread that holds the shard's mutex changes a slot.
// A block's `refs` counts pins and the hold.
// Transitions
//   T1 Insert stores a block into an empty slot with release.
//   T2 A reader loads a slot with acquire, inside a read-side critical section.
//   T3 Evict stores null and removes the block from its ring. The block is
//      retired after the mutex is released, because the retiring thread may
//      have to free others. The hold is dropped when every read-side critical
//      section that may have seen the block has ended.
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

  // Bounds of one insertion: the blocks that it spares because they are marked,
  // the pinned blocks that it meets, and the blocks that it evicts. It evicts
  // more only if its own bytes need that.
  static constexpr size_t kMaxSpared = 32;
  static constexpr size_t kMaxPinned = 32;
  static constexpr size_t kMaxEvicted = 32;
  // Bounds the time for which work on a whole ring holds the mutex.
  static constexpr size_t kMaxLooks = 64;
  // Returns how many blocks the hands have visited.
  uint64_t TEST_Looks() const;

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
    uint64_t looks VARVE_GUARDED_BY(mutex) = 0;
  };

  // Blocks that left the ring. They are retired when the object is destroyed,
  // which is after the mutex is released.
  class Evicted {
   public:
    Evicted() = default;
    ~Evicted();
    Evicted(const Evicted&) = delete;
    Evicted& operator=(const Evicted&) = delete;

    void Add(Block* block);

   private:
    Block* first_ = nullptr;
  };

  Shard* ShardOf(const BlockSlot* slot) const;
  // Evicts for the insertion of `more_bytes`, within the bounds above. If usage
  // then still exceeds the capacity, later insertions evict the rest.
  static void MakeSpace(Shard* shard, size_t more_bytes, Evicted* evicted)
      VARVE_REQUIRES(shard->mutex);
  // Evicts until usage does not exceed the capacity, or all blocks are pinned.
  // Releases the mutex every kMaxLooks looks.
  static void Shrink(Shard* shard) VARVE_EXCLUDES(shard->mutex);
  // Returns the block at the hand, and moves the hand on.
  static Block* Look(Shard* shard) VARVE_REQUIRES(shard->mutex);
  static void Evict(Shard* shard, Block* block, Evicted* evicted)
      VARVE_REQUIRES(shard->mutex);
  static void RemoveFromRing(Shard* shard, Block* block)
      VARVE_REQUIRES(shard->mutex);

  const bool strict_;
  const size_t shard_count_;
  const std::unique_ptr<Shard[]> shards_;
};

}  // namespace varve
