// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "varve/export.h"

namespace varve {

// Keeps uncompressed blocks of tables in memory, up to a capacity. Any number
// of DBs can share a cache through Options::block_cache. They share the
// capacity, not the blocks. Caches are created by NewBlockCache. Other classes
// cannot implement this interface.
// Thread-safety: thread-safe.
class VARVE_EXPORT Cache {
 public:
  virtual ~Cache() = default;

  // Capacity in bytes. A smaller capacity evicts blocks immediately. A capacity
  // of zero caches nothing. The capacity at creation determines the number of
  // shards, up to 64. If a cache is later made so small that no block fits into
  // a shard, it caches nothing.
  virtual void SetCapacity(size_t capacity_bytes) = 0;
  virtual size_t GetCapacity() const = 0;

  // Returns the bytes in the cache, and the bytes of blocks that cannot be
  // evicted because iterators or values use them.
  virtual size_t GetUsage() const = 0;
  virtual size_t GetPinnedUsage() const = 0;

  // Evicts all blocks that are not in use.
  virtual void EraseUnreferenced() = 0;

 private:
  friend class BlockCache;
  Cache() = default;
};

// Options of NewBlockCache.
struct CacheOptions {
  // Capacity in bytes. Default: 32 MiB.
  size_t capacity_bytes = 32 << 20;
  // If all blocks are in use and another one does not fit: true leaves it out
  // of the cache, and the read uses a private copy; false exceeds the capacity
  // until blocks can be evicted again. Default: false.
  bool strict_capacity_limit = false;
  // Place blocks on huge pages if the kernel provides them on request. Ignored
  // for capacities below 64 MiB. Default: true.
  bool huge_pages = true;
};

// Creates a block cache for Options::block_cache.
VARVE_EXPORT std::shared_ptr<Cache> NewBlockCache(const CacheOptions& options);
VARVE_EXPORT std::shared_ptr<Cache> NewBlockCache(size_t capacity_bytes);

// Returns the memory in bytes that this process may use: the least of the
// machine's memory, the limits of its control groups (cgroup v1 and v2, with
// all groups around them), and its RLIMIT_AS and RLIMIT_DATA. A cache can be a
// part of it. It is read at the first call, and later calls return the same
// value. Never 0. Thread-safety: thread-safe.
VARVE_EXPORT uint64_t MemoryLimit();

}  // namespace varve
