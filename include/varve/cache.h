// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <memory>

namespace varve {

// Holds uncompressed blocks of tables in memory, up to a capacity. Any number
// of DBs may share one through Options::block_cache; each DB's blocks are its
// own.
// Thread-safety: thread-safe.
class Cache {
 public:
  virtual ~Cache() = default;

  // In bytes. A smaller capacity evicts at once. Zero caches nothing.
  virtual void SetCapacity(size_t capacity_bytes) = 0;
  virtual size_t GetCapacity() const = 0;

  // Bytes charged now, and the part of them that iterators and values in use
  // keep from being evicted.
  virtual size_t GetUsage() const = 0;
  virtual size_t GetPinnedUsage() const = 0;

  // Evicts all that is not in use.
  virtual void EraseUnreferenced() = 0;
};

struct CacheOptions {
  // Bytes of blocks to keep.
  size_t capacity_bytes = 32 << 20;
  // true: a block that does not fit because everything is in use is not
  // cached, and the read goes on with a copy of its own. false: the capacity
  // is exceeded for as long as that lasts.
  bool strict_capacity_limit = false;
};

// A block cache; see Options::block_cache.
std::shared_ptr<Cache> NewBlockCache(const CacheOptions& options);
std::shared_ptr<Cache> NewBlockCache(size_t capacity_bytes);

}  // namespace varve
