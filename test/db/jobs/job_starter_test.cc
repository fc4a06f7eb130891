// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a job begins when it is due, and never in a database that must not
// change. Method: the parts of a database in memory; jobs that only count.

#include "db/jobs/job_starter.h"

#include "test/testing/db/engine_parts.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class JobStarterTest : public ::testing::Test {
 protected:
  JobStarterTest() { options_.level0_file_num_compaction_trigger = 1; }

  // Makes a flush due, and starts the jobs that are due.
  void MakeFlushDue() {
    parts_.Put(&parts_.core.default_family, "key");
    parts_.Switch({&parts_.core.default_family});
    AwaitJobs();
  }
  void AwaitJobs() {
    MutexLock lock(parts_.core.mutex());
    parts_.AwaitJobsLocked();
  }

  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  EngineParts parts_{TinyOptions(), env_.get()};
  Options& options_ = parts_.core.options;
};

TEST_F(JobStarterTest, StartsAFlushAndACompaction) {
  parts_.core.jobs.TryStartDue();
  AwaitJobs();
  EXPECT_EQ(parts_.flushes, 0);
  EXPECT_EQ(parts_.compactions, 0);
  MakeFlushDue();
  EXPECT_EQ(parts_.flushes, 1);
  EXPECT_EQ(parts_.compactions, 0);
  parts_.Flush({&parts_.core.default_family});
  parts_.core.jobs.TryStartDue();
  AwaitJobs();
  EXPECT_EQ(parts_.flushes, 1);
  EXPECT_EQ(parts_.compactions, 1);
}

TEST_F(JobStarterTest, StartsNoCompactionWhileTheyPause) {
  MakeFlushDue();
  parts_.Flush({&parts_.core.default_family});
  parts_.core.picker.gate().error = Status::FromErrno("test", ENOSPC);
  parts_.core.jobs.TryStartDue();
  AwaitJobs();
  EXPECT_EQ(parts_.compactions, 0);
}

TEST_F(JobStarterTest, StartsNothingAfterAnError) {
  {
    MutexLock lock(parts_.core.mutex());
    parts_.core.control.SetErrorLocked(Status::Corruption("test"), "a test");
  }
  MakeFlushDue();
  EXPECT_EQ(parts_.flushes, 0);
}

TEST_F(JobStarterTest, StartsNothingInAnInheritedDatabase) {
  parts_.core.control.inheritance().Inherit(true, true);
  MakeFlushDue();
  EXPECT_EQ(parts_.flushes, 0);
}

TEST_F(JobStarterTest, StartsNothingOnceTheSchedulerStops) {
  {
    MutexLock lock(parts_.core.mutex());
    parts_.core.scheduler.StopLocked();
  }
  MakeFlushDue();
  EXPECT_EQ(parts_.flushes, 0);
}

TEST_F(JobStarterTest, DoesNotWaitForTheMutex) {
  MakeFlushDue();
  const int before = parts_.flushes;
  {
    MutexLock lock(parts_.core.mutex());
    std::thread reader([this] { parts_.core.jobs.TryStartDue(); });
    reader.join();
  }
  AwaitJobs();
  EXPECT_EQ(parts_.flushes, before);
}

TEST_F(JobStarterTest, RemovesFilesOnAnotherThread) {
  MakeFlushDue();
  parts_.Flush({&parts_.core.default_family});
  MutexLock lock(parts_.core.mutex());
  ASSERT_TRUE(parts_.core.obsolete.AnyLocked());
  parts_.core.jobs.PurgeLaterLocked();
  parts_.core.jobs.PurgeLaterLocked();
  EXPECT_EQ(parts_.core.scheduler.JobsLocked(JobKind::kPurge), 1);
  parts_.AwaitJobsLocked();
  EXPECT_FALSE(parts_.core.obsolete.AnyLocked());
}

TEST_F(JobStarterTest, RemovesNothingOfAnInheritedDatabase) {
  MakeFlushDue();
  parts_.Flush({&parts_.core.default_family});
  parts_.core.control.inheritance().Inherit(true, true);
  MutexLock lock(parts_.core.mutex());
  parts_.core.jobs.PurgeLaterLocked();
  parts_.core.jobs.PurgeLocked();
  EXPECT_EQ(parts_.core.scheduler.JobsLocked(), 0);
  EXPECT_TRUE(parts_.core.obsolete.AnyLocked());
}

}  // namespace
}  // namespace varve::test
