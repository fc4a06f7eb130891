// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <memory>

#include "varve/export.h"

namespace varve {

// Holds uncompressed blocks of tables in memory, up to a capacity. Any number
// of DBs may share one through Options::block_cache; each DB's blocks are its
// own. NewBlockCache makes them; no other class can be one.
// Thread-safety: thread-safe.
class VARVE_EXPORT Cache {
 public:
  virtual ~Cache() = default;

  // In bytes. A smaller capacity evicts at once. Zero caches nothing. What a
  // cache is made for says into how many parts, up to 64, it is divided: one
  // that is shrunk so far that no block fits into a part caches none.
  virtual void SetCapacity(size_t capacity_bytes) = 0;
  virtual size_t GetCapacity() const = 0;

  // Bytes charged now, and the part of them that iterators and values in use
  // keep from being evicted.
  virtual size_t GetUsage() const = 0;
  virtual size_t GetPinnedUsage() const = 0;

  // Evicts all that is not in use.
  virtual void EraseUnreferenced() = 0;

 private:
  friend class BlockCache;
  Cache() = default;
};

// What NewBlockCache makes.
struct CacheOptions {
  // Bytes of blocks to keep.
  size_t capacity_bytes = 32 << 20;
  // true: a block that does not fit because everything is in use is not
  // cached, and the read goes on with a copy of its own. false: the capacity
  // is exceeded, until that has ended and the next block is missed.
  bool strict_capacity_limit = false;
  // Put blocks on huge pages, if the kernel gives them on request. Not done
  // for capacities below 64 MiB, of which a page of 2 MiB is too large a part.
  bool huge_pages = true;
};

// A block cache; see Options::block_cache.
VARVE_EXPORT std::shared_ptr<Cache> NewBlockCache(const CacheOptions& options);
VARVE_EXPORT std::shared_ptr<Cache> NewBlockCache(size_t capacity_bytes);

}  // namespace varve
