// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The cache of data blocks behind Options::block_cache, as tables see it.
//
// A block in use is pinned: it stays in memory, counted, until the last
// BlockRef to it goes, whatever happens to its place in the cache meanwhile.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "table/block/block.h"
#include "table/index/table_index.h"
#include "util/base/mutex.h"
#include "varve/cache.h"

namespace varve {

// Where a block belongs: the slot of its table's index, and a key: the table
// and the handle, which only those caches load that need it.
struct BlockPlace {
  BlockSlot* slot = nullptr;
  uint64_t table_id = 0;
  const BlockHandle* handle = nullptr;
  // When the block was last missed; the cache's, which guards it.
  uint8_t* last_miss = nullptr;
};

// Which blocks are worth making for a cache that is full: those that are
// missed twice while about as much is missed as the cache holds. A block that
// is read once (and its time is counted in whole turns, hence "about") costs
// neither the making nor the place of another one.
// Thread-safety: the owner's mutex guards it and what last_miss points to.
class Admission {
 public:
  // Notes that a block of so many bytes is missed, and says whether to make
  // and insert it.
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

// The slots of a table, to go through them.
using BlockSlots = std::span<IndexNode>;

// Thread-safety: thread-safe.
class BlockCache : public Cache {
 public:
  ~BlockCache() override = default;

  // The block of a place; an empty ref if it is not here.
  virtual BlockRef Lookup(const BlockPlace& place) = 0;

  // Says whether to make the block of a place that was not found, and to
  // insert it.
  virtual bool Admit(const BlockPlace& place) = 0;

  // Puts a block here, of which nobody else knows yet, and returns a ref to
  // it. If another thread has put the same one here before, to that. A block
  // that does not fit is not kept, but belongs to the ref.
  virtual BlockRef Insert(const BlockPlace& place, BlockRef block) = 0;

  // Drops the blocks of a table, which nobody reads any more; those that are
  // pinned go when they are released.
  virtual void EraseTable(uint64_t table_id, BlockSlots slots) = 0;

  // Counts the steps that only this kind of cache takes, so that a measurement
  // can tell which one ran.
  virtual uint64_t WitnessCount() const = 0;

  // A number for a table, which no other that uses this cache has.
  uint64_t NewTableId() {
    // relaxed: only the uniqueness of the number counts.
    return next_table_id_.fetch_add(1, std::memory_order_relaxed);
  }

  void SetCapacity(size_t capacity_bytes) final;
  size_t GetCapacity() const override {
    // relaxed: only reported; what the shards do is behind their mutexes.
    return capacity_bytes_.load(std::memory_order_relaxed);
  }
  // Takes a part of the capacity for what is not a block: the index and filter
  // of a table. Blocks give way; what they cannot give is exceeded.
  void Reserve(size_t bytes) VARVE_EXCLUDES(capacity_mutex_);
  // Gives it back.
  void Unreserve(size_t bytes) VARVE_EXCLUDES(capacity_mutex_);

  // Whether blocks made now go onto huge pages.
  bool huge_pages() const {
    return huge_pages_ && GetCapacity() >= kMinHugePageCapacity;
  }

 protected:
  explicit BlockCache(const CacheOptions& options)
      : huge_pages_(options.huge_pages),
        capacity_bytes_(options.capacity_bytes) {}

  // Splits a new capacity, that for blocks, among the shards, and evicts what
  // goes beyond it.
  virtual void Divide(size_t block_bytes) = 0;
  size_t ReservedBytes() const VARVE_EXCLUDES(capacity_mutex_) {
    MutexLock lock(&capacity_mutex_);
    return reserved_bytes_;
  }
  // Into how many shards, a power of two, a capacity is split.
  static size_t ShardCount(size_t capacity_bytes);
  // The part of shard i, so that the parts add up.
  static size_t ShardPart(size_t capacity_bytes, size_t i, size_t count) {
    return capacity_bytes / count + (i < capacity_bytes % count ? 1 : 0);
  }

 private:
  static constexpr size_t kMinHugePageCapacity = size_t{64} << 20;

  void DivideRest() VARVE_REQUIRES(capacity_mutex_);

  const bool huge_pages_;
  // Before the mutexes of shards. Who changes the capacity holds it to the end
  // of the division.
  mutable Mutex capacity_mutex_;
  std::atomic<size_t> capacity_bytes_;
  size_t reserved_bytes_ VARVE_GUARDED_BY(capacity_mutex_) = 0;
  std::atomic<uint64_t> next_table_id_{1};
};

}  // namespace varve
