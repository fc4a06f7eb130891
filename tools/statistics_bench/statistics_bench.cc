// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of an update and of a query for each form of statistics: see
// docs/statistics.md. The column CPU is the time of one update. The query's
// counters are microseconds.

#include <benchmark/benchmark.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "monitoring/baseline/global_statistics_cells.h"
#include "monitoring/baseline/thread_statistics_cells.h"
#include "monitoring/statistics.h"
#include "experimental/ablation.h"

namespace varve {
namespace {

// ---- Updates ----------------------------------------------------------------

// The yardstick: a counter that no other thread touches.
void PrivateAtomic(benchmark::State& state) {
  struct alignas(128) Line {
    std::atomic<uint64_t> count{0};
  };
  const auto line = std::make_unique<Line>();
  // relaxed: as the counters that it is compared with.
  for (auto _ : state) line->count.fetch_add(1, std::memory_order_relaxed);
}
BENCHMARK(PrivateAtomic)->Threads(1)->Threads(2)->Threads(8)->Threads(32);

void PrivatePlain(benchmark::State& state) {
  uint64_t count = 0;
  for (auto _ : state) {
    ++count;
    benchmark::DoNotOptimize(count);
  }
}
BENCHMARK(PrivatePlain);

// Shared by all threads of a benchmark.
template <typename Cells>
Cells& SharedCells() {
  static Cells cells;
  return cells;
}

constexpr size_t kCell = StatisticsCells::Of(Ticker::kNumberKeysRead);

template <typename Cells>
void Update(benchmark::State& state) {
  Cells& cells = SharedCells<Cells>();
  for (auto _ : state) cells.Add(kCell, 1);
}
BENCHMARK_TEMPLATE(Update, PerCpuStatisticsCells)
    ->Name("Update/per_cpu")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->Threads(32);
BENCHMARK_TEMPLATE(Update, ThreadStatisticsCells)
    ->Name("Update/thread")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->Threads(32);
BENCHMARK_TEMPLATE(Update, GlobalStatisticsCells)
    ->Name("Update/global")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->Threads(32);

// The paths that take the place of the first where it is not to be had.
void UpdateOnPath(benchmark::State& state, PerCpuPath path) {
  static PerCpuStatisticsCells cells[] = {
      PerCpuStatisticsCells(PerCpuPath::kConcurrencyId),
      PerCpuStatisticsCells(PerCpuPath::kCpuId),
      PerCpuStatisticsCells(PerCpuPath::kAtomic)};
  if (path < BestPerCpuPath()) {
    state.SkipWithError("not on this machine");
    return;
  }
  PerCpuStatisticsCells& mine = cells[static_cast<int>(path)];
  for (auto _ : state) mine.Add(kCell, 1);
}
BENCHMARK_CAPTURE(UpdateOnPath, concurrency_id, PerCpuPath::kConcurrencyId);
BENCHMARK_CAPTURE(UpdateOnPath, cpu_id, PerCpuPath::kCpuId);
BENCHMARK_CAPTURE(UpdateOnPath, atomic, PerCpuPath::kAtomic);

void RecordInHistogram(benchmark::State& state, StatisticsMode mode) {
  static const std::shared_ptr<Statistics> all[] = {
      CreateDBStatistics(StatisticsMode::kPerCpu),
      CreateDBStatistics(StatisticsMode::kGlobal),
      CreateDBStatistics(StatisticsMode::kThread)};
  StatisticsImpl& mine = *StatisticsImpl::Of(all[static_cast<int>(mode)].get());
  uint64_t value = 0;
  for (auto _ : state) {
    mine.Record(HistogramType::kDbGet, 500 + (value++ & 1023));
  }
}
BENCHMARK_CAPTURE(RecordInHistogram, per_cpu, StatisticsMode::kPerCpu);
BENCHMARK_CAPTURE(RecordInHistogram, thread, StatisticsMode::kThread);
BENCHMARK_CAPTURE(RecordInHistogram, global, StatisticsMode::kGlobal);

// ---- Queries ----------------------------------------------------------------

// Threads that have ticked, and live until this goes.
class Tickers {
 public:
  Tickers(StatisticsImpl* statistics, int count) : statistics_(statistics) {
    end_.lock();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (int i = 0; i < count; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, &attributes, &Tickers::Run, this) != 0) break;
      threads_.push_back(thread);
    }
    pthread_attr_destroy(&attributes);
    while (ticked_ < threads_.size()) sched_yield();
  }
  Tickers(const Tickers&) = delete;
  Tickers& operator=(const Tickers&) = delete;
  ~Tickers() {
    end_.unlock();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }
  size_t count() const { return threads_.size(); }

 private:
  static void* Run(void* argument) {
    auto* const self = static_cast<Tickers*>(argument);
    for (size_t i = 0; i < kTickerCount; ++i) {
      self->statistics_->Tick(static_cast<Ticker>(i));
    }
    self->statistics_->Record(HistogramType::kDbGet, 1000);
    ++self->ticked_;
    const std::lock_guard wait(self->end_);
    return nullptr;
  }

  StatisticsImpl* const statistics_;
  std::mutex end_;
  std::atomic<size_t> ticked_ = 0;
  std::vector<pthread_t> threads_;
};

enum class Query { kOneTicker, kAllTickers, kText };

void DoQuery(const StatisticsImpl& statistics, Query query) {
  if (query == Query::kText) {
    benchmark::DoNotOptimize(statistics.ToString());
    return;
  }
  const size_t count = query == Query::kAllTickers ? kTickerCount : 1;
  for (size_t i = 0; i < count; ++i) {
    benchmark::DoNotOptimize(statistics.getTickerCount(static_cast<Ticker>(i)));
  }
}

void QueryLatency(benchmark::State& state, StatisticsMode mode, Query query) {
  const auto created = CreateDBStatistics(mode);
  StatisticsImpl& statistics = *StatisticsImpl::Of(created.get());
  const Tickers tickers(&statistics, static_cast<int>(state.range(0)));
  if (tickers.count() != static_cast<size_t>(state.range(0))) {
    state.SkipWithError("not so many threads can be had");
    return;
  }
  using Clock = std::chrono::steady_clock;
  std::vector<double> micros;
  for (auto _ : state) {
    const auto start = Clock::now();
    DoQuery(statistics, query);
    micros.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - start)
            .count());
  }
  std::sort(micros.begin(), micros.end());
  double sum = 0;
  for (const double each : micros) sum += each;
  const size_t count = micros.size();
  state.counters["min"] = micros.front();
  state.counters["avg"] = sum / static_cast<double>(count);
  state.counters["max"] = micros.back();
  state.counters["p95"] = micros[count * 95 / 100];
  state.counters["memory_KiB"] =
      static_cast<double>(statistics.MemoryUsage()) / 1024;
}

void QueryArguments(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 100, 1000, 4000}) benchmark->Arg(threads);
  benchmark->Iterations(200)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(QueryLatency, one_ticker_per_cpu, StatisticsMode::kPerCpu,
                  Query::kOneTicker)
    ->Apply(QueryArguments);
BENCHMARK_CAPTURE(QueryLatency, one_ticker_thread, StatisticsMode::kThread,
                  Query::kOneTicker)
    ->Apply(QueryArguments);
BENCHMARK_CAPTURE(QueryLatency, all_tickers_per_cpu, StatisticsMode::kPerCpu,
                  Query::kAllTickers)
    ->Apply(QueryArguments);
BENCHMARK_CAPTURE(QueryLatency, all_tickers_thread, StatisticsMode::kThread,
                  Query::kAllTickers)
    ->Apply(QueryArguments);
BENCHMARK_CAPTURE(QueryLatency, text_per_cpu, StatisticsMode::kPerCpu,
                  Query::kText)
    ->Apply(QueryArguments);
BENCHMARK_CAPTURE(QueryLatency, text_thread, StatisticsMode::kThread,
                  Query::kText)
    ->Apply(QueryArguments);

}  // namespace
}  // namespace varve

BENCHMARK_MAIN();
