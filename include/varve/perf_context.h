// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the calling thread's own operations did, on any DB, since it last reset
// these numbers: plain numbers that nobody else sees. Names are RocksDB's where
// the thing is. Off until the thread asks for it by SetPerfLevel.
//
//   SetPerfLevel(PerfLevel::kEnableTime);
//   GetPerfContext()->Reset();
//   db->Get(...);
//   ... GetPerfContext()->block_read_count ...
//
// Thread-safety: each thread has its own; a pointer is valid in its thread.

#include <cstdint>
#include <string>

#include "varve/export.h"

namespace varve {

// Each includes those before it.
enum class PerfLevel : uint8_t {
  kDisable,
  kEnableCount,
  kEnableTimeExceptForMutex,
  kEnableTime,
};

// Counts of bytes and events; times in nanoseconds.
struct VARVE_EXPORT PerfContext {
  // Blocks found in the cache, and read from files.
  uint64_t block_cache_hit_count = 0;
  uint64_t block_read_count = 0;
  uint64_t block_read_byte = 0;
  // Of MultiGet, to the last of those it reads together, with what it does
  // about the others meanwhile.
  uint64_t block_read_time = 0;
  uint64_t block_checksum_time = 0;
  uint64_t block_decompress_time = 0;
  // Filters that let a lookup through, and that spared it.
  uint64_t bloom_sst_hit_count = 0;
  uint64_t bloom_sst_miss_count = 0;
  // Get: of values found, and where it looked.
  uint64_t get_read_bytes = 0;
  uint64_t get_from_memtable_count = 0;
  uint64_t get_from_memtable_time = 0;
  uint64_t get_from_output_files_time = 0;
  uint64_t multiget_read_bytes = 0;
  // Iterators: of keys and values; entries passed over, as hidden or deleted,
  // and those of them that are deletions.
  uint64_t iter_read_bytes = 0;
  uint64_t internal_key_skipped_count = 0;
  uint64_t internal_delete_skipped_count = 0;
  // Writes.
  uint64_t write_wal_time = 0;
  uint64_t write_memtable_time = 0;
  uint64_t write_delay_time = 0;
  // Waits for the DB mutex, where it is taken for a write or a flush.
  uint64_t db_mutex_lock_nanos = 0;

  // Sets all to zero.
  void Reset() { *this = PerfContext(); }
  // "name = number, ...", without those that are 0.
  std::string ToString() const;
};

// Of table files and logs.
struct VARVE_EXPORT IOStatsContext {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t open_nanos = 0;
  uint64_t read_nanos = 0;
  uint64_t write_nanos = 0;
  uint64_t fsync_nanos = 0;

  // As those of PerfContext.
  void Reset() { *this = IOStatsContext(); }
  std::string ToString() const;
};

// For the calling thread. Default: kDisable.
VARVE_EXPORT void SetPerfLevel(PerfLevel level);
VARVE_EXPORT PerfLevel GetPerfLevel();

// Those of the calling thread; never null.
VARVE_EXPORT PerfContext* GetPerfContext();
VARVE_EXPORT IOStatsContext* GetIOStatsContext();

}  // namespace varve
