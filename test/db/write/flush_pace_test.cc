// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: writers that are faster than the flush get to the end of the buffer
// when it ends, not much sooner nor later, without ever waiting long; others
// are left alone. Method: flush and writers on a clock of the test's own.

#include "db/write/flush_pace.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr uint64_t kEntries = 400000;
constexpr uint64_t kBuffer = 64 << 20;

struct Outcome {
  uint64_t end_us = 0;      // The end of the flush.
  uint64_t written = 0;     // By then.
  uint64_t paused_us = 0;   // In all,
  uint64_t longest_us = 0;  // and at once.
};

// A flush that takes `write_us` and then `sync_us` more, and a writer of
// `bytes_per_us` in between.
Outcome RunFlush(FlushPace* pace, uint64_t write_us, uint64_t sync_us,
                 double bytes_per_us) {
  Outcome outcome;
  outcome.end_us = write_us + sync_us;
  constexpr uint64_t kBegin = 1000000;
  pace->Begin(kEntries, kBegin);
  double now = 0;
  uint64_t since = 0;
  uint64_t ask_at = 0;
  while (now < static_cast<double>(outcome.end_us) &&
         outcome.written < kBuffer) {
    pace->Advance(std::min(
        kEntries,
        static_cast<uint64_t>(now * kEntries / static_cast<double>(write_us))));
    if (now >= static_cast<double>(write_us)) pace->Written(kBegin + write_us);
    if (outcome.written >= ask_at) {
      const FlushPace::Step step =
          pace->Charge(since, kBuffer - outcome.written, kBuffer,
                       kBegin + static_cast<uint64_t>(now));
      since = 0;
      ask_at = outcome.written + step.bytes;
      EXPECT_LE(step.pause_us, FlushPace::kMaxPauseUs);
      EXPECT_TRUE(step.pause_us == 0 ||
                  step.pause_us >= FlushPace::kMinPauseUs);
      outcome.paused_us += step.pause_us;
      outcome.longest_us = std::max(outcome.longest_us, step.pause_us);
      now += static_cast<double>(step.pause_us);
    }
    constexpr uint64_t kWrite = 116;
    now += kWrite / bytes_per_us;
    outcome.written += kWrite;
    since += kWrite;
  }
  pace->End(kBegin + outcome.end_us);
  return outcome;
}

TEST(FlushPaceTest, WritersSlowerThanTheFlushAreLeftAlone) {
  FlushPace pace;
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = RunFlush(&pace, 400000, 5000, 100);
    EXPECT_EQ(outcome.paused_us, 0u);
  }
}

TEST(FlushPaceTest, FasterOnesAreAtTheEndWithTheFlush) {
  for (const uint64_t write_us : {700000u, 2000000u, 20000000u}) {
    FlushPace pace;
    for (int i = 0; i < 3; ++i) {
      const Outcome outcome = RunFlush(&pace, write_us, write_us / 50, 100);
      EXPECT_LT(outcome.written, kBuffer) << write_us << " round " << i;
      EXPECT_GT(outcome.written, kBuffer / 10 * 9) << write_us;
    }
  }
}

TEST(FlushPaceTest, FlushThatTakesMuchLongerThanTheLastIsWaitedForInPauses) {
  FlushPace pace;
  RunFlush(&pace, 400000, 5000, 100);
  const Outcome slower = RunFlush(&pace, 4000000, 5000, 100);
  EXPECT_LT(slower.written, kBuffer);
  // The flush stalls at its end, for as long as it ran before.
  const Outcome stuck = RunFlush(&pace, 1000000, 1000000, 100);
  EXPECT_LT(stuck.written, kBuffer);
  EXPECT_LE(stuck.longest_us, FlushPace::kMaxPauseUs);
}

TEST(FlushPaceTest, NothingIsKnownBeforeTheFirstFlushIsUnderWay) {
  FlushPace pace;
  EXPECT_EQ(pace.RemainingMicros(5), 0u);
  pace.Begin(kEntries, 1000);
  EXPECT_EQ(pace.RemainingMicros(2000), 0u);
  pace.Advance(kEntries / 2);
  EXPECT_EQ(pace.RemainingMicros(101000), 100000u);
  pace.Advance(kEntries);
  pace.Written(201000);
  EXPECT_EQ(pace.RemainingMicros(201500), 500u);
  EXPECT_EQ(pace.RemainingMicros(301000), 100000u);
  pace.End(301000);
  EXPECT_EQ(pace.RemainingMicros(301000), 0u);
  // The next one is likely to be like it.
  pace.Begin(kEntries / 2, 400000);
  EXPECT_EQ(pace.RemainingMicros(450000), 150000u);
}

TEST(FlushPaceTest, NothingIsKnownFromAFlushOfLittle) {
  FlushPace pace;
  pace.Begin(2, 1000);
  pace.Written(9000);
  pace.End(10000);
  // It waits for a thread that is busy.
  pace.Begin(kEntries, 20000);
  for (uint64_t now_us = 20000; now_us < 10000000; now_us += 100000) {
    EXPECT_EQ(pace.RemainingMicros(now_us), 0u);
    EXPECT_EQ(pace.Charge(1000, kBuffer / 2, kBuffer, now_us).pause_us, 0u);
  }
}

TEST(FlushPaceTest, PausesAreNotMadeForAFlushThatIsSoonOver) {
  FlushPace pace;
  const Outcome outcome = RunFlush(&pace, 1500, 100, 1000000);
  EXPECT_EQ(outcome.paused_us, 0u);
}

}  // namespace
}  // namespace varve
