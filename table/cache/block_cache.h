// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The interface between tables and the cache of data blocks
// (Options::block_cache).
//
// A block in use is pinned: it stays in memory until the last BlockRef to it is
// released, even if the cache evicts it before.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "table/block/block.h"
#include "table/index/table_index.h"
#include "util/base/mutex.h"
#include "varve/cache.h"

namespace varve {

class PartCache;

// Identifies a block by the slot of its table's index, and by a key of table
// and handle. Only caches that look blocks up by key use the key of a cached
// block.
struct BlockPlace {
  BlockSlot* slot = nullptr;
  uint64_t table_id = 0;
  const TableIndex* index = nullptr;
  size_t block = 0;  // Number in the index.
  // The turn in which the block was last missed. The cache owns and guards it.
  uint8_t* last_miss = nullptr;

  BlockHandle handle() const { return index->handle(block); }
};

// Decides which blocks to build and insert when the cache is full. A block is
// admitted on its second miss, if at most about one cache capacity of bytes was
// missed in between. Time is counted in turns of one capacity each, so the
// interval is approximate. A block that is read once thus costs no build and
// evicts no other block.
// Thread-safety: the owner's mutex guards it and the byte that last_miss points
// to.
class Admission {
 public:
  // Records a miss of a block of `bytes` bytes. Returns whether to build and
  // insert the block.
  bool Admit(uint8_t* last_miss, size_t bytes, size_t usage_bytes,
             size_t capacity_bytes) {
    if (bytes > capacity_bytes) return false;
    missed_bytes_ += bytes;
    if (missed_bytes_ >= capacity_bytes) {
      missed_bytes_ = 0;
      turn_ = Following(turn_);
    }
    const uint8_t before = *last_miss;
    *last_miss = turn_;
    return usage_bytes + bytes <= capacity_bytes || before == turn_ ||
           (before != kNever && Following(before) == turn_);
  }

 private:
  static constexpr uint8_t kNever = 0;
  static uint8_t Following(uint8_t turn) {
    return turn == UINT8_MAX ? 1 : static_cast<uint8_t>(turn + 1);
  }

  size_t missed_bytes_ = 0;  // In this turn.
  uint8_t turn_ = 1;
};

// The slots of a table, in the nodes of its index.
using BlockSlots = std::span<IndexNode>;

// Thread-safety: thread-safe.
class BlockCache : public Cache,
                   public std::enable_shared_from_this<BlockCache> {
 public:
  ~BlockCache() override = default;

  // Returns the cached block of a place, or an empty ref.
  virtual BlockRef Lookup(const BlockPlace& place) = 0;

  // Returns whether to build and insert the block of a place that was not
  // found.
  virtual bool Admit(const BlockPlace& place) = 0;

  // Inserts a block that no other thread knows yet, and returns a ref to it. If
  // another thread has inserted the same block before, returns a ref to that
  // block. A block that does not fit is not cached and is freed with its ref.
  virtual BlockRef Insert(const BlockPlace& place, BlockRef block) = 0;

  // Removes the blocks of a table that has no readers left. Pinned blocks are
  // freed when they are released.
  virtual void EraseTable(uint64_t table_id, BlockSlots slots) = 0;

  // Path counter: the number of times that code specific to this kind of cache
  // ran. Tests use it to tell caches apart.
  virtual uint64_t PathCount() const = 0;

  // Returns a number that no other table of this cache has.
  uint64_t NewTableId() {
    // relaxed: only the uniqueness of the number counts.
    return next_table_id_.fetch_add(1, std::memory_order_relaxed);
  }

  void SetCapacity(size_t capacity_bytes) final;
  size_t GetCapacity() const override {
    // relaxed: only reported. The shards have capacities of their own, guarded
    // by their mutexes.
    return capacity_bytes_.load(std::memory_order_relaxed);
  }
  // Reserves a part of the capacity for memory other than blocks, such as a
  // table's index and filter. Blocks are evicted to make space. If too few can
  // be evicted, usage exceeds the capacity.
  void Reserve(size_t bytes) VARVE_EXCLUDES(capacity_mutex_);
  // Releases a reservation.
  void Unreserve(size_t bytes) VARVE_EXCLUDES(capacity_mutex_);

  // Returns the cache of parts of all tables that are charged here
  // (table/reader/part_cache.h), made by `make` if there is none.
  template <typename Make>
  std::shared_ptr<PartCache> Parts(Make make) VARVE_EXCLUDES(parts_mutex_) {
    MutexLock lock(&parts_mutex_);
    std::shared_ptr<PartCache> parts = parts_.lock();
    if (parts == nullptr) parts_ = parts = make();
    return parts;
  }

  // Returns whether new blocks are put on huge pages.
  bool huge_pages() const {
    return huge_pages_ && GetCapacity() >= kMinHugePageCapacity;
  }

 protected:
  explicit BlockCache(const CacheOptions& options)
      : huge_pages_(options.huge_pages),
        capacity_bytes_(options.capacity_bytes) {}

  // Splits a new capacity for blocks among the shards, and evicts blocks that
  // exceed it.
  virtual void Divide(size_t block_bytes) = 0;
  size_t ReservedBytes() const VARVE_EXCLUDES(capacity_mutex_) {
    MutexLock lock(&capacity_mutex_);
    return reserved_bytes_;
  }
  // Returns the number of shards, a power of two, for a capacity.
  static size_t ShardCount(size_t capacity_bytes);
  // Returns the capacity of shard i. The parts add up to the whole.
  static size_t ShardPart(size_t capacity_bytes, size_t i, size_t count) {
    return capacity_bytes / count + (i < capacity_bytes % count ? 1 : 0);
  }

 private:
  static constexpr size_t kMinHugePageCapacity = size_t{64} << 20;

  void DivideRest() VARVE_REQUIRES(capacity_mutex_);

  const bool huge_pages_;
  // Acquired before the mutexes of shards. A change of the capacity holds it
  // until the division among the shards is complete.
  mutable Mutex capacity_mutex_;
  std::atomic<size_t> capacity_bytes_;
  size_t reserved_bytes_ VARVE_GUARDED_BY(capacity_mutex_) = 0;
  std::atomic<uint64_t> next_table_id_{1};
  Mutex parts_mutex_;
  std::weak_ptr<PartCache> parts_ VARVE_GUARDED_BY(parts_mutex_);
};

}  // namespace varve
