// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the thread acts once when nothing was written for the time, and ends
// without that when it is not wanted or the scheduler stops. Method: the thread
// itself, with numbers in place of a database.

#include "db/jobs/quiet_watch.h"
#include "test/testing/db/test_db_mutex.h"

#include <gtest/gtest.h>

namespace varve::test {
namespace {

class QuietWatchTest : public ::testing::Test {
 protected:
  QuietWatch::Owner Owner() {
    return {[this] { return wanted_; },
            [this] {
              // Writes go on for a while.
              if (writing_ > 0) --writing_;
              return static_cast<uint64_t>(writing_);
            },
            [this] {
              MutexLock lock(mutex_.lockable());
              ++acts_;
            }};
  }
  void RunToEnd() {
    MutexLock lock(mutex_.lockable());
    watch_.StartLocked();
    watch_.StartLocked();
    EXPECT_TRUE(watch_.is_running());
    while (watch_.is_running()) scheduler_.WaitLocked();
  }

  LoneDbMutex mutex_;
  BackgroundScheduler scheduler_{Env::Default(), mutex_.lockable()};
  bool wanted_ = true;  // Guarded by mutex_, like the next members.
  int writing_ = 0;
  int acts_ = 0;
  QuietWatch watch_{Env::Default(), mutex_.lockable(), &scheduler_, 2000,
                    Owner()};
};

TEST_F(QuietWatchTest, ActsOnceForEachStart) {
  RunToEnd();
  EXPECT_EQ(acts_, 1);
  RunToEnd();
  EXPECT_EQ(acts_, 2);
}

TEST_F(QuietWatchTest, WaitsForTheEndOfWrites) {
  writing_ = 5;
  RunToEnd();
  EXPECT_EQ(writing_, 0);
  EXPECT_EQ(acts_, 1);
}

TEST_F(QuietWatchTest, EndsWhenItIsNotWanted) {
  wanted_ = false;
  RunToEnd();
  EXPECT_EQ(acts_, 0);
}

TEST_F(QuietWatchTest, EndsWhenTheSchedulerStops) {
  {
    MutexLock lock(mutex_.lockable());
    scheduler_.StopLocked();
  }
  RunToEnd();
  EXPECT_EQ(acts_, 0);
}

}  // namespace
}  // namespace varve::test
