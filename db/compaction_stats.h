// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

namespace varve {

// What flushes (level 0) and compactions did to a level, as their output.
struct CompactionStats {
  uint64_t micros = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t count = 0;
  uint64_t moved_bytes = 0;  // By trivial moves.
};

}  // namespace varve
