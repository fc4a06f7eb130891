// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bounds the memory of memtables over any number of DBs, column families and
// catalogs. Set the same manager in the options of all of them
// (DBOptions::write_buffer_manager).
//
// When memtables need more than the budget, the largest active memtable of all
// DBs is switched and flushed. A memtable is also switched at its own
// write_buffer_size, as without a manager.

#include <cstddef>
#include <memory>

#include "varve/cache.h"
#include "varve/export.h"

namespace varve {

class WriteBufferBudget;

// Thread-safety: thread-safe.
// Lifetime: the DBs share its ownership.
class VARVE_EXPORT WriteBufferManager final {
 public:
  // `buffer_size` is the budget in bytes. With 0 memory is counted, but neither
  // flushed nor stalled.
  //
  // If `cache` is not null, the memory of memtables is charged to it: the cache
  // then has that much less capacity for blocks. It must be from NewBlockCache.
  // It may be the block cache of the same DBs.
  //
  // With `allow_stall`, writes wait while memtables use the budget or more and
  // a flush is about to free memory. Without it, the budget can be exceeded by
  // as much as is written while flushes run.
  explicit WriteBufferManager(size_t buffer_size,
                              std::shared_ptr<Cache> cache = {},
                              bool allow_stall = false);
  ~WriteBufferManager();
  WriteBufferManager(const WriteBufferManager&) = delete;
  WriteBufferManager& operator=(const WriteBufferManager&) = delete;

  // Returns whether there is a budget.
  bool enabled() const { return buffer_size() > 0; }
  // Returns whether memory is charged to a cache.
  bool cost_to_cache() const;

  // Returns the bytes of all memtables, including those that were flushed but
  // are still in use by iterators. Memory is counted when a memtable takes a
  // block of it from the system: usually 4 to 256 KiB.
  size_t memory_usage() const;
  // Returns the bytes of active memtables, which are those that writes go to.
  size_t mutable_memtable_memory_usage() const;
  // Returns the bytes that are charged to the cache: 0 without a cache. It
  // follows memory_usage() in steps of 256 KiB. It is reduced only when
  // memory_usage() is below three quarters of it.
  size_t dummy_entries_in_cache_usage() const;

  // Returns the budget in bytes.
  size_t buffer_size() const;
  // Changes the budget while it is in use. If it is exceeded, memtables are
  // flushed in the background. With 0, waiting writes continue.
  void SetBufferSize(size_t buffer_size);
  // Allows or forbids stalls. If they are forbidden, waiting writes continue.
  void SetAllowStall(bool allow_stall);

  // Returns whether a memtable should be flushed: active memtables use more
  // than 7/8 of the budget, or all use the budget or more, and active ones at
  // least half of it.
  bool ShouldFlush() const;
  // Returns whether writes wait: stalls are allowed, memtables use the budget
  // or more, and a flush is requested or running. Returns false after writes
  // have waited for 10 s without any memory being freed, until some is freed.
  bool ShouldStall() const;

 private:
  friend class WriteBufferBudget;

  const std::shared_ptr<WriteBufferBudget> budget_;
};

}  // namespace varve
