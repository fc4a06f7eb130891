// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/cache/block_cache.h"

#include <algorithm>
#include <bit>

#include "table/cache/clock_block_cache.h"

namespace varve {

namespace {

// Smaller shards would make the split noticeable, since a block can use only
// its shard's part.
constexpr size_t kMinShardBytes = size_t{8} << 20;
constexpr size_t kMaxShards = 64;

}  // namespace

size_t BlockCache::ShardCount(size_t capacity_bytes) {
  return std::bit_floor(
      std::clamp<size_t>(capacity_bytes / kMinShardBytes, 1, kMaxShards));
}

void BlockCache::SetCapacity(size_t capacity_bytes) {
  MutexLock lock(&capacity_mutex_);
  // relaxed: see GetCapacity.
  capacity_bytes_.store(capacity_bytes, std::memory_order_relaxed);
  DivideRest();
}

void BlockCache::Reserve(size_t bytes) {
  MutexLock lock(&capacity_mutex_);
  reserved_bytes_ += bytes;
  DivideRest();
}

void BlockCache::Unreserve(size_t bytes) {
  MutexLock lock(&capacity_mutex_);
  reserved_bytes_ -= bytes;
  DivideRest();
}

void BlockCache::DivideRest() {
  const size_t capacity = GetCapacity();
  Divide(capacity - std::min(capacity, reserved_bytes_));
}

std::shared_ptr<Cache> NewBlockCache(const CacheOptions& options) {
  return std::make_shared<ClockBlockCache>(options);
}

std::shared_ptr<Cache> NewBlockCache(size_t capacity_bytes) {
  CacheOptions options;
  options.capacity_bytes = capacity_bytes;
  return NewBlockCache(options);
}

}  // namespace varve
