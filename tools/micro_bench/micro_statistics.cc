// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of an update and of a query for each form of statistics: see
// docs/statistics.md. The column CPU is the time of one update. The query's
// counters are microseconds.

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "monitoring/baseline/global_statistics_cells.h"
#include "monitoring/baseline/thread_statistics_cells.h"
#include "monitoring/statistics.h"
#include "tools/micro_bench/micro_bench.h"

namespace varve::bench {
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

void PrivatePlain(benchmark::State& state) {
  uint64_t count = 0;
  for (auto _ : state) {
    ++count;
    benchmark::DoNotOptimize(count);
  }
}

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

// The paths that take the place of the first where it is not to be had.
// Eight counters in turn, as an operation of the database counts several
// things: an addition need not wait until the one before has stored the same
// counter.
template <typename Cells>
void UpdateInTurn(benchmark::State& state) {
  Cells& cells = SharedCells<Cells>();
  uint32_t i = 0;
  for (auto _ : state) cells.Add(kCell + (++i & 7), 1);
}

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

// ---- Queries ----------------------------------------------------------------

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
  const auto count = static_cast<size_t>(state.range(0));
  const ThreadsThatStay threads(count, [&](const auto& stay) {
    for (size_t i = 0; i < kTickerCount; ++i) {
      statistics.Tick(static_cast<Ticker>(i));
    }
    statistics.Record(HistogramType::kDbGet, 1000);
    stay();
  });
  if (threads.count() != count) {
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
  SetQueryCounters(std::move(micros), &state);
  state.counters["memory_KiB"] =
      static_cast<double>(statistics.MemoryUsage()) / 1024;
}

}  // namespace

void AddStatistics() {
  const auto add = [](const char* name, auto function, auto... arguments) {
    return benchmark::RegisterBenchmark(name, function, arguments...);
  };
  add("PrivateAtomic", PrivateAtomic)->Apply(ForThreads);
  add("PrivatePlain", PrivatePlain);
  add("Update/per_cpu", Update<PerCpuStatisticsCells>)->Apply(ForThreads);
  add("Update/thread", Update<ThreadStatisticsCells>)->Apply(ForThreads);
  add("Update/global", Update<GlobalStatisticsCells>)->Apply(ForThreads);
  add("UpdateInTurn/per_cpu", UpdateInTurn<PerCpuStatisticsCells>);
  add("UpdateInTurn/thread", UpdateInTurn<ThreadStatisticsCells>);
  add("UpdateInTurn/global", UpdateInTurn<GlobalStatisticsCells>);
  add("UpdateOnPath/concurrency_id", UpdateOnPath, PerCpuPath::kConcurrencyId);
  add("UpdateOnPath/cpu_id", UpdateOnPath, PerCpuPath::kCpuId);
  add("UpdateOnPath/atomic", UpdateOnPath, PerCpuPath::kAtomic);
  const struct {
    const char* name;
    StatisticsMode mode;
  } modes[] = {{"per_cpu", StatisticsMode::kPerCpu},
               {"thread", StatisticsMode::kThread},
               {"global", StatisticsMode::kGlobal}};
  const struct {
    const char* name;
    Query query;
  } queries[] = {{"one_ticker", Query::kOneTicker},
                 {"all_tickers", Query::kAllTickers},
                 {"text", Query::kText}};
  for (const auto& [form, mode] : modes) {
    add((std::string("RecordInHistogram/") + form).c_str(), RecordInHistogram,
        mode);
    if (mode == StatisticsMode::kGlobal) continue;
    for (const auto& [what, query] : queries) {
      const std::string name = std::string("QueryLatency/") + what + "_" + form;
      add(name.c_str(), QueryLatency, mode, query)->Apply(ForThreadsThatStay);
    }
  }
}

}  // namespace varve::bench
