// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of block caches. All of RocksDB's kinds are the engine's one.

#include <rocksdb/c.h>

#include "compat/rocksdb/options/options.h"

namespace {

rocksdb_cache_t* NewCache(size_t capacity, bool strict_capacity_limit) {
  varve::CacheOptions options;
  options.capacity_bytes = capacity;
  options.strict_capacity_limit = strict_capacity_limit;
  return new rocksdb_cache_t{varve::NewBlockCache(options)};
}

}  // namespace

extern "C" {

rocksdb_cache_t* rocksdb_cache_create_lru(size_t capacity) {
  return NewCache(capacity, false);
}

rocksdb_cache_t* rocksdb_cache_create_lru_with_strict_capacity_limit(
    size_t capacity) {
  return NewCache(capacity, true);
}

rocksdb_cache_t* rocksdb_cache_create_lru_opts(
    const rocksdb_lru_cache_options_t* options) {
  if (options == nullptr) return nullptr;
  return NewCache(options->capacity, false);
}

rocksdb_cache_t* rocksdb_cache_create_hyper_clock(
    size_t capacity, size_t /*estimated_entry_charge*/) {
  return NewCache(capacity, false);
}

rocksdb_cache_t* rocksdb_cache_create_hyper_clock_opts(
    const rocksdb_hyper_clock_cache_options_t* options) {
  if (options == nullptr) return nullptr;
  return NewCache(options->capacity, false);
}

// RocksDB then leaves the entries to the end of the process. Here they are
// freed with the last user of the cache.
void rocksdb_cache_disown_data(rocksdb_cache_t* /*cache*/) {}

void rocksdb_cache_set_capacity(rocksdb_cache_t* cache, size_t capacity) {
  if (cache != nullptr) cache->rep->SetCapacity(capacity);
}

size_t rocksdb_cache_get_capacity(const rocksdb_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetCapacity() : 0;
}

size_t rocksdb_cache_get_usage(const rocksdb_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetUsage() : 0;
}

size_t rocksdb_cache_get_pinned_usage(const rocksdb_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetPinnedUsage() : 0;
}

}  // extern "C"
