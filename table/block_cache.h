// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The cache of data blocks behind Options::block_cache: a hash table with a
// list of what was used least lately, split into shards by key, each behind a
// mutex of its own.
//
// A block in use is pinned: it stays in memory, counted, until the last
// BlockRef to it goes, whatever happens to its place in the cache meanwhile.
//
// Thread-safety: thread-safe; a BlockRef is owned by one thread at a time.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "table/block.h"
#include "varve/cache.h"

namespace varve {

namespace block_cache_internal {
class Shard;
struct Entry;
}  // namespace block_cache_internal

// Keeps a block, of the cache or of its own, from going away.
// Lifetime: of a cached block, it must not outlive the cache.
class BlockRef {
 public:
  BlockRef() = default;
  // A block that no cache knows of.
  explicit BlockRef(std::unique_ptr<Block> block);
  BlockRef(BlockRef&& other) noexcept
      : entry_(std::exchange(other.entry_, nullptr)) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    if (this != &other) {
      Reset();
      entry_ = std::exchange(other.entry_, nullptr);
    }
    return *this;
  }
  ~BlockRef() { Reset(); }

  void Reset() {
    if (entry_ != nullptr) Release(std::exchange(entry_, nullptr));
  }
  explicit operator bool() const { return entry_ != nullptr; }
  // REQUIRES: it holds a block.
  const Block* get() const;
  const Block* operator->() const { return get(); }

  // Gives the hold away; whoever takes it calls Release on it, once.
  void* Detach() { return std::exchange(entry_, nullptr); }
  static void Release(void* detached);

 private:
  friend class block_cache_internal::Shard;
  explicit BlockRef(block_cache_internal::Entry* entry) : entry_(entry) {}

  block_cache_internal::Entry* entry_ = nullptr;
};

class BlockCache : public Cache {
 public:
  explicit BlockCache(const CacheOptions& options);
  ~BlockCache() override;

  // The block of a table at an offset; an empty ref if it is not here.
  BlockRef Lookup(uint64_t table_id, uint64_t offset);

  // Puts a block here and returns a ref to it. If another thread has put the
  // same one here before, to that. A block that does not fit is not kept, but
  // belongs to the ref.
  BlockRef Insert(uint64_t table_id, uint64_t offset,
                  std::unique_ptr<Block> block);

  // A number for a table, which no other that uses this cache has.
  uint64_t NewTableId();
  // Drops the blocks of a table; those in use go when they are released.
  void EraseTable(uint64_t table_id);

  void SetCapacity(size_t capacity_bytes) override;
  size_t GetCapacity() const override;
  size_t GetUsage() const override;
  size_t GetPinnedUsage() const override;
  void EraseUnreferenced() override;

  // Bytes that a block will be charged with.
  static size_t ChargeOf(const Block& block);

 private:
  block_cache_internal::Shard* ShardOf(uint64_t hash);

  // Immutable after construction.
  std::vector<std::unique_ptr<block_cache_internal::Shard>> shards_;
  // Atomic.
  std::atomic<size_t> capacity_bytes_;
  std::atomic<uint64_t> next_table_id_{1};
};

}  // namespace varve
