// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

namespace varve {

// Work of the flushes (level 0) and compactions whose output is one level.
// Bytes are bytes of table files.
struct CompactionStats {
  uint64_t micros = 0;
  uint64_t upper_bytes_read = 0;  // From the level above; 0 for flushes.
  uint64_t level_bytes_read = 0;  // From the level itself.
  uint64_t bytes_written = 0;
  uint64_t moved_bytes = 0;  // By trivial moves.
  uint64_t entries_read = 0;
  uint64_t entries_dropped = 0;
  uint64_t count = 0;

  void Add(const CompactionStats& other) {
    micros += other.micros;
    upper_bytes_read += other.upper_bytes_read;
    level_bytes_read += other.level_bytes_read;
    bytes_written += other.bytes_written;
    moved_bytes += other.moved_bytes;
    entries_read += other.entries_read;
    entries_dropped += other.entries_dropped;
    count += other.count;
  }
  uint64_t BytesRead() const { return upper_bytes_read + level_bytes_read; }
};

}  // namespace varve
