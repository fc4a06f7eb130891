// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where the counters of a Statistics are: which cell is what, and how sets of
// cells are kept.
//
// Thread-safety: thread-safe, but for construction and destruction.

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

// Events that come together: one addition is one of each of their tickers.
// What a Get does most often is so counted by one. See BundleTickers in
// statistics_names.cc.
enum class Bundle : uint8_t {
  kGetFromMemtable,
  kGetDeletedInMemtable,
  kGetNowhere,  // Not found, or deleted, in tables.
  // Found in a table of that level.
  kGetL0,
  kGetL1,
  kGetL2AndUp,
  // And its filter was asked, and the block was in the cache.
  kGetL0Usual,
  kGetL1Usual,
  kGetL2AndUpUsual,
  // A leader's write of one update, for itself alone; to the log.
  kWriteOne,
  kWriteOneLogged,
  kCount,
};
inline constexpr size_t kBundleCount = static_cast<size_t>(Bundle::kCount);

struct StatisticsCells {
  using Cell = std::atomic<uint64_t>;

  static constexpr size_t Of(Ticker ticker) {
    return static_cast<size_t>(ticker);
  }
  static constexpr size_t Of(Bundle bundle) {
    return kTickerCount + static_cast<size_t>(bundle);
  }
  // Of a histogram: its sum, modulo 2^64; a pair of bounds, as in per_cpu.h;
  // and a count for each bucket, which come last.
  static constexpr size_t SumOf(size_t histogram) {
    return kTickerCount + kBundleCount + 3 * histogram;
  }
  static constexpr size_t BoundsOf(size_t histogram) {
    return SumOf(histogram) + 1;
  }
  static constexpr size_t BucketOf(size_t histogram, size_t bucket) {
    return kFirstBucket + Histogram::kBuckets * histogram + bucket;
  }
  static constexpr size_t kFirstBucket =
      kTickerCount + kBundleCount + 3 * kHistogramCount;
  static constexpr size_t kCount =
      kFirstBucket + Histogram::kBuckets * kHistogramCount;
};

// A set for each processor.
using PerCpuStatisticsCells = PerCpuCells<StatisticsCells::kCount>;

// What can take the place of the sets of the processors: an experiment's (see
// baseline/).
class StatisticsCellSets {
 public:
  using Cell = StatisticsCells::Cell;

  virtual ~StatisticsCellSets() = default;
  virtual void Add(size_t cell, uint64_t count) = 0;
  // Raises the two cells from `bounds` on to at least value and ~value, then
  // adds 1 to `cell`.
  virtual void Record(size_t bounds, size_t cell, uint64_t value) = 0;
  // Calls function for each set. No set is added or removed during the call.
  virtual void ForEachSet(
      const std::function<void(const Cell*)>& function) const = 0;
  // For Path, MemoryUsage and ReservedMemory of Statistics.
  virtual const char* Path() const = 0;
  virtual uint64_t used_bytes() const = 0;
  virtual uint64_t reserved_bytes() const = 0;
};

// Adds what a set holds to another, which nobody else writes.
void FoldStatisticsSet(const StatisticsCells::Cell* from,
                       StatisticsCells::Cell* to);

}  // namespace varve
