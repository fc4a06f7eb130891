// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the thread tries as long as something is to be resumed, ends then or
// when the database is closed, and can be started again. Method: the thread
// itself, with functions that count in place of a database in memory.

#include "db/jobs/auto_resume.h"

#include "test/testing/db/core_parts.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class AutoResumeTest : public ::testing::Test {
 protected:
  void AwaitEnd() {
    MutexLock lock(core_.mutex());
    while (resume_.is_running()) core_.scheduler.WaitLocked();
  }
  void Start() {
    MutexLock lock(core_.mutex());
    resume_.StartLocked();
    EXPECT_TRUE(resume_.is_running());
  }

  // The attempt that succeeds is the one after which nothing is needed.
  void Try() {
    MutexLock lock(core_.mutex());
    ++attempts_;
    UpdateLocked();
  }
  void Need(int attempts) {
    MutexLock lock(core_.mutex());
    needed_ = attempts;
    UpdateLocked();
  }
  void UpdateLocked() VARVE_REQUIRES(kDbMutex) {
    core_.picker.gate().error =
        attempts_ < needed_ ? Status::FromErrno("test", ENOSPC) : Status::OK();
  }

  // Guarded by the mutex.
  int attempts_ = 0;
  int needed_ = 0;  // Attempts until nothing is to be resumed.
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  CoreParts parts_{TinyOptions(), env_.get(), {.retry = [this] { Try(); }}};
  DbCore& core_ = parts_.core;
  AutoResume& resume_ = core_.auto_resume;
};

TEST_F(AutoResumeTest, TriesUntilNothingIsToBeResumed) {
  Need(2);
  Start();
  AwaitEnd();
  EXPECT_EQ(attempts_, 2);
  Need(3);
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
  Need(1);
  {
    MutexLock lock(core_.mutex());
    resume_.StartLocked();
    resume_.StartLocked();
  }
  AwaitEnd();
  EXPECT_EQ(attempts_, 1);
}

TEST_F(AutoResumeTest, EndsWhenTheJobsAreStopped) {
  Need(1000);
  Start();
  {
    MutexLock lock(core_.mutex());
    core_.scheduler.StopLocked();
  }
  AwaitEnd();
  EXPECT_LT(attempts_, 1000);
}

}  // namespace
}  // namespace varve::test
