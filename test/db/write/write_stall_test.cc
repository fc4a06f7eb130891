// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: writers are slowed down smoothly as the debt grows, for the worst of
// its reasons, and no write waits longer than a second. Method: the functions
// alone, with every debt between nothing and the stop.

#include "db/write/write_stall.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace varve {
namespace {

constexpr uint64_t kDrainRate = 16 << 20;
constexpr uint64_t kFlushRate = 40 << 20;
constexpr auto kLeastRate = static_cast<uint64_t>(kDrainRate * kSlowestPart);

Options Limits() {
  Options options;
  options.level0_slowdown_writes_trigger = 20;
  options.level0_stop_writes_trigger = 36;
  options.soft_pending_compaction_bytes_limit = 1000;
  options.hard_pending_compaction_bytes_limit = 5000;
  options.max_write_buffer_number = 2;
  return options;
}

WriteStallState At(const Options& options, int level0, uint64_t pending,
                   int immutable = 0) {
  return ComputeWriteStall(options, {level0, pending, immutable},
                           {.flushes = kFlushRate, .compactions = kDrainRate});
}

TEST(WriteStallTest, RateFallsStepByStepToTheStop) {
  const Options options = Limits();
  uint64_t last = kDrainRate + 1;
  for (int files = 0; files <= 40; ++files) {
    const WriteStallState state = At(options, files, 0);
    if (files < 20) {
      EXPECT_EQ(state.pressure, WritePressure::kNone) << files;
      EXPECT_EQ(state.cause, StallCause::kNone);
      EXPECT_EQ(state.rate, 0u);
    } else if (files < 36) {
      EXPECT_EQ(state.pressure, WritePressure::kSlow) << files;
      EXPECT_EQ(state.cause, StallCause::kLevel0);
      EXPECT_LT(state.rate, last) << files;
      EXPECT_GT(state.rate * 2, last) << "a jump at " << files;
      EXPECT_GE(state.rate, kLeastRate);
      last = state.rate;
    } else {
      EXPECT_EQ(state.pressure, WritePressure::kStop) << files;
      EXPECT_EQ(state.cause, StallCause::kLevel0);
    }
  }
  EXPECT_EQ(At(options, 20, 0).rate, kDrainRate);
  EXPECT_LT(last, 2 * kLeastRate);
}

TEST(WriteStallTest, PendingBytesSlowDownAndStop) {
  Options options = Limits();
  EXPECT_EQ(At(options, 0, 999).pressure, WritePressure::kNone);
  EXPECT_EQ(At(options, 0, 1000).pressure, WritePressure::kSlow);
  EXPECT_EQ(At(options, 0, 1000).cause, StallCause::kPendingBytes);
  EXPECT_GT(At(options, 0, 2000).rate, At(options, 0, 4000).rate);
  EXPECT_EQ(At(options, 0, 5000).pressure, WritePressure::kStop);
  options.hard_pending_compaction_bytes_limit = 0;
  EXPECT_EQ(At(options, 0, 1 << 30).pressure, WritePressure::kSlow);
  EXPECT_EQ(At(options, 0, 1 << 30).rate, kLeastRate);
  options.soft_pending_compaction_bytes_limit = 0;
  EXPECT_EQ(At(options, 0, 1 << 30).pressure, WritePressure::kNone);
}

TEST(WriteStallTest, DefaultLimitsAreAdjusted) {
  Options options;
  options.hard_pending_compaction_bytes_limit = 1000;
  EXPECT_EQ(At(options, 0, 999).pressure, WritePressure::kNone);
  EXPECT_EQ(At(options, 0, 1000).pressure, WritePressure::kStop);
  options = Options();
  const uint64_t much = uint64_t{1} << 50;
  options.soft_pending_compaction_bytes_limit = much;
  EXPECT_EQ(At(options, 0, much - 1).pressure, WritePressure::kNone);
  EXPECT_EQ(At(options, 0, much).pressure, WritePressure::kStop);
}

// Where writers are stopped at once, they are not slowed down before.
TEST(WriteStallTest, BoundsMayBeTheSame) {
  Options options = Limits();
  options.level0_slowdown_writes_trigger = 30;
  options.level0_stop_writes_trigger = 30;
  options.soft_pending_compaction_bytes_limit = 1000;
  options.hard_pending_compaction_bytes_limit = 1000;
  EXPECT_EQ(At(options, 29, 999).pressure, WritePressure::kNone);
  EXPECT_EQ(At(options, 30, 0).pressure, WritePressure::kStop);
  EXPECT_EQ(At(options, 0, 1000).pressure, WritePressure::kStop);
}

TEST(WriteStallTest, TheWorstReasonCounts) {
  const Options options = Limits();
  // Half-way for files, a quarter for bytes; and the other way round.
  EXPECT_EQ(At(options, 28, 2000).cause, StallCause::kLevel0);
  EXPECT_EQ(At(options, 28, 2000).rate, At(options, 28, 0).rate);
  EXPECT_EQ(At(options, 21, 4000).cause, StallCause::kPendingBytes);
  EXPECT_EQ(At(options, 21, 4000).rate, At(options, 0, 4000).rate);
}

TEST(WriteStallTest, WaitingMemTablesSlowDownWhereThereAreSeveral) {
  Options options = Limits();
  EXPECT_EQ(At(options, 0, 0, 1).pressure, WritePressure::kNone);
  options.max_write_buffer_number = 5;
  EXPECT_EQ(At(options, 0, 0, 3).pressure, WritePressure::kNone);
  EXPECT_EQ(At(options, 0, 0, 4).pressure, WritePressure::kSlow);
  EXPECT_EQ(At(options, 0, 0, 4).cause, StallCause::kMemTables);
  EXPECT_EQ(At(options, 0, 0, 4).rate, kFlushRate / 8);
}

TEST(WriteStallTest, NoRateIsMadeUp) {
  const WriteStallState state = ComputeWriteStall(Limits(), {30, 0, 0}, {});
  EXPECT_EQ(state.pressure, WritePressure::kSlow);
  EXPECT_EQ(state.rate, kUnknownRate);
}

TEST(WriteStallTest, WithoutCompactionsTheirDebtDoesNotCount) {
  Options options = Limits();
  options.disable_auto_compactions = true;
  EXPECT_EQ(At(options, 100, 100000).pressure, WritePressure::kNone);
}

TEST(WriteStallTest, EachReasonHasItsNameAndCounters) {
  EXPECT_NE(StallTicker(StallCause::kLevel0, WritePressure::kSlow),
            StallTicker(StallCause::kLevel0, WritePressure::kStop));
  EXPECT_NE(StallTicker(StallCause::kPendingBytes, WritePressure::kSlow),
            StallTicker(StallCause::kMemTables, WritePressure::kSlow));
  EXPECT_STRNE(StallCauseName(StallCause::kLevel0),
               StallCauseName(StallCause::kMemTables));
}

TEST(WriteDelayTest, TogetherTheWritersKeepTheRate) {
  WriteDelay delay;
  uint64_t now_us = 1000000;
  uint64_t bytes = 0;
  const uint64_t start_us = now_us;
  while (now_us < start_us + 10000000) {
    bytes += 1000;
    now_us += delay.Charge(1000, 1 << 20, now_us);
  }
  const double rate =
      static_cast<double>(bytes) * 1e6 / static_cast<double>(now_us - start_us);
  EXPECT_NEAR(rate, 1 << 20, 0.02 * (1 << 20));
}

TEST(WriteDelayTest, SmallDebtsAreCollected) {
  WriteDelay delay;
  // 100 microseconds each: every tenth has to sleep.
  for (int i = 1; i < 10; ++i) EXPECT_EQ(delay.Charge(100, 1000000, 5), 0u);
  EXPECT_EQ(delay.Charge(100, 1000000, 5), 1000u);
}

TEST(WriteDelayTest, NoWriteWaitsLongerThanASecond) {
  WriteDelay delay;
  EXPECT_EQ(delay.Charge(UINT64_MAX, 1, 7), WriteDelay::kMaxSleepUs);
  // Nor do later writers pay for it.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(delay.Charge(1 << 30, 1000, 7), WriteDelay::kMaxSleepUs);
  }
  EXPECT_LE(delay.Charge(1, 1000, 7 + WriteDelay::kMaxSleepUs), 1000u);
}

TEST(WriteDelayTest, AWriterThatDoesNotSleepIsNotCharged) {
  WriteDelay delay;
  EXPECT_EQ(delay.Charge(10000, 1000000, 5), 10000u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(delay.Charge(1000, 1000000, 5, /*may_sleep=*/false), 11000u);
  }
  // Others do not wait for what was not written, and it may write in the end.
  EXPECT_EQ(delay.Charge(1000, 1000000, 5), 11000u);
  EXPECT_EQ(delay.Charge(100, 1000000, 11005, /*may_sleep=*/false), 0u);
  EXPECT_EQ(delay.Charge(900, 1000000, 11005), 1000u);
}

TEST(WriteDelayTest, AClockThatIsSetBackMakesNoDebt) {
  WriteDelay delay;
  EXPECT_EQ(delay.Charge(100, 1, uint64_t{1} << 60), WriteDelay::kMaxSleepUs);
  EXPECT_EQ(delay.Charge(10, 1000000, 5), 0u);
}

TEST(WriteDelayTest, IdleTimeIsNotSavedUp) {
  WriteDelay delay;
  EXPECT_EQ(delay.Charge(10000, 1000000, 0), 10000u);
  EXPECT_EQ(delay.Charge(10000, 1000000, 1000000000), 10000u);
}

}  // namespace
}  // namespace varve
