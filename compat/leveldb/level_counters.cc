// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/level_counters.h"

#include <algorithm>

namespace varve::compat {

void LevelCounters::OnFlushCompleted(const FlushJobInfo& info) {
  const std::lock_guard<std::mutex> lock(mutex_);
  levels_[0].micros += info.micros;
  levels_[0].bytes_written += info.file_bytes;
}

void LevelCounters::OnCompactionCompleted(const CompactionJobInfo& info) {
  if (info.trivial_move) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Level& level = levels_[static_cast<size_t>(
      std::clamp(info.output_level, 0, kLevels - 1))];
  level.micros += info.micros;
  level.bytes_read += info.input_bytes;
  level.bytes_written += info.output_bytes;
}

std::array<LevelCounters::Level, LevelCounters::kLevels> LevelCounters::Get()
    const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return levels_;
}

}  // namespace varve::compat
