// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/observe/write_buffer_manager.h"

#include <rocksdb/c.h>

#include "compat/rocksdb/options/options.h"

extern "C" {

rocksdb_write_buffer_manager_t* rocksdb_write_buffer_manager_create(
    size_t buffer_size, bool allow_stall) {
  return rocksdb_write_buffer_manager_create_with_cache(buffer_size, nullptr,
                                                        allow_stall);
}

// Without a cache nothing is charged.
rocksdb_write_buffer_manager_t* rocksdb_write_buffer_manager_create_with_cache(
    size_t buffer_size, const rocksdb_cache_t* cache, bool allow_stall) {
  return new rocksdb_write_buffer_manager_t{
      std::make_shared<varve::WriteBufferManager>(
          buffer_size, cache == nullptr ? nullptr : cache->rep, allow_stall)};
}

void rocksdb_write_buffer_manager_destroy(
    rocksdb_write_buffer_manager_t* manager) {
  delete manager;
}

bool rocksdb_write_buffer_manager_enabled(
    rocksdb_write_buffer_manager_t* manager) {
  return manager != nullptr && manager->rep->enabled();
}

bool rocksdb_write_buffer_manager_cost_to_cache(
    rocksdb_write_buffer_manager_t* manager) {
  return manager != nullptr && manager->rep->cost_to_cache();
}

size_t rocksdb_write_buffer_manager_memory_usage(
    rocksdb_write_buffer_manager_t* manager) {
  return manager == nullptr ? 0 : manager->rep->memory_usage();
}

size_t rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
    rocksdb_write_buffer_manager_t* manager) {
  return manager == nullptr ? 0 : manager->rep->mutable_memtable_memory_usage();
}

size_t rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(
    rocksdb_write_buffer_manager_t* manager) {
  return manager == nullptr ? 0 : manager->rep->dummy_entries_in_cache_usage();
}

size_t rocksdb_write_buffer_manager_buffer_size(
    rocksdb_write_buffer_manager_t* manager) {
  return manager == nullptr ? 0 : manager->rep->buffer_size();
}

void rocksdb_write_buffer_manager_set_buffer_size(
    rocksdb_write_buffer_manager_t* manager, size_t new_size) {
  if (manager != nullptr) manager->rep->SetBufferSize(new_size);
}

void rocksdb_write_buffer_manager_set_allow_stall(
    rocksdb_write_buffer_manager_t* manager, bool new_allow_stall) {
  if (manager != nullptr) manager->rep->SetAllowStall(new_allow_stall);
}

}  // extern "C"
