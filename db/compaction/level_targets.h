// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How large each level may be, which one level 0 is compacted into, and how
// tables of a level are compressed. Pure functions.

#include <cstdint>

#include "db/version/version.h"
#include "varve/options.h"

namespace varve {

// Of a sum of sizes, which files that lie may drive beyond what an integer
// holds. At most 10^18.
uint64_t ToBytes(double bytes);

// With level_compaction_dynamic_level_bytes the last level's size is given,
// and those above are made to fit: each may hold as much as the one below
// divided by max_bytes_for_level_multiplier, up to the first that would be
// smaller than max_bytes_for_level_base, the base level. Levels between 0 and
// the base level stay empty. So about nine tenths of all data are in the last
// level, whatever their amount, and at most about a ninth of the space is
// taken by updates of what is there. Else the base level is 1, and
// max_bytes_for_level_base is given.
struct LevelTargets {
  int base_level = 1;
  int last_level = kNumLevels - 1;
  uint64_t max_bytes[kNumLevels] = {};  // Those of 0 are of no meaning.

  // The level below, for compaction.
  int NextLevel(int level) const { return level == 0 ? base_level : level + 1; }
};

LevelTargets ComputeLevelTargets(const Options& options,
                                 const Version& version);

// How a table of this level is to be compressed.
CompressionType CompressionForLevel(const Options& options, int base_level,
                                    int level, bool bottommost);

}  // namespace varve
