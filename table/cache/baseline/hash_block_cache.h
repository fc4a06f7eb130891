// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Conventional block cache (ablation block_cache=hash): a hash table with an
// LRU list, split into shards by key, each with its own mutex. A lookup returns
// a counted reference.
//
// Thread-safety: thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/cache/block_cache.h"

namespace varve {

namespace hash_block_cache_internal {
class Shard;
struct Entry;
}  // namespace hash_block_cache_internal

class HashBlockCache final : public BlockCache {
 public:
  explicit HashBlockCache(const CacheOptions& options);
  ~HashBlockCache() override;

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
  hash_block_cache_internal::Shard* ShardOf(uint64_t hash);

  std::vector<std::unique_ptr<hash_block_cache_internal::Shard>> shards_;
};

}  // namespace varve
