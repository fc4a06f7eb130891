// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the thread acts when a table is due by the wall clock, not before and
// not in a busy loop, and ends when it is not wanted or the scheduler stops.
// Method: the thread itself, with numbers in place of a database, and an Env
// whose wall clock the test sets.

#include "db/jobs/age_watch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "env/stopwatch.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/env/date_env.h"

namespace varve::test {
namespace {

constexpr uint64_t kStepUs = 2000;

class AgeWatchTest : public ::testing::Test {
 protected:
  AgeWatch::Owner Owner() {
    return {[this] { return wanted_ ? shortest_age_s_ : uint64_t{0}; },
            [this] {
              ++looks_;
              return due_s_;
            },
            [this] {
              ++acts_;
              if (acts_ == last_act_) wanted_ = false;
              if (stays_due_) return;
              due_s_ = UINT64_MAX;
            }};
  }
  void TearDown() override {
    MutexLock lock(mutex_.lockable());
    StopLocked();
    AwaitEndLocked();
  }
  void StopLocked() VARVE_REQUIRES(kDbMutex) {
    scheduler_.StopLocked();
    watch_.SignalLocked();
  }
  void AwaitEndLocked() VARVE_REQUIRES(kDbMutex) {
    while (watch_.is_running()) scheduler_.WaitLocked();
  }
  void StartLocked() VARVE_REQUIRES(kDbMutex) {
    watch_.StartLocked();
    watch_.StartLocked();
    EXPECT_TRUE(watch_.is_running());
  }
  // Lets the thread look at the clock that many times.
  void AwaitLooksLocked(int count) VARVE_REQUIRES(kDbMutex) {
    const int end = looks_ + count;
    while (looks_ < end) scheduler_.WaitForLocked(kStepUs);
  }

  DateEnv env_{1000};
  LoneDbMutex mutex_;
  BackgroundScheduler scheduler_{&env_, mutex_.lockable()};
  bool wanted_ = true;  // Guarded by mutex_, like the next members.
  uint64_t shortest_age_s_ = 100;
  uint64_t due_s_ = UINT64_MAX;
  bool stays_due_ = false;
  int looks_ = 0;
  int acts_ = 0;
  int last_act_ = 0;
  AgeWatch watch_{&env_, mutex_.lockable(), &scheduler_, kStepUs, Owner()};
};

TEST_F(AgeWatchTest, ActsWhenTheClockSaysSo) {
  MutexLock lock(mutex_.lockable());
  due_s_ = 2000;
  StartLocked();
  AwaitLooksLocked(3);
  EXPECT_EQ(acts_, 0);
  env_.now_s = 1999;
  AwaitLooksLocked(3);
  EXPECT_EQ(acts_, 0);
  env_.now_s = 500;  // It was set back.
  AwaitLooksLocked(3);
  EXPECT_EQ(acts_, 0);
  env_.now_s = 2000;
  AwaitLooksLocked(3);
  EXPECT_EQ(acts_, 1);
}

TEST_F(AgeWatchTest, DoesNotActAtOnceWhenItHasActed) {
  MutexLock lock(mutex_.lockable());
  due_s_ = 1000;
  stays_due_ = true;
  last_act_ = 2;
  const Stopwatch acting(&env_);
  StartLocked();
  while (watch_.is_running()) {
    watch_.SignalLocked();
    scheduler_.WaitForLocked(100);
  }
  EXPECT_EQ(acts_, 2);
  EXPECT_GE(acting.ElapsedMicros(), 1000u * 1000);
}

TEST_F(AgeWatchTest, DoesNotStartWhereItIsNotWanted) {
  MutexLock lock(mutex_.lockable());
  wanted_ = false;
  watch_.StartLocked();
  EXPECT_FALSE(watch_.is_running());
}

TEST_F(AgeWatchTest, EndsWhenItIsNotWantedAnyMore) {
  MutexLock lock(mutex_.lockable());
  StartLocked();
  wanted_ = false;
  watch_.StartLocked();
  AwaitEndLocked();
  wanted_ = true;
  StartLocked();
}

TEST_F(AgeWatchTest, EndsWhenTheSchedulerStops) {
  MutexLock lock(mutex_.lockable());
  StartLocked();
  StopLocked();
  AwaitEndLocked();
  EXPECT_EQ(acts_, 0);
}

}  // namespace
}  // namespace varve::test
