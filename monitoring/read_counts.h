// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counts the events of one lookup, on its stack. Most lookups have the same
// events, and then one addition counts them all (CounterGroup). The counters
// are packed: 16 bits each in one number, so one comparison detects the usual
// case.

#include <cstdint>

#include "monitoring/measured_operation.h"
#include "monitoring/statistics.h"

namespace varve {

struct ReadCounts {
  static constexpr uint64_t kCacheHit = 1;
  static constexpr uint64_t kFilterUseful = uint64_t{1} << 16;
  static constexpr uint64_t kFilterPositive = uint64_t{1} << 32;
  static constexpr uint64_t kFilterTruePositive = uint64_t{1} << 48;

  // The counts of a lookup whose key is in the only table that it searches.
  static constexpr uint64_t kUsual =
      kCacheHit + kFilterPositive + kFilterTruePositive;

  uint64_t packed = 0;
  int level = 0;  // The found key's level: 0, 1, or 2 for all others.

  // Any of these bits is set if a counter is at least 0x800. Counters below
  // that of up to 32 lookups may be added without unpacking them.
  static constexpr uint64_t kHighBits = 0xF800F800F800F800;

  uint64_t Counter(uint64_t unit) const { return packed / unit & 0xFFFF; }
};

// The sums of several lookups.
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
  // Adds each count to its ticker. REQUIRES: statistics->counts().
  void Tick(StatisticsImpl* statistics) const;
  void AddTo(PerfContext* perf) const;
};

}  // namespace varve
