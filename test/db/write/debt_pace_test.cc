// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: writers that are faster than compactions settle at the rate of the
// compactions, whatever that is and however it changes, without long pauses and
// without a second far below the others; slower writers are left alone. Method:
// writers and compactions on a clock of the test's own.

#include "db/write/debt_pace.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr double kTarget = 200e6;
constexpr uint64_t kSecond = 1000000;

// A writer and a compaction. Rates are bytes per second.
class Simulation {
 public:
  explicit Simulation(DebtPace* pace) : pace_(pace) {}

  // Runs for `seconds`, in which `drain` and `write` return the rates.
  void Run(int seconds, const std::function<double(double)>& drain,
           const std::function<double(double)>& write,
           uint64_t batch_bytes = 2000) {
    const uint64_t end_us = now_us_ + static_cast<uint64_t>(seconds) * kSecond;
    uint64_t second_end_us = now_us_ + kSecond;
    uint64_t second_bytes = 0;
    while (now_us_ < end_us) {
      if (second_end_us <= now_us_) {
        per_second_.push_back(static_cast<double>(second_bytes));
        second_bytes = 0;
        second_end_us += kSecond;
      }
      const double seconds_now = static_cast<double>(now_us_) / 1e6;
      if (pace_->SampleIsDue(now_us_)) Sample(drain(seconds_now));
      if (write(seconds_now) <= 0) {
        now_us_ += 1000;
        continue;
      }
      if (since_bytes_ >= step_bytes_) {
        uint64_t waited_us = 0;
        while (waited_us < DebtPace::kMaxWaitUs) {
          const DebtPace::Step step = pace_->Charge(since_bytes_, now_us_);
          since_bytes_ = 0;
          step_bytes_ = step.bytes;
          if (step.pause_us == 0) break;
          EXPECT_GE(step.pause_us, DebtPace::kMinPauseUs);
          EXPECT_LE(step.pause_us, DebtPace::kMaxPauseUs);
          waited_us += step.pause_us;
          now_us_ += step.pause_us;
          if (pace_->SampleIsDue(now_us_)) Sample(drain(seconds_now));
        }
        longest_us_ = std::max(longest_us_, waited_us);
        paused_us_ += waited_us;
      }
      carry_us_ += static_cast<double>(batch_bytes) * 1e6 / write(seconds_now);
      const auto step_us = static_cast<uint64_t>(carry_us_);
      carry_us_ -= static_cast<double>(step_us);
      now_us_ += step_us;
      since_bytes_ += batch_bytes;
      second_bytes += batch_bytes;
      debt_bytes_ += static_cast<double>(batch_bytes);
    }
  }

  void SetClock(uint64_t now_us) { now_us_ = sampled_us_ = now_us; }
  double debt_bytes() const { return debt_bytes_; }
  uint64_t longest_us() const { return longest_us_; }
  uint64_t paused_us() const { return paused_us_; }
  // Returns the bytes written in each second of the last `count`.
  std::vector<double> Last(size_t count) const {
    return {per_second_.end() - static_cast<std::ptrdiff_t>(count),
            per_second_.end()};
  }

 private:
  void Sample(double rate) {
    const uint64_t elapsed_us =
        now_us_ > sampled_us_ ? now_us_ - sampled_us_ : 0;
    sampled_us_ = now_us_;
    if (debt_bytes_ > 0) draining_us_ += elapsed_us;
    const double drained =
        std::min(debt_bytes_, rate * static_cast<double>(elapsed_us) / 1e6);
    debt_bytes_ -= drained;
    drained_bytes_ += drained;
    pace_->AddSample({.now_us = now_us_,
                      .drained_bytes = drained_bytes_,
                      .draining_us = draining_us_,
                      .debt_bytes = debt_bytes_,
                      .target_bytes = kTarget,
                      .assumed_rate = 100e6});
  }

  DebtPace* const pace_;
  uint64_t now_us_ = 1000000;
  uint64_t sampled_us_ = 1000000;
  double debt_bytes_ = 0;
  double drained_bytes_ = 0;
  uint64_t draining_us_ = 0;
  uint64_t since_bytes_ = 0;
  uint64_t step_bytes_ = 0;
  double carry_us_ = 0;
  uint64_t longest_us_ = 0;
  uint64_t paused_us_ = 0;
  std::vector<double> per_second_;
};

std::function<double(double)> Always(double rate) {
  return [rate](double) { return rate; };
}

void ExpectAllNear(const std::vector<double>& rates, double rate, double part) {
  for (const double each : rates) EXPECT_NEAR(each, rate, part * rate);
}

TEST(DebtPaceTest, SlowWritersAreLeftAlone) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.Run(300, Always(20e6), Always(15e6));
  EXPECT_EQ(simulation.paused_us(), 0u);
  EXPECT_LT(simulation.debt_bytes(), kTarget / 16);
}

TEST(DebtPaceTest, FastWritersSettleAtTheDrainRate) {
  for (const double drain : {0.5e6, 5e6, 20e6, 60e6}) {
    SCOPED_TRACE(drain);
    DebtPace pace;
    Simulation simulation(&pace);
    simulation.Run(1500, Always(drain), Always(80e6));
    ExpectAllNear(simulation.Last(100), drain, 0.1);
    EXPECT_NEAR(simulation.debt_bytes(), kTarget, kTarget / 10);
    EXPECT_NEAR(pace.drain_rate(), drain, drain / 20);
    if (drain >= 5e6) {
      EXPECT_LE(simulation.longest_us(), 2 * DebtPace::kMaxPauseUs);
    }
  }
}

TEST(DebtPaceTest, DebtNeverExceedsTwiceTheTarget) {
  DebtPace pace;
  Simulation simulation(&pace);
  for (int i = 0; i < 60; ++i) {
    simulation.Run(1, Always(10e6), Always(80e6));
    EXPECT_LT(simulation.debt_bytes(), 2 * kTarget) << i;
  }
}

TEST(DebtPaceTest, FollowsADrainThatChanges) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.Run(200, Always(20e6), Always(80e6));
  simulation.Run(200, Always(5e6), Always(80e6));
  ExpectAllNear(simulation.Last(50), 5e6, 0.15);
  // The rate falls by steps, not at once.
  double last = 20e6;
  for (const double rate : simulation.Last(199)) {
    EXPECT_GT(rate, 0.7 * last);
    last = rate;
  }
  EXPECT_LT(simulation.debt_bytes(), 2 * kTarget);
  simulation.Run(200, Always(40e6), Always(80e6));
  ExpectAllNear(simulation.Last(50), 40e6, 0.15);
}

// Compactions of different levels remove debt at different speeds, and a busy
// machine runs them by fits and starts.
TEST(DebtPaceTest, SmoothsADrainThatComesInBursts) {
  DebtPace pace;
  Simulation simulation(&pace);
  const auto bursts = [](double seconds) {
    return static_cast<int64_t>(seconds / 4) % 2 == 0 ? 30e6 : 10e6;
  };
  simulation.Run(400, bursts, Always(80e6));
  ExpectAllNear(simulation.Last(200), 20e6, 0.35);
}

TEST(DebtPaceTest, IdleTimeDoesNotSpoilTheDrainRate) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.Run(200, Always(20e6), Always(80e6));
  simulation.Run(3600, Always(20e6), Always(0));
  EXPECT_NEAR(simulation.debt_bytes(), 0, 1);
  EXPECT_NEAR(pace.drain_rate(), 20e6, 2e6);
  EXPECT_FALSE(pace.IsBinding());
  // A burst that fits into the target is not delayed.
  const uint64_t before_us = simulation.paused_us();
  simulation.Run(1, Always(20e6), Always(40e6));
  EXPECT_EQ(simulation.paused_us(), before_us);
}

TEST(DebtPaceTest, StepsOfLoadAreFollowed) {
  DebtPace pace;
  Simulation simulation(&pace);
  for (int i = 0; i < 5; ++i) {
    simulation.Run(100, Always(20e6), Always(80e6));
    ExpectAllNear(simulation.Last(20), 20e6, 0.2);
    simulation.Run(100, Always(20e6), Always(5e6));
    ExpectAllNear(simulation.Last(20), 5e6, 0.01);
  }
}

TEST(DebtPaceTest, LargeBatchesWaitForABoundedTime) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.Run(300, Always(20e6), Always(80e6), 64 << 20);
  EXPECT_LE(simulation.longest_us(), DebtPace::kMaxWaitUs);
  // Small writes after it do not pay for it.
  const DebtPace::Step step = pace.Charge(1000, 3600 * kSecond);
  EXPECT_LE(step.pause_us, DebtPace::kMaxPauseUs);
}

TEST(DebtPaceTest, StuckCompactionsDoNotBlockWriters) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.Run(100, Always(20e6), Always(80e6));
  simulation.Run(600, Always(0), Always(80e6));
  for (const double rate : simulation.Last(500)) EXPECT_GT(rate, 0);
  EXPECT_LE(simulation.longest_us(), DebtPace::kMaxWaitUs);
  simulation.Run(600, Always(20e6), Always(80e6));
  ExpectAllNear(simulation.Last(50), 20e6, 0.15);
}

TEST(DebtPaceTest, AClockThatIsSetBackMakesNoDebt) {
  DebtPace pace;
  Simulation simulation(&pace);
  simulation.SetClock(uint64_t{1} << 50);
  simulation.Run(100, Always(20e6), Always(80e6));
  simulation.SetClock(5);
  simulation.Run(100, Always(20e6), Always(80e6));
  EXPECT_LE(simulation.longest_us(), DebtPace::kMaxWaitUs);
  ExpectAllNear(simulation.Last(50), 20e6, 0.2);
}

// At low priority compactions may get a tenth of a processor.
TEST(DebtPaceTest, WritersOfATenthOfTheDrainRateNeedCompactionsOfPriority) {
  for (const double part : {0.02, 0.05, 0.2, 0.5}) {
    DebtPace pace;
    pace.AddSample({.now_us = kSecond, .target_bytes = kTarget});
    pace.AddSample({.now_us = 2 * kSecond,
                    .drained_bytes = 20e6,
                    .draining_us = kSecond,
                    .target_bytes = kTarget});
    ASSERT_EQ(pace.drain_rate(), 20e6);
    uint64_t now_us = 2 * kSecond;
    EXPECT_FALSE(pace.NeedsPriority(now_us));
    for (int i = 0; i < 3000; ++i) {
      now_us += 10000;
      pace.Charge(static_cast<uint64_t>(part * 20e6 / 100), now_us);
    }
    EXPECT_NEAR(pace.WriteRate(now_us), part * 20e6, part * 20e6 / 100);
    EXPECT_EQ(pace.NeedsPriority(now_us), part > 0.1) << part;
    EXPECT_FALSE(pace.NeedsPriority(now_us + 60 * kSecond)) << "no writes";
    // The clock was set back.
    EXPECT_EQ(pace.NeedsPriority(1), part > 0.1) << part;
  }
  // Before any drain was measured, all writers do.
  DebtPace pace;
  EXPECT_FALSE(pace.NeedsPriority(1));
  pace.Charge(1000, 1);
  EXPECT_TRUE(pace.NeedsPriority(1));
  EXPECT_FALSE(pace.NeedsPriority(60 * kSecond));
}

TEST(DebtPaceTest, TheAssumedRateServesUntilOneIsMeasured) {
  DebtPace pace;
  pace.AddSample({.now_us = 1,
                  .debt_bytes = 2 * kTarget,
                  .target_bytes = kTarget,
                  .assumed_rate = 8e6});
  EXPECT_TRUE(pace.IsBinding());
  EXPECT_EQ(pace.drain_rate(), 0);
  EXPECT_NEAR(pace.allowed_rate(), 1e6, 1);
  // Without either there is no pacing.
  DebtPace unknown;
  unknown.AddSample(
      {.now_us = 2, .debt_bytes = 2 * kTarget, .target_bytes = kTarget});
  EXPECT_EQ(unknown.Charge(1 << 30, 2).pause_us, 0u);
  // No target: no pacing.
  pace.AddSample({.now_us = 2, .debt_bytes = kTarget});
  EXPECT_FALSE(pace.IsBinding());
  EXPECT_EQ(pace.Charge(1 << 30, 3).pause_us, 0u);
}

}  // namespace
}  // namespace varve
