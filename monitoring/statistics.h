// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The engine's side of statistics: counts events. See varve/statistics.h.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "monitoring/published_statistics.h"
#include "monitoring/statistics_cells.h"
#include "util/base/mutex.h"
#include "varve/statistics.h"

namespace varve {

// Returns a name such as "varve.block.cache.hit". REQUIRES: ticker <
// Ticker::kCount.
const char* TickerName(Ticker ticker);
// REQUIRES: histogram < HistogramType::kCount.
const char* HistogramName(HistogramType histogram);
// Returns 1000 if the histogram is recorded in nanoseconds, else 1.
double HistogramUnit(HistogramType histogram);
// Returns the lowest level at which the histogram is recorded.
StatsLevel HistogramLevel(HistogramType histogram);
// Returns the tickers that one event of the group adds 1 to.
std::span<const Ticker> GroupTickers(CounterGroup group);

class StatisticsImpl final : public Statistics {
 public:
  // Counts in `other_sets`, if it is not null, instead of the per-CPU sets.
  explicit StatisticsImpl(
      const StatisticsOptions& options,
      std::unique_ptr<StatisticsCellSets> other_sets = nullptr);
  ~StatisticsImpl() override;

  // Casts any Statistics: all are StatisticsImpl.
  static StatisticsImpl* Of(Statistics* statistics) {
    return static_cast<StatisticsImpl*>(statistics);
  }

  // For the engine, which passes valid arguments without checks.
  void Tick(Ticker ticker, uint64_t count = 1) {
    if (counts()) AddToCell(StatisticsCells::Of(ticker), count);
  }
  // REQUIRES: counts() was true.
  void TickGroup(CounterGroup group) {
    AddToCell(StatisticsCells::Of(group), 1);
  }
  // Counts without Tick's check. REQUIRES: counts() was true.
  void TickCounted(Ticker ticker, uint64_t count) {
    AddToCell(StatisticsCells::Of(ticker), count);
  }
  // Records `value`, in nanoseconds or bytes.
  void Record(HistogramType histogram, uint64_t value) {
    if (measures(histogram)) AddToHistogram(histogram, value);
  }

  StatsLevel level() const {
    // relaxed: a switch whose change may be seen late.
    return level_.load(std::memory_order_relaxed);
  }
  bool counts() const { return level() != StatsLevel::kDisableAll; }
  bool measures(HistogramType histogram) const {
    return level() >= HistogramLevel(histogram);
  }
  // Returns true if every operation is timed, and not only a sample.
  bool times_all() const { return level() >= StatsLevel::kExceptTimeForMutex; }
  // Returns 1 with per-CPU sets. Otherwise returns the sum of all ticks.
  uint64_t PathCount() const;

  void recordTick(Ticker ticker, uint64_t count) override;
  void recordInHistogram(HistogramType histogram, uint64_t value) override;
  uint64_t getTickerCount(Ticker ticker) const override;
  HistogramData histogramData(HistogramType histogram) const override;
  Status GetTickerByName(const Slice& name, uint64_t* count) const override;
  Status GetHistogramByName(const Slice& name,
                            HistogramData* data) const override;
  void Reset() override;
  void set_stats_level(StatsLevel level) override {
    // relaxed: as above.
    level_.store(level, std::memory_order_relaxed);
  }
  StatsLevel get_stats_level() const override { return level(); }
  std::string ToString() const override;
  std::string ToPrometheus() const override;
  std::string Path() const override;
  uint64_t MemoryUsage() const override;
  uint64_t ReservedMemory() const override;

 private:
  using Cells = StatisticsCells;

  void AddToCell(size_t cell, uint64_t count) {
    if (other_sets_ == nullptr) [[likely]] {
      per_cpu_->Add(cell, count);
    } else {
      AddElsewhere(cell, count);
    }
  }
  [[gnu::noinline]] void AddElsewhere(size_t cell, uint64_t count);
  [[gnu::noinline]] void AddToHistogram(HistogramType histogram,
                                        uint64_t value);

  // Calls function(const Cell*) for each set.
  template <typename Function>
  void ForEachSet(Function function) const;
  // Returns the count since the last Reset.
  uint64_t Total(size_t cell) const;
  Histogram Merged(HistogramType histogram) const;
  uint64_t Baseline(size_t cell) const;

  const std::unique_ptr<StatisticsCellSets> other_sets_;  // Usually null.
  std::atomic<StatsLevel> level_;
  // True if there was a Reset.
  std::atomic<bool> was_reset_{false};
  // Empty if there are other sets.
  std::optional<PerCpuStatisticsCells> per_cpu_;
  PublishedStatistics::Entry* published_ = nullptr;  // Of per_cpu_, or null.
  // The counts up to the last Reset; empty if there was none. Its mutex is
  // taken before the mutexes of other sets.
  mutable Mutex reset_mutex_;
  std::vector<Cells::Cell> baseline_;
};

// Counts, if `statistics` is not null and counts.
inline void RecordTick(StatisticsImpl* statistics, Ticker ticker,
                       uint64_t count = 1) {
  if (statistics != nullptr) statistics->Tick(ticker, count);
}
inline void RecordInHistogram(StatisticsImpl* statistics,
                              HistogramType histogram, uint64_t value) {
  if (statistics != nullptr) statistics->Record(histogram, value);
}

}  // namespace varve
