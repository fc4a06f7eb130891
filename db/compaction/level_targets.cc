// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/level_targets.h"

#include <algorithm>

namespace varve {

uint64_t ToBytes(double bytes) {
  constexpr double kMax = 1e18;
  return static_cast<uint64_t>(std::min(bytes, kMax));
}

namespace {

// Returns the size limit of the base level, and sets *base_level.
double FindBaseLevel(const Options& options, const Version& version,
                     int* base_level) {
  const auto largest_base =
      static_cast<double>(options.max_bytes_for_level_base);
  *base_level = 1;
  if (!options.level_compaction_dynamic_level_bytes) return largest_base;
  const int last = LastCompactedLevel(options);
  int first = last;
  uint64_t largest = 0;
  for (int level = last; level > 0; --level) {
    if (version.NumBytes(level) > 0) first = level;
    largest = std::max(largest, version.NumBytes(level));
  }
  // The limit of the first level with tables, if the last level's limit is the
  // size of the largest level.
  auto bytes = static_cast<double>(largest);
  for (int level = last; level > first; --level) {
    bytes /= options.max_bytes_for_level_multiplier;
  }
  for (; first > 1 && bytes > largest_base; --first) {
    bytes /= options.max_bytes_for_level_multiplier;
  }
  *base_level = first;
  return std::min(bytes, largest_base);
}

}  // namespace

LevelTargets ComputeLevelTargets(const Options& options,
                                 const Version& version) {
  LevelTargets targets;
  targets.last_level = LastCompactedLevel(options);
  double bytes = FindBaseLevel(options, version, &targets.base_level);
  for (int level = 1; level <= targets.last_level; ++level) {
    // No level is due before it holds what the base level may.
    targets.max_bytes[level] =
        std::max(options.max_bytes_for_level_base, ToBytes(bytes));
    if (level >= targets.base_level) {
      bytes *= options.max_bytes_for_level_multiplier;
    }
  }
  return targets;
}

CompressionType CompressionForLevel(const Options& options, int base_level,
                                    int level, bool bottommost) {
  if (bottommost && options.bottommost_compression) {
    return *options.bottommost_compression;
  }
  const auto& types = options.compression_per_level;
  if (types.empty()) return options.compression;
  const int index = level == 0 ? 0 : std::max(level - base_level + 1, 1);
  return types[std::min(static_cast<size_t>(index), types.size() - 1)];
}

}  // namespace varve
