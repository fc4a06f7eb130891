// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: jobs are counted from the moment they are queued until they end.
// Dropped jobs do nothing, even after the scheduler was destroyed. Method: an
// Env whose queue the test runs by hand.

#include "db/jobs/background_scheduler.h"

#include "test/testing/db/test_db_mutex.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class QueueEnv final : public EnvWrapper {
 public:
  QueueEnv() : EnvWrapper(Env::Default()) {}

  Status Schedule(std::function<void()> work, Priority priority) override {
    if (fails) return Status::IOError("no thread");
    priorities.push_back(priority);
    queue.push_back(std::move(work));
    return Status::OK();
  }
  void RunOne() {
    const std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    work();
  }

  bool fails = false;
  std::deque<std::function<void()>> queue;
  std::vector<Priority> priorities;
};

class BackgroundSchedulerTest : public ::testing::Test {
 protected:
  Status Schedule(JobKind kind) {
    MutexLock lock(mutex_.lockable());
    return scheduler_->ScheduleLocked(kind, [this, kind] {
      MutexLock job_lock(mutex_.lockable());
      EXPECT_TRUE(scheduler_->AnyRunsLocked());
      EXPECT_EQ(scheduler_->QueuedLocked(kind), 0);
      EXPECT_EQ(scheduler_->JobsLocked(kind), 1);
      ++jobs_done_;
      scheduler_->FinishLocked(kind);
    });
  }
  int Jobs() {
    MutexLock lock(mutex_.lockable());
    return scheduler_->JobsLocked();
  }

  QueueEnv env_;
  LoneDbMutex mutex_;
  std::unique_ptr<BackgroundScheduler> scheduler_ =
      std::make_unique<BackgroundScheduler>(&env_, mutex_.lockable());
  int jobs_done_ = 0;
};

TEST_F(BackgroundSchedulerTest, CountsQueuedAndRunningJobs) {
  IsOnlyThread();
  ASSERT_TRUE(Ok(Schedule(JobKind::kFlush)));
  ASSERT_TRUE(Ok(Schedule(JobKind::kCompaction)));
  EXPECT_EQ(Jobs(), 2);
  EXPECT_EQ(scheduler_->QueuedLocked(JobKind::kFlush), 1);
  EXPECT_EQ(scheduler_->QueuedLocked(JobKind::kPurge), 0);
  EXPECT_FALSE(scheduler_->AnyRunsLocked());
  EXPECT_EQ(env_.priorities, (std::vector<Env::Priority>{Env::Priority::kHigh,
                                                         Env::Priority::kLow}));
  env_.RunOne();
  EXPECT_EQ(Jobs(), 1);
  EXPECT_EQ(jobs_done_, 1);
  env_.RunOne();
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(jobs_done_, 2);
}

TEST_F(BackgroundSchedulerTest, RejectedJobsAreNotCounted) {
  env_.fails = true;
  EXPECT_TRUE(Schedule(JobKind::kFlush).IsIOError());
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(BackgroundSchedulerTest, DroppedJobsDoNothing) {
  ASSERT_TRUE(Ok(Schedule(JobKind::kFlush)));
  ASSERT_TRUE(Ok(Schedule(JobKind::kPurge)));
  env_.RunOne();
  {
    MutexLock lock(mutex_.lockable());
    scheduler_->DropQueuedLocked();
    EXPECT_EQ(scheduler_->JobsLocked(), 0);
  }
  scheduler_.reset();
  env_.RunOne();
  EXPECT_EQ(jobs_done_, 1);
}

TEST_F(BackgroundSchedulerTest, OneThatRunsIsNotDropped) {
  {
    MutexLock lock(mutex_.lockable());
    ASSERT_TRUE(Ok(scheduler_->ScheduleLocked(JobKind::kCompaction, [this] {
      MutexLock job_lock(mutex_.lockable());
      scheduler_->DropQueuedLocked();
      EXPECT_EQ(scheduler_->JobsLocked(JobKind::kCompaction), 1);
      scheduler_->FinishLocked(JobKind::kCompaction);
    })));
  }
  env_.RunOne();
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(BackgroundSchedulerTest, AWaitEndsWithAJob) {
  ASSERT_TRUE(Ok(Schedule(JobKind::kFlush)));
  std::thread worker;
  {
    MutexLock lock(mutex_.lockable());
    worker = std::thread([this] { env_.RunOne(); });
    while (scheduler_->JobsLocked() > 0) scheduler_->WaitLocked();
    EXPECT_EQ(jobs_done_, 1);
    EXPECT_FALSE(scheduler_->WaitForLocked(1));
  }
  worker.join();
}

TEST_F(BackgroundSchedulerTest, StopsAndGoesOn) {
  MutexLock lock(mutex_.lockable());
  EXPECT_FALSE(scheduler_->is_stopping());
  scheduler_->StopLocked();
  EXPECT_TRUE(scheduler_->is_stopping());
  EXPECT_TRUE(scheduler_->stop_flag()->load());
  scheduler_->GoOnLocked();
  EXPECT_FALSE(scheduler_->is_stopping());
}

}  // namespace
}  // namespace varve::test
