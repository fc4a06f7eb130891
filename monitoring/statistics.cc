// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/statistics.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <string>
#include <vector>

#include "util/base/append_format.h"
#include "util/base/process_wide.h"

namespace varve {

namespace {

template <typename Kind>
bool IsValid(Kind kind) {
  return static_cast<uint32_t>(kind) < static_cast<uint32_t>(Kind::kCount);
}

// Returns the ticker that has the same events, if there is one.
Ticker StoredAs(Ticker ticker) {
  switch (ticker) {
    case Ticker::kBlockCacheDataHit:
      return Ticker::kBlockCacheHit;
    case Ticker::kBlockCacheDataMiss:
      return Ticker::kBlockCacheMiss;
    case Ticker::kBlockCacheDataAdd:
      return Ticker::kBlockCacheAdd;
    case Ticker::kBlockCacheDataBytesInsert:
      return Ticker::kBlockCacheBytesWrite;
    default:
      return ticker;
  }
}

// The cells whose sum is the ticker, each plus 1: the ticker's own cell, the
// cell of its part, and the cells of groups. Zeros fill the rest.
using TickerCells = std::array<uint16_t, 3 + kCounterGroupCount>;

// Returns the ticker of MultiGet alone that is part of the ticker of all reads.
Ticker PartOf(Ticker ticker) {
  switch (ticker) {
    case Ticker::kNumberKeysRead:
      return Ticker::kNumberMultiGetKeysRead;
    case Ticker::kNumberKeysFound:
      return Ticker::kNumberMultiGetKeysFound;
    case Ticker::kBytesRead:
      return Ticker::kNumberMultiGetBytesRead;
    default:
      return Ticker::kCount;
  }
}

TickerCells CellsOf(Ticker ticker) {
  TickerCells cells = {};
  size_t count = 0;
  cells[count++] = static_cast<uint16_t>(StatisticsCells::Of(ticker) + 1);
  const Ticker part = PartOf(ticker);
  if (part != Ticker::kCount) {
    cells[count++] = static_cast<uint16_t>(StatisticsCells::Of(part) + 1);
  }
  for (size_t i = 0; i < kCounterGroupCount; ++i) {
    const auto group = static_cast<CounterGroup>(i);
    for (const Ticker event : GroupTickers(group)) {
      if (event != ticker) continue;
      cells[count++] = static_cast<uint16_t>(StatisticsCells::Of(group) + 1);
    }
  }
  return cells;
}

const TickerCells& CellsOfTicker(Ticker ticker) {
  using All = std::array<TickerCells, kTickerCount>;
  static constinit ProcessWide<All> all;
  const All& cells = all.Get([] {
    auto made = std::make_unique<All>();
    for (size_t i = 0; i < kTickerCount; ++i) {
      (*made)[i] = CellsOf(StoredAs(static_cast<Ticker>(i)));
    }
    return made;
  });
  return cells[static_cast<size_t>(ticker)];
}

// Converts "varve.db.get.micros" to Prometheus's form "varve_db_get_micros".
std::string PrometheusName(const char* name) {
  std::string text = name;
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

}  // namespace

std::shared_ptr<Statistics> CreateDBStatistics(
    const StatisticsOptions& options) {
  return std::make_shared<StatisticsImpl>(options);
}

StatisticsImpl::StatisticsImpl(const StatisticsOptions& options,
                               std::unique_ptr<StatisticsCellSets> other_sets)
    : other_sets_(std::move(other_sets)), level_(options.level) {
  if (other_sets_ != nullptr) return;
  per_cpu_.emplace();
  published_ =
      PublishStatistics(per_cpu_->set(0), PerCpuStatisticsCells::kSetBytes,
                        per_cpu_->set_count());
}

StatisticsImpl::~StatisticsImpl() { WithdrawStatistics(published_); }

void StatisticsImpl::AddElsewhere(size_t cell, uint64_t count) {
  other_sets_->Add(cell, count);
}

void StatisticsImpl::AddToHistogram(HistogramType histogram, uint64_t value) {
  const auto index = static_cast<size_t>(histogram);
  const size_t bounds = Cells::BoundsOf(index);
  const size_t cell = Cells::BucketOf(index, Histogram::BucketOf(value));
  AddToCell(Cells::SumOf(index), value);
  if (other_sets_ == nullptr) [[likely]] {
    per_cpu_->Record(bounds, cell, value);
  } else {
    other_sets_->Record(bounds, cell, value);
  }
}

void StatisticsImpl::recordTick(Ticker ticker, uint64_t count) {
  if (IsValid(ticker)) Tick(StoredAs(ticker), count);
}

void StatisticsImpl::recordInHistogram(HistogramType histogram,
                                       uint64_t value) {
  if (IsValid(histogram)) Record(histogram, value);
}

template <typename Function>
void StatisticsImpl::ForEachSet(Function function) const {
  if (per_cpu_) {
    for (size_t i = 0; i < per_cpu_->set_count(); ++i) {
      function(per_cpu_->set(i));
    }
  } else {
    other_sets_->ForEachSet(function);
  }
}

uint64_t StatisticsImpl::Baseline(size_t cell) const {
  // acquire: pairs with the release in Reset.
  if (!was_reset_.load(std::memory_order_acquire)) return 0;
  MutexLock lock(&reset_mutex_);
  // relaxed: it changes only under the mutex.
  return baseline_[cell].load(std::memory_order_relaxed);
}

uint64_t StatisticsImpl::Total(size_t cell) const {
  // Before the cells, which only rise.
  const uint64_t before = Baseline(cell);
  uint64_t sum = 0;
  ForEachSet([&](const Cells::Cell* set) {
    // relaxed: a count orders nothing.
    sum += set[cell].load(std::memory_order_relaxed);
  });
  return sum - before;
}

uint64_t StatisticsImpl::getTickerCount(Ticker ticker) const {
  if (!IsValid(ticker)) return 0;
  const TickerCells& cells = CellsOfTicker(ticker);
  uint64_t before = 0;
  for (const uint16_t* cell = cells.data(); *cell != 0; ++cell) {
    before += Baseline(size_t{*cell} - 1);
  }
  uint64_t sum = 0;
  ForEachSet([&](const Cells::Cell* set) {
    for (const uint16_t* cell = cells.data(); *cell != 0; ++cell) {
      // relaxed: a count orders nothing.
      sum += set[*cell - 1].load(std::memory_order_relaxed);
    }
  });
  return sum - before;
}

uint64_t StatisticsImpl::PathCount() const {
  if (other_sets_ == nullptr) return 1;
  uint64_t count = 0;
  for (size_t cell = 0; cell < Cells::SumOf(0); ++cell) count += Total(cell);
  return count;
}

Histogram StatisticsImpl::Merged(HistogramType histogram) const {
  const auto index = static_cast<size_t>(histogram);
  Histogram merged;
  uint64_t sum = 0;
  uint64_t min = UINT64_MAX;
  uint64_t max = 0;
  // acquire: pairs with the release in Reset.
  const bool was_reset = was_reset_.load(std::memory_order_acquire);
  std::vector<uint64_t> buckets(Histogram::kBuckets);
  if (was_reset) {
    sum -= Baseline(Cells::SumOf(index));
    for (size_t i = 0; i < buckets.size(); ++i) {
      buckets[i] -= Baseline(Cells::BucketOf(index, i));
    }
  }
  ForEachSet([&](const Cells::Cell* set) {
    // relaxed: a count orders nothing. The sum may include a value whose bucket
    // is in another set.
    sum += set[Cells::SumOf(index)].load(std::memory_order_relaxed);
    const size_t bounds = Cells::BoundsOf(index);
    // relaxed, both: see util/threads/per_cpu.h. They are at least as wide as
    // the Reset that is subtracted saw them.
    const uint64_t set_max = set[bounds].load(std::memory_order_relaxed);
    const uint64_t set_min = ~set[bounds + 1].load(std::memory_order_relaxed);
    if (set_max == 0 && set_min == UINT64_MAX) return;  // Nothing in it.
    min = std::min(min, set_min);
    max = std::max(max, set_max);
    const size_t last = Histogram::BucketOf(set_max);
    for (size_t i = Histogram::BucketOf(set_min); i <= last; ++i) {
      // relaxed: a count orders nothing.
      buckets[i] +=
          set[Cells::BucketOf(index, i)].load(std::memory_order_relaxed);
    }
  });
  size_t first = buckets.size();
  size_t last = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] == 0) continue;
    merged.AddToBucket(i, buckets[i]);
    first = std::min(first, i);
    last = i;
  }
  if (merged.Count() == 0) return merged;
  if (was_reset) {
    // The bounds cover all time. The buckets are more exact.
    min = std::max(min, Histogram::FirstOf(first));
    max = std::min(max, Histogram::LastOf(last));
  }
  merged.SetSummary(sum, min, max);
  return merged;
}

HistogramData StatisticsImpl::histogramData(HistogramType histogram) const {
  HistogramData data;
  if (!IsValid(histogram)) return data;
  const Histogram merged = Merged(histogram);
  const double unit = HistogramUnit(histogram);
  const auto in_units = [unit](uint64_t value) {
    return static_cast<double>(value) / unit;
  };
  data.count = merged.Count();
  data.sum = in_units(merged.Sum());
  data.min = in_units(merged.Min());
  data.max = in_units(merged.Max());
  data.average = merged.Average() / unit;
  data.median = in_units(merged.Percentile(50));
  data.percentile95 = in_units(merged.Percentile(95));
  data.percentile99 = in_units(merged.Percentile(99));
  data.percentile999 = in_units(merged.Percentile(99.9));
  return data;
}

Status StatisticsImpl::GetTickerByName(const Slice& name,
                                       uint64_t* count) const {
  for (size_t i = 0; i < kTickerCount; ++i) {
    const auto ticker = static_cast<Ticker>(i);
    if (name != Slice(TickerName(ticker))) continue;
    *count = getTickerCount(ticker);
    return Status::OK();
  }
  return Status::NotFound("there is no ticker named", name.ToString());
}

Status StatisticsImpl::GetHistogramByName(const Slice& name,
                                          HistogramData* data) const {
  for (size_t i = 0; i < kHistogramCount; ++i) {
    const auto histogram = static_cast<HistogramType>(i);
    if (name != Slice(HistogramName(histogram))) continue;
    *data = histogramData(histogram);
    return Status::OK();
  }
  return Status::NotFound("there is no histogram named", name.ToString());
}

void StatisticsImpl::Reset() {
  std::vector<Cells::Cell> counts(Cells::kCount);
  // If two run at a time, the later one's sums are greater.
  MutexLock lock(&reset_mutex_);
  ForEachSet([&counts](const Cells::Cell* set) {
    FoldStatisticsSet(set, counts.data());
  });
  baseline_.swap(counts);
  // release: pairs with the acquire in Baseline.
  was_reset_.store(true, std::memory_order_release);
}

std::string StatisticsImpl::ToString() const {
  std::string text;
  for (size_t i = 0; i < kTickerCount; ++i) {
    const auto ticker = static_cast<Ticker>(i);
    AppendFormat(&text, "%s COUNT : %" PRIu64 "\n", TickerName(ticker),
                 getTickerCount(ticker));
  }
  for (size_t i = 0; i < kHistogramCount; ++i) {
    const auto histogram = static_cast<HistogramType>(i);
    const HistogramData data = histogramData(histogram);
    AppendFormat(&text,
                 "%s P50 : %.3f P95 : %.3f P99 : %.3f P99.9 : %.3f MIN : %.3f "
                 "MAX : %.3f COUNT : %" PRIu64 " SUM : %.3f\n",
                 HistogramName(histogram), data.median, data.percentile95,
                 data.percentile99, data.percentile999, data.min, data.max,
                 data.count, data.sum);
  }
  return text;
}

std::string StatisticsImpl::ToPrometheus() const {
  std::string text;
  for (size_t i = 0; i < kTickerCount; ++i) {
    const auto ticker = static_cast<Ticker>(i);
    const std::string name = PrometheusName(TickerName(ticker)) + "_total";
    AppendFormat(&text, "# TYPE %s counter\n%s %" PRIu64 "\n", name.c_str(),
                 name.c_str(), getTickerCount(ticker));
  }
  for (size_t i = 0; i < kHistogramCount; ++i) {
    const auto histogram = static_cast<HistogramType>(i);
    const HistogramData data = histogramData(histogram);
    std::string name = PrometheusName(HistogramName(histogram));
    // Prometheus expects times in seconds.
    const bool is_time = HistogramUnit(histogram) != 1;
    const double scale = is_time ? 1e-6 : 1;
    if (is_time && name.ends_with("_micros")) name.resize(name.size() - 7);
    if (is_time) name += "_seconds";
    AppendFormat(&text, "# TYPE %s summary\n", name.c_str());
    const std::pair<const char*, double> quantiles[] = {
        {"0.5", data.median},
        {"0.95", data.percentile95},
        {"0.99", data.percentile99},
        {"0.999", data.percentile999}};
    for (const auto& [quantile, value] : quantiles) {
      AppendFormat(&text, "%s{quantile=\"%s\"} %.9g\n", name.c_str(), quantile,
                   value * scale);
    }
    AppendFormat(&text, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name.c_str(),
                 data.sum * scale, name.c_str(), data.count);
  }
  return text;
}

std::string StatisticsImpl::Path() const {
  return per_cpu_ ? PerCpuPathName(per_cpu_->path()) : other_sets_->Path();
}

uint64_t StatisticsImpl::MemoryUsage() const {
  return per_cpu_ ? per_cpu_->used_bytes() : other_sets_->used_bytes();
}

uint64_t StatisticsImpl::ReservedMemory() const {
  return per_cpu_ ? per_cpu_->reserved_bytes() : other_sets_->reserved_bytes();
}

}  // namespace varve
