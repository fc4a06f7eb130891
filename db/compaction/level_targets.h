// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Computes the size limit of each level, the output level of level 0, and the
// compression of a level's tables. Pure functions.

#include <algorithm>
#include <cstdint>

#include "db/version/version.h"
#include "varve/options.h"

namespace varve {

// Converts a sum of sizes, and returns at most 10^18. Corrupted file sizes may
// add up to more than an integer holds.
uint64_t ToBytes(double bytes);

// With level_compaction_dynamic_level_bytes, the limits follow from the size of
// the last level. Each level above may hold the limit of the next one divided
// by max_bytes_for_level_multiplier. The base level is the first one, going up,
// whose limit would be at most max_bytes_for_level_base. Levels between 0 and
// the base level stay empty. About nine tenths of all data are then in the last
// level, whatever their amount. Obsolete entries take at most about a ninth of
// the space. Otherwise the base level is 1, and its limit is
// max_bytes_for_level_base.
struct LevelTargets {
  int base_level = 1;
  int last_level = kNumLevels - 1;
  uint64_t max_bytes[kNumLevels] = {};  // Unused for level 0.

  // Returns the output level of a compaction of `level`.
  int NextLevel(int level) const {
    return level == 0 ? base_level : std::min(level + 1, last_level);
  }
};

// Returns the last level that compactions write to.
inline int LastCompactedLevel(const Options& options) {
  return options.num_levels - (options.allow_ingest_behind ? 2 : 1);
}

LevelTargets ComputeLevelTargets(const Options& options,
                                 const Version& version);

// Returns the compression of a table of this level.
CompressionType CompressionForLevel(const Options& options, int base_level,
                                    int level, bool bottommost);

}  // namespace varve
