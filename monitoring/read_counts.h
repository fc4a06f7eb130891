// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What a lookup met on its way, counted on its stack: most lookups meet the
// same, and then one addition counts it all (Bundle). Lanes of 16 bits of one
// number, so that one comparison tells.

#include <cstdint>

#include "monitoring/measured_operation.h"
#include "monitoring/statistics.h"

namespace varve {

struct ReadCounts {
  static constexpr uint64_t kCacheHit = 1;
  static constexpr uint64_t kFilterUseful = uint64_t{1} << 16;
  static constexpr uint64_t kFilterPositive = uint64_t{1} << 32;
  static constexpr uint64_t kFilterTruePositive = uint64_t{1} << 48;

  // What the lookup of a key meets that is in the only table asked for it.
  static constexpr uint64_t kUsual =
      kCacheHit + kFilterPositive + kFilterTruePositive;

  uint64_t lanes = 0;
  int level = 0;  // Of the table that had the key: 0, 1, or 2 for others.

  uint64_t Lane(uint64_t unit) const { return lanes / unit & 0xFFFF; }
  // Each lane to its ticker. REQUIRES: statistics->counts().
  void TickLanes(StatisticsImpl* statistics) const;
  void AddTo(PerfContext* perf) const;
};

}  // namespace varve
