// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the thread tries as long as something is to be resumed, ends then or
// when the database is closed, and can be started again. Method: the thread
// itself, with functions that count in place of a database.

#include "db/jobs/auto_resume.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "test/testing/db_helpers.h"

namespace varve::test {
namespace {

class AutoResumeTest : public ::testing::Test {
 protected:
  void AwaitEnd() {
    MutexLock lock(&mutex_);
    while (resume_.is_running()) scheduler_.WaitLocked();
  }
  void Start() {
    MutexLock lock(&mutex_);
    resume_.StartLocked();
    EXPECT_TRUE(resume_.is_running());
  }

  const Options options_ = TinyOptions();
  Mutex mutex_;
  DbDirectory place_{Env::Default(), "/none"};
  WalSet wals_{&place_, &options_, nullptr, &mutex_};
  const InternalKeyComparator comparator_{options_.comparator};
  BackgroundScheduler scheduler_{Env::Default(), &mutex_};
  EventQueue events_{{}, &mutex_};
  ObsoleteFiles obsolete_{ObsoleteFiles::Parts{&place_, nullptr, &wals_,
                                               nullptr, &events_, &scheduler_,
                                               nullptr, &mutex_}};
  int attempts_ = 0;  // Guarded by mutex_, as is what follows.
  int needed_ = 0;    // Attempts until nothing is to be resumed.
  AutoResume resume_{Env::Default(),
                     &mutex_,
                     &scheduler_,
                     &obsolete_,
                     [this] { return attempts_ < needed_; },
                     [this] {
                       MutexLock lock(&mutex_);
                       ++attempts_;
                     }};
};

TEST_F(AutoResumeTest, TriesUntilNothingIsToBeResumed) {
  needed_ = 2;
  Start();
  AwaitEnd();
  EXPECT_EQ(attempts_, 2);
  needed_ = 3;
  Start();
  AwaitEnd();
  EXPECT_EQ(attempts_, 3);
}

TEST_F(AutoResumeTest, DoesNothingWhereNothingIsNeeded) {
  Start();
  AwaitEnd();
  EXPECT_EQ(attempts_, 0);
}

TEST_F(AutoResumeTest, StartsOneThreadOnly) {
  needed_ = 1;
  {
    MutexLock lock(&mutex_);
    resume_.StartLocked();
    resume_.StartLocked();
  }
  AwaitEnd();
  EXPECT_EQ(attempts_, 1);
}

TEST_F(AutoResumeTest, EndsWhenTheJobsAreStopped) {
  needed_ = 1000;
  Start();
  {
    MutexLock lock(&mutex_);
    scheduler_.StopLocked();
  }
  AwaitEnd();
  EXPECT_LT(attempts_, 1000);
}

}  // namespace
}  // namespace varve::test
