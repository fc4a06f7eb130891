// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The layout of a Statistics: the index of each counter's cell, and how sets of
// cells are kept.
//
// Thread-safety: thread-safe, except for construction and destruction.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "monitoring/histogram.h"
#include "util/threads/per_cpu.h"
#include "varve/statistics.h"

namespace varve {

inline constexpr size_t kTickerCount = static_cast<size_t>(Ticker::kCount);
inline constexpr size_t kHistogramCount =
    static_cast<size_t>(HistogramType::kCount);

// Groups of events that occur together: one addition counts one event of each
// of the group's tickers. So one addition counts the most frequent outcomes of
// a Get. See GroupTickers in statistics_names.cc.
enum class CounterGroup : uint8_t {
  kGetFromMemtable,
  kGetDeletedInMemtable,
  kGetNowhere,  // Not found, or deleted, in tables.
  // Found in a table of that level.
  kGetL0,
  kGetL1,
  kGetL2AndUp,
  // As above, and the filter was probed, and the block was in the cache.
  kGetL0Usual,
  kGetL1Usual,
  kGetL2AndUpUsual,
  // A leader's write of one update for itself alone, without and with the log.
  kWriteOne,
  kWriteOneLogged,
  kSeekFound,
  kCount,
};
inline constexpr size_t kCounterGroupCount =
    static_cast<size_t>(CounterGroup::kCount);

struct StatisticsCells {
  using Cell = std::atomic<uint64_t>;

  static constexpr size_t Of(Ticker ticker) {
    return static_cast<size_t>(ticker);
  }
  static constexpr size_t Of(CounterGroup group) {
    return kTickerCount + static_cast<size_t>(group);
  }
  // The first of a histogram's cells: its sum, modulo 2^64; a pair of bounds,
  // as in per_cpu.h; and a count for each bucket, at the end.
  static constexpr size_t SumOf(size_t histogram) {
    return kTickerCount + kCounterGroupCount + 3 * histogram;
  }
  static constexpr size_t BoundsOf(size_t histogram) {
    return SumOf(histogram) + 1;
  }
  static constexpr size_t BucketOf(size_t histogram, size_t bucket) {
    return kFirstBucket + Histogram::kBuckets * histogram + bucket;
  }
  static constexpr size_t kFirstBucket =
      kTickerCount + kCounterGroupCount + 3 * kHistogramCount;
  static constexpr size_t kCount =
      kFirstBucket + Histogram::kBuckets * kHistogramCount;
};

// One set per processor.
using PerCpuStatisticsCells = PerCpuCells<StatisticsCells::kCount>;

// An alternative to the per-CPU sets, for an experiment (see baseline/).
class StatisticsCellSets {
 public:
  using Cell = StatisticsCells::Cell;

  virtual ~StatisticsCellSets() = default;
  virtual void Add(size_t cell, uint64_t count) = 0;
  // Adds 1 to a bucket's cell, and widens the pair of bounds to cover `value`.
  virtual void Record(size_t bounds, size_t cell, uint64_t value) = 0;
  // Calls function(set) for each set, while no set is added or removed.
  virtual void ForEachSet(
      const std::function<void(const Cell*)>& function) const = 0;
  // These have the meaning of Statistics' functions.
  virtual const char* Path() const = 0;
  virtual uint64_t used_bytes() const = 0;
  virtual uint64_t reserved_bytes() const = 0;
};

// Adds the counts of a set to another set, to which no other thread writes.
void FoldStatisticsSet(const StatisticsCells::Cell* from,
                       StatisticsCells::Cell* to);

}  // namespace varve
