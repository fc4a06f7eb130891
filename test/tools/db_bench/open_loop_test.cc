// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: openloop measures an operation from when it was due, so that a stall is
// in the latency of each operation that waited for it. Method: run the schedule
// with a clock that moves only as the test says. The adapters of tools/peers
// have the same tests.
#include "tools/db_bench/loops/open_loop.h"

#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

using testing::ElementsAre;

// Moves on by itself only while it is waited for.
struct FakeTime {
  uint64_t now = 0;
  int sleeps = 0;
  int pauses = 0;

  uint64_t Now() const { return now; }
  void Sleep(uint64_t nanoseconds) {
    now += nanoseconds;
    ++sleeps;
  }
  void Pause() {
    now += 100;
    ++pauses;
  }
};

TEST(OpenLoopTest, SharesTheRateAmongThreads) {
  const OpenLoopSchedule first(100000, 2, 0);
  const OpenLoopSchedule last(100000, 2, 1);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first.DueAt(i), i * 20000);
    EXPECT_EQ(last.DueAt(i), i * 20000 + 10000);
  }
  // The product with nanoseconds has more than 64 bits.
  EXPECT_EQ(OpenLoopSchedule(3, 1, 0).DueAt(24000000001), 8000000000333333333u);
  EXPECT_EQ(OpenLoopSchedule(3, 2, 1).CountWithin(1), 1u);
  EXPECT_EQ(OpenLoopSchedule(3, 2, 0).CountWithin(1), 2u);
  EXPECT_EQ(OpenLoopSchedule(1, 2, 1).CountWithin(1), 0u);
}

// One is due each 10 us and takes 2 us, but the second takes 35 us.
TEST(OpenLoopTest, CountsALatencyFromWhenTheOperationWasDue) {
  const std::vector<uint64_t> took = {2000, 35000, 2000, 2000,
                                      2000, 2000,  2000};
  FakeTime time;
  std::vector<uint64_t> prepared;
  std::vector<Histogram> latencies(took.size());
  size_t next = 0;
  const uint64_t done = RunOpenLoop(
      OpenLoopSchedule(100000, 1, 0), took.size(), &time,
      [&] { prepared.push_back(time.now); },
      [&] {
        time.now += took[next];
        return &latencies[next++];
      });
  EXPECT_EQ(done, took.size());
  std::vector<uint64_t> found;
  for (const Histogram& latency : latencies) {
    EXPECT_EQ(latency.Count(), 1u);
    found.push_back(latency.Max());
  }
  EXPECT_THAT(found, ElementsAre(2000, 35000, 27000, 19000, 11000, 3000, 2000));
  // Those that are late follow at once, and none is left out.
  EXPECT_THAT(prepared,
              ElementsAre(0, 2000, 45000, 47000, 49000, 51000, 53000));
  EXPECT_EQ(time.now, 62000u);
  EXPECT_EQ(time.sleeps, 0);
}

TEST(OpenLoopTest, EndsAtAnError) {
  FakeTime time;
  Histogram latency;
  int calls = 0;
  const uint64_t done = RunOpenLoop(
      OpenLoopSchedule(100000, 1, 0), 10, &time, [] {},
      [&] { return ++calls == 4 ? nullptr : &latency; });
  EXPECT_EQ(done, 3u);
  EXPECT_EQ(latency.Count(), 3u);
}

TEST(OpenLoopTest, SleepsUntilShortlyBefore) {
  FakeTime time;
  WaitUntilDue(1000000, &time);
  EXPECT_EQ(time.now, 1000000u);
  EXPECT_EQ(time.sleeps, 1);
  EXPECT_EQ(time.pauses, 2000);
  time = FakeTime();
  WaitUntilDue(400000, &time);
  EXPECT_EQ(time.sleeps, 0);
  EXPECT_EQ(time.pauses, 4000);
  WaitUntilDue(0, &time);
  EXPECT_EQ(time.now, 400000u);
}

TEST(OpenLoopTest, PercentilesAreWithinOnePercent) {
  Random random(1);
  std::vector<uint64_t> values;
  Histogram whole;
  Histogram part;
  for (int i = 0; i < 100000; ++i) {
    values.push_back(random.Next() >> (20 + random.Uniform(40)));
    (values.back() % 2 == 0 ? whole : part).Add(values.back());
  }
  whole.Merge(part);
  std::sort(values.begin(), values.end());
  for (const double percent : {50.0, 99.0, 99.9, 99.99}) {
    const uint64_t exact = values[static_cast<size_t>(percent * 1000) - 1];
    EXPECT_NEAR(static_cast<double>(whole.Percentile(percent)),
                static_cast<double>(exact), static_cast<double>(exact) / 100);
  }
  EXPECT_EQ(whole.Max(), values.back());
}

}  // namespace
}  // namespace varve
