// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counters of the calling thread's operations on any DB since the thread last
// reset them. Other threads do not see them. Names are RocksDB's where the
// counter is. Off by default; SetPerfLevel turns them on.
//
//   SetPerfLevel(PerfLevel::kEnableTime);
//   GetPerfContext()->Reset();
//   db->Get(...);
//   ... GetPerfContext()->block_read_count ...
//
// Thread-safety: each thread has its own context. A pointer is valid in its
// thread only.

#include <cstdint>
#include <string>

#include "varve/export.h"

namespace varve {

// Each level includes the previous ones.
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
  // In MultiGet, until the last of the reads submitted together, including
  // other work done during the reads.
  uint64_t block_read_time = 0;
  uint64_t block_checksum_time = 0;
  uint64_t block_decompress_time = 0;
  // Filter checks that did not exclude the key, and checks that did.
  uint64_t bloom_sst_hit_count = 0;
  uint64_t bloom_sst_miss_count = 0;
  // Get: bytes of values found, and the places searched.
  uint64_t get_read_bytes = 0;
  uint64_t get_from_memtable_count = 0;
  uint64_t get_from_memtable_time = 0;
  uint64_t get_from_output_files_time = 0;
  uint64_t multiget_read_bytes = 0;
  // Iterators: bytes of keys and values; skipped entries, which are hidden or
  // deleted; and how many of the skipped entries are deletions.
  uint64_t iter_read_bytes = 0;
  uint64_t internal_key_skipped_count = 0;
  uint64_t internal_delete_skipped_count = 0;
  // Writes.
  uint64_t write_wal_time = 0;
  uint64_t write_memtable_time = 0;
  uint64_t write_delay_time = 0;
  // Waits for the DB mutex by writes and flushes.
  uint64_t db_mutex_lock_nanos = 0;

  // Sets all counters to zero.
  void Reset() { *this = PerfContext(); }
  // Returns "name = number, ...", without counters that are 0.
  std::string ToString() const;
};

// Counters of I/O on table files and logs.
struct VARVE_EXPORT IOStatsContext {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t open_nanos = 0;
  uint64_t read_nanos = 0;
  uint64_t write_nanos = 0;
  uint64_t fsync_nanos = 0;

  // As in PerfContext.
  void Reset() { *this = IOStatsContext(); }
  std::string ToString() const;
};

// Set and return the calling thread's level. Default: kDisable.
VARVE_EXPORT void SetPerfLevel(PerfLevel level);
VARVE_EXPORT PerfLevel GetPerfLevel();

// Return the calling thread's contexts. Never null.
VARVE_EXPORT PerfContext* GetPerfContext();
VARVE_EXPORT IOStatsContext* GetIOStatsContext();

}  // namespace varve
