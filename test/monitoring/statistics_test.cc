// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: no tick is lost or counted elsewhere. Method: tick different numbers
// from several threads, then look at sums and text.
#include "monitoring/statistics.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

TEST(StatisticsTest, StartsAtZeroAndCounts) {
  const std::shared_ptr<Statistics> statistics = CreateDBStatistics();
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    const Ticker ticker = static_cast<Ticker>(i);
    EXPECT_EQ(statistics->getTickerCount(ticker), 0u);
    statistics->recordTick(ticker, i + 1);
    statistics->recordTick(ticker, 1000);
  }
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    EXPECT_EQ(statistics->getTickerCount(static_cast<Ticker>(i)), i + 1001);
  }
  statistics->Reset();
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    EXPECT_EQ(statistics->getTickerCount(static_cast<Ticker>(i)), 0u);
  }
}

TEST(StatisticsTest, LosesNoTickOfConcurrentThreads) {
  const std::shared_ptr<Statistics> statistics = CreateDBStatistics();
  constexpr uint64_t kTicks = 100000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&statistics] {
      for (uint64_t tick = 0; tick < kTicks; ++tick) {
        RecordTick(statistics.get(), Ticker::kNumberKeysRead);
        RecordTick(statistics.get(), Ticker::kBytesRead, 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statistics->getTickerCount(Ticker::kNumberKeysRead), 4 * kTicks);
  EXPECT_EQ(statistics->getTickerCount(Ticker::kBytesRead), 12 * kTicks);
}

TEST(StatisticsTest, IgnoresTicksWithoutStatistics) {
  RecordTick(nullptr, Ticker::kNumberKeysRead);
}

TEST(StatisticsTest, NamesEachTickerDifferently) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < kTickerCount; ++i) {
    const std::string name = TickerName(static_cast<Ticker>(i));
    EXPECT_TRUE(name.starts_with("varve.")) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(StatisticsTest, PrintsALineForEachTicker) {
  const std::shared_ptr<Statistics> statistics = CreateDBStatistics();
  statistics->recordTick(Ticker::kBlockCacheHit, 7);
  statistics->recordTick(Ticker::kNoFileErrors, 9);
  const std::string text = statistics->ToString();
  EXPECT_TRUE(text.starts_with("varve.block.cache.hit COUNT : 7\n")) << text;
  EXPECT_TRUE(text.ends_with("varve.no.file.errors COUNT : 9\n")) << text;
}

}  // namespace
}  // namespace varve
