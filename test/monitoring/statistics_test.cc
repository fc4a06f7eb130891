// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: in each of the three forms, no event is lost or counted elsewhere,
// whatever threads do; distributions are as exact as is said; and texts and
// names are right. Method: exact sums after threads that were moved between
// processors, after their end, and under a single processor; a Histogram that
// saw the same values; numbers at the end of the range.
#include "monitoring/statistics.h"

#include "experimental/ablation.h"
#include "monitoring/baseline/global_statistics_cells.h"
#include "monitoring/baseline/thread_statistics_cells.h"
#include "test/testing/machine/migration.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using test::RunMigrating;

std::unique_ptr<StatisticsCellSets> SetsOf(StatisticsMode mode) {
  switch (mode) {
    case StatisticsMode::kPerCpu:
      break;
    case StatisticsMode::kGlobal:
      return std::make_unique<GlobalStatisticsCells>();
    case StatisticsMode::kThread:
      return std::make_unique<ThreadStatisticsCells>();
  }
  return nullptr;
}

class StatisticsTest : public ::testing::TestWithParam<StatisticsMode> {
 protected:
  static std::shared_ptr<Statistics> Create(
      StatsLevel level = StatsLevel::kExceptDetailedTimers) {
    return std::make_shared<StatisticsImpl>(StatisticsOptions{.level = level},
                                            SetsOf(GetParam()));
  }
  const std::shared_ptr<Statistics> statistics_ = Create();
  StatisticsImpl* const impl_ = StatisticsImpl::Of(statistics_.get());
};

std::string ModeName(const ::testing::TestParamInfo<StatisticsMode>& mode) {
  switch (mode.param) {
    case StatisticsMode::kPerCpu:
      return "PerCpu";
    case StatisticsMode::kGlobal:
      return "Global";
    case StatisticsMode::kThread:
      return "Thread";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Modes, StatisticsTest,
                         ::testing::Values(StatisticsMode::kPerCpu,
                                           StatisticsMode::kGlobal,
                                           StatisticsMode::kThread),
                         ModeName);

// ---- Tickers ----------------------------------------------------------------

// Tickers with cells that are no other's as well.
std::vector<Ticker> OwnTickers() {
  const std::set<Ticker> others = {
      Ticker::kBlockCacheDataHit,       Ticker::kBlockCacheDataMiss,
      Ticker::kBlockCacheDataAdd,       Ticker::kBlockCacheDataBytesInsert,
      Ticker::kNumberMultiGetKeysRead,  Ticker::kNumberMultiGetKeysFound,
      Ticker::kNumberMultiGetBytesRead,
  };
  std::vector<Ticker> tickers;
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    const auto ticker = static_cast<Ticker>(i);
    if (others.count(ticker) == 0) tickers.push_back(ticker);
  }
  return tickers;
}

TEST_P(StatisticsTest, StartsAtZeroAndCounts) {
  for (const Ticker ticker : OwnTickers()) {
    EXPECT_EQ(statistics_->getTickerCount(ticker), 0u);
    statistics_->recordTick(ticker, static_cast<uint64_t>(ticker) + 1);
    statistics_->recordTick(ticker, 1000);
  }
  for (const Ticker ticker : OwnTickers()) {
    EXPECT_EQ(statistics_->getTickerCount(ticker),
              static_cast<uint64_t>(ticker) + 1001);
  }
  statistics_->Reset();
  for (const Ticker ticker : OwnTickers()) {
    EXPECT_EQ(statistics_->getTickerCount(ticker), 0u);
    statistics_->recordTick(ticker, 7);
    EXPECT_EQ(statistics_->getTickerCount(ticker), 7u);
  }
}

TEST_P(StatisticsTest, CountsDataBlocksAsBlocks) {
  statistics_->recordTick(Ticker::kBlockCacheHit, 3);
  statistics_->recordTick(Ticker::kBlockCacheDataHit, 4);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBlockCacheHit), 7u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBlockCacheDataHit), 7u);
}

TEST_P(StatisticsTest, CountsReadsOfMultiGetAmongAllReads) {
  statistics_->recordTick(Ticker::kNumberKeysRead, 1);
  statistics_->recordTick(Ticker::kNumberMultiGetKeysRead, 10);
  statistics_->recordTick(Ticker::kNumberMultiGetKeysFound, 20);
  statistics_->recordTick(Ticker::kNumberMultiGetBytesRead, 30);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNumberMultiGetKeysRead), 10u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNumberKeysRead), 11u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNumberKeysFound), 20u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 30u);
}

TEST_P(StatisticsTest, CountsAGroupOnceForEachOfItsTickers) {
  std::vector<uint64_t> expected(kTickerCount);
  for (size_t i = 0; i < kCounterGroupCount; ++i) {
    const auto group = static_cast<CounterGroup>(i);
    EXPECT_FALSE(GroupTickers(group).empty());
    for (size_t n = 0; n <= i; ++n) impl_->TickGroup(group);
    for (const Ticker ticker : GroupTickers(group)) {
      expected[static_cast<size_t>(ticker)] += i + 1;
    }
  }
  for (const Ticker ticker : OwnTickers()) {
    EXPECT_EQ(statistics_->getTickerCount(ticker),
              expected[static_cast<size_t>(ticker)])
        << TickerName(ticker);
  }
}

TEST_P(StatisticsTest, LosesNoTickUnderMigration) {
  constexpr int kThreads = 64;
  constexpr int kRounds = 20;
  constexpr uint64_t kTicks = 1000000;
  const uint64_t moves =
      RunMigrating(kThreads, kRounds, test::TestSeed(), [&](int i, int) {
        for (uint64_t n = 0; n < kTicks / kRounds; ++n) {
          impl_->Tick(Ticker::kNumberKeysRead);
          if (n % 64 == 0) {
            impl_->Record(HistogramType::kDbGet,
                          static_cast<uint64_t>(i) * 1000 + n);
          }
        }
      });
  printf("%llu moves\n", static_cast<unsigned long long>(moves));
  // All of them have ended.
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kNumberKeysRead),
            kThreads * kTicks);
  const HistogramData data = statistics_->histogramData(HistogramType::kDbGet);
  constexpr uint64_t kRecorded = (kTicks / kRounds + 63) / 64;
  EXPECT_EQ(data.count, kThreads * kRounds * kRecorded);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < kThreads; ++i) {
    for (uint64_t n = 0; n < kTicks / kRounds; n += 64) sum += i * 1000 + n;
  }
  EXPECT_EQ(data.sum, static_cast<double>(sum * kRounds) / 1000);
  EXPECT_EQ(data.min, 0);
  EXPECT_EQ(data.max, (63000.0 + 64 * (kRecorded - 1)) / 1000);
}

TEST_P(StatisticsTest, LosesNoTickOnASingleCpu) {
  std::vector<std::thread> threads;
  constexpr uint64_t kTicks = 300000;
  const int cpu = test::AllowedCpus().back();
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      EXPECT_TRUE(test::BindThread(0, cpu));
      for (uint64_t n = 0; n < kTicks; ++n) {
        impl_->Tick(Ticker::kBytesRead, 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 48 * kTicks);
}

TEST_P(StatisticsTest, CountsThreadsThatLiveAndThatEnded) {
  std::latch ticked(8);
  std::latch looked(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      impl_->Tick(Ticker::kBytesRead, 5);
      impl_->Record(HistogramType::kBytesPerRead, 5);
      ticked.count_down();
      looked.wait();
      impl_->Tick(Ticker::kBytesRead, 6);
      impl_->Record(HistogramType::kBytesPerRead, 6);
    });
  }
  ticked.wait();
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 40u);
  EXPECT_EQ(statistics_->histogramData(HistogramType::kBytesPerRead).sum, 40);
  statistics_->Reset();
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 0u);
  looked.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 48u);
  const HistogramData data =
      statistics_->histogramData(HistogramType::kBytesPerRead);
  EXPECT_EQ(data.count, 8u);
  EXPECT_EQ(data.sum, 48);
  EXPECT_EQ(data.min, 6);
  EXPECT_EQ(data.max, 6);
}

// Ticks after the thread's other objects were destroyed.
TEST_P(StatisticsTest, CountsAtTheEndOfAThread) {
  struct Late {
    ~Late() {
      if (impl != nullptr) impl->Tick(Ticker::kBytesRead, 100);
    }
    StatisticsImpl* impl = nullptr;
  };
  std::thread([this] {
    static thread_local Late late;  // Created first, so destroyed last.
    late.impl = impl_;
    impl_->Tick(Ticker::kBytesRead, 1);
  }).join();
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBytesRead), 101u);
}

TEST_P(StatisticsTest, KeepsSeveralApart) {
  std::vector<std::shared_ptr<Statistics>> all;
  std::vector<std::thread> threads;
  for (int round = 0; round < 3; ++round) {
    all.clear();  // Their places are given to others.
    for (int i = 0; i < 20; ++i) all.push_back(Create());
    const auto work = [&all] {
      for (size_t i = 0; i < all.size(); ++i) {
        all[i]->recordTick(Ticker::kBytesRead, i + 1);
      }
    };
    work();
    std::thread(work).join();
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i]->getTickerCount(Ticker::kBytesRead), 2 * (i + 1));
    }
  }
}

// ---- Histograms -------------------------------------------------------------

TEST_P(StatisticsTest, MeasuresAsAHistogramDoes) {
  test::Rng rng(test::TestSeed());
  Histogram expected;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t value = rng.Next() >> (8 + rng.Below(56));
    expected.Add(value);
    impl_->Record(HistogramType::kBytesPerRead, value);
  }
  const HistogramData data =
      statistics_->histogramData(HistogramType::kBytesPerRead);
  EXPECT_EQ(data.count, expected.Count());
  EXPECT_EQ(data.sum, static_cast<double>(expected.Sum()));
  EXPECT_EQ(data.min, static_cast<double>(expected.Min()));
  EXPECT_EQ(data.max, static_cast<double>(expected.Max()));
  EXPECT_EQ(data.average, expected.Average());
  EXPECT_EQ(data.median, static_cast<double>(expected.Percentile(50)));
  EXPECT_EQ(data.percentile95, static_cast<double>(expected.Percentile(95)));
  EXPECT_EQ(data.percentile99, static_cast<double>(expected.Percentile(99)));
  EXPECT_EQ(data.percentile999, static_cast<double>(expected.Percentile(99.9)));
}

TEST_P(StatisticsTest, KeepsExtremesToABucketAfterReset) {
  const auto type = HistogramType::kBytesPerRead;
  for (const uint64_t value : {1u, 1000000u}) impl_->Record(type, value);
  statistics_->Reset();
  EXPECT_EQ(statistics_->histogramData(type).count, 0u);
  EXPECT_EQ(statistics_->histogramData(type).max, 0);
  for (const uint64_t value : {5000u, 7000u}) impl_->Record(type, value);
  const HistogramData data = statistics_->histogramData(type);
  EXPECT_EQ(data.count, 2u);
  EXPECT_EQ(data.sum, 12000);
  EXPECT_LE(std::abs(data.min - 5000), 5000.0 / 64);
  EXPECT_LE(std::abs(data.max - 7000), 7000.0 / 64);
}

TEST_P(StatisticsTest, SaturatesAtTheEndOfTheRange) {
  const auto type = HistogramType::kBytesPerRead;
  for (const uint64_t value : {UINT64_MAX, UINT64_MAX, uint64_t{0}}) {
    impl_->Record(type, value);
  }
  const HistogramData data = statistics_->histogramData(type);
  EXPECT_EQ(data.count, 3u);
  EXPECT_EQ(data.sum, static_cast<double>(UINT64_MAX));
  EXPECT_EQ(data.max, static_cast<double>(UINT64_MAX));
  EXPECT_EQ(data.min, 0);
}

TEST_P(StatisticsTest, TellsTimesInMicroseconds) {
  impl_->Record(HistogramType::kDbGet, 1500);
  const HistogramData data = statistics_->histogramData(HistogramType::kDbGet);
  EXPECT_EQ(data.sum, 1.5);
  EXPECT_EQ(data.max, 1.5);
  EXPECT_EQ(data.median, 1.5);
}

// ---- Levels -----------------------------------------------------------------

TEST_P(StatisticsTest, RecordsMeasurementsOfTheLevel) {
  using L = StatsLevel;
  for (const L level :
       {L::kDisableAll, L::kExceptHistogramOrTimers, L::kExceptTimers,
        L::kExceptDetailedTimers, L::kExceptTimeForMutex, L::kAll}) {
    const std::shared_ptr<Statistics> s = Create(level);
    EXPECT_EQ(s->get_stats_level(), level);
    s->recordTick(Ticker::kBytesRead, 1);
    s->recordInHistogram(HistogramType::kBytesPerRead, 1);
    s->recordInHistogram(HistogramType::kDbGet, 1);
    s->recordInHistogram(HistogramType::kDbMutexWait, 1);
    EXPECT_EQ(s->getTickerCount(Ticker::kBytesRead), level > L::kDisableAll);
    const auto count = [&s](HistogramType histogram) {
      return s->histogramData(histogram).count;
    };
    EXPECT_EQ(count(HistogramType::kBytesPerRead), level >= L::kExceptTimers);
    EXPECT_EQ(count(HistogramType::kDbGet), level >= L::kExceptDetailedTimers);
    EXPECT_EQ(count(HistogramType::kDbMutexWait), level >= L::kAll);
    s->set_stats_level(L::kDisableAll);
    s->recordTick(Ticker::kBytesRead, 1);
    EXPECT_EQ(s->getTickerCount(Ticker::kBytesRead), level > L::kDisableAll);
  }
}

// ---- Names, texts, memory ---------------------------------------------------

TEST(StatisticsNamesTest, NamesEachDifferently) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    names.insert(TickerName(static_cast<Ticker>(i)));
  }
  for (uint32_t i = 0; i < kHistogramCount; ++i) {
    names.insert(HistogramName(static_cast<HistogramType>(i)));
  }
  EXPECT_EQ(names.size(), kTickerCount + kHistogramCount);
  for (const std::string& name : names) {
    EXPECT_TRUE(name.starts_with("varve.")) << name;
  }
}

TEST_P(StatisticsTest, FindsByName) {
  statistics_->recordTick(Ticker::kBackgroundErrors, 9);
  uint64_t count = 77;
  EXPECT_TRUE(
      statistics_->GetTickerByName("varve.error.handler.bg.error.count", &count)
          .ok());
  EXPECT_EQ(count, 9u);
  impl_->Record(HistogramType::kBytesPerWrite, 6);
  HistogramData data;
  EXPECT_TRUE(
      statistics_->GetHistogramByName("varve.bytes.per.write", &data).ok());
  EXPECT_EQ(data.max, 6);
}

TEST_P(StatisticsTest, AnswersNotFoundToUnknownNames) {
  uint64_t count = 77;
  HistogramData data;
  data.count = 77;
  for (const std::string name :
       {"", "varve.", "varve.bytes.rea", "varve.bytes.read ", "bytes.read",
        "varve.db.get.micros\n"}) {
    EXPECT_TRUE(IsNotFound(statistics_->GetTickerByName(name, &count)));
    EXPECT_TRUE(IsNotFound(statistics_->GetHistogramByName(name, &data)));
  }
  EXPECT_EQ(count, 77u);
  EXPECT_EQ(data.count, 77u);
}

TEST_P(StatisticsTest, IgnoresNumbersBeyondTheEnumerations) {
  for (const uint32_t number :
       {uint32_t{kTickerCount}, uint32_t{kTickerCount} + 1, 100000u,
        UINT32_MAX}) {
    statistics_->recordTick(static_cast<Ticker>(number), 1);
    EXPECT_EQ(statistics_->getTickerCount(static_cast<Ticker>(number)), 0u);
    statistics_->recordInHistogram(static_cast<HistogramType>(number), 1);
    EXPECT_EQ(
        statistics_->histogramData(static_cast<HistogramType>(number)).count,
        0u);
  }
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    EXPECT_EQ(statistics_->getTickerCount(static_cast<Ticker>(i)), 0u);
  }
}

TEST_P(StatisticsTest, PrintsALineForEach) {
  statistics_->recordTick(Ticker::kBlockCacheHit, 7);
  impl_->Record(HistogramType::kDbGet, 2500);
  const std::string text = statistics_->ToString();
  EXPECT_TRUE(text.starts_with("varve.block.cache.hit COUNT : 7\n")) << text;
  EXPECT_NE(text.find("varve.db.get.micros P50 : 2.500 P95 : 2.500 "
                      "P99 : 2.500 P99.9 : 2.500 MIN : 2.500 MAX : 2.500 "
                      "COUNT : 1 SUM : 2.500\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')),
            kTickerCount + kHistogramCount);
}

TEST_P(StatisticsTest, SpeaksToPrometheus) {
  statistics_->recordTick(Ticker::kBlockCacheHit, 7);
  impl_->Record(HistogramType::kDbGet, 2500);
  impl_->Record(HistogramType::kBytesPerRead, 40);
  const std::string text = statistics_->ToPrometheus();
  for (const char* part :
       {"# TYPE varve_block_cache_hit_total counter\n"
        "varve_block_cache_hit_total 7\n",
        "# TYPE varve_db_get_seconds summary\n"
        "varve_db_get_seconds{quantile=\"0.5\"} 2.5e-06\n",
        "varve_db_get_seconds_sum 2.5e-06\nvarve_db_get_seconds_count 1\n",
        "varve_bytes_per_read_sum 40\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  }
  // Every line is a comment, or a name and a number.
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with("# TYPE ")) continue;
    EXPECT_EQ(line.find_first_not_of(
                  "abcdefghijklmnopqrstuvwxyz0123456789_{}=\".-+ "),
              std::string::npos)
        << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), ' '), 1) << line;
  }
}

TEST_P(StatisticsTest, TellsItsPathAndMemory) {
  printf("%s: %llu bytes of %llu\n", statistics_->Path().c_str(),
         static_cast<unsigned long long>(statistics_->MemoryUsage()),
         static_cast<unsigned long long>(statistics_->ReservedMemory()));
  EXPECT_FALSE(statistics_->Path().empty());
  const uint64_t before = statistics_->MemoryUsage();
  impl_->Record(HistogramType::kBytesPerRead, 100);
  impl_->Record(HistogramType::kBytesPerRead, uint64_t{1} << 60);
  EXPECT_GE(statistics_->MemoryUsage(), before);
  EXPECT_LE(statistics_->MemoryUsage(), statistics_->ReservedMemory());
  if (GetParam() == StatisticsMode::kPerCpu) {
    EXPECT_EQ(before, 0u);
    // Counts and sums, and two buckets.
    EXPECT_LE(statistics_->MemoryUsage(), 5 * 4096u);
  }
}

TEST(RecordTickTest, IgnoresTicksWithoutStatistics) {
  RecordTick(nullptr, Ticker::kNumberKeysRead);
  RecordInHistogram(nullptr, HistogramType::kDbGet, 1);
}

}  // namespace
}  // namespace varve
