// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What a lookup met on its way, counted on its stack: most lookups meet the
// same, and then one addition counts it all (CounterGroup). Packed counters of
// 16 bits in one number, so that one comparison tells.

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

  uint64_t packed = 0;
  int level = 0;  // Of the table that had the key: 0, 1, or 2 for others.

  uint64_t Counter(uint64_t unit) const { return packed / unit & 0xFFFF; }
};

// The same of several lookups.
struct ReadTotals {
  uint64_t cache_hit = 0;
  uint64_t filter_useful = 0;
  uint64_t filter_positive = 0;
  uint64_t filter_true_positive = 0;

  ReadTotals() = default;
  explicit ReadTotals(const ReadCounts& counts) { Add(counts); }
  void Add(const ReadCounts& counts) {
    cache_hit += counts.Counter(ReadCounts::kCacheHit);
    filter_useful += counts.Counter(ReadCounts::kFilterUseful);
    filter_positive += counts.Counter(ReadCounts::kFilterPositive);
    filter_true_positive += counts.Counter(ReadCounts::kFilterTruePositive);
  }
  // Each to its ticker. REQUIRES: statistics->counts().
  void Tick(StatisticsImpl* statistics) const;
  void AddTo(PerfContext* perf) const;
};

}  // namespace varve
