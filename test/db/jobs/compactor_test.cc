// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: compactions empty the levels above, pause without space, and stop
// writes after other errors. Method: the parts of a database in memory, in
// which writes of files fail on demand.

#include "db/jobs/compactor.h"

#include "test/testing/db/engine_parts.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class CompactorTest : public ::testing::Test {
 protected:
  CompactorTest() { options_.level0_file_num_compaction_trigger = 2; }

  // Adds two tables with the same key, so that neither can be moved.
  void AddTables() {
    for (int i = 0; i < 2; ++i) {
      parts_.Put(family_, "key");
      parts_.Switch({family_});
      parts_.Flush({family_});
    }
  }
  Status Compact(const CompactRangeOptions& options = {}) {
    MutexLock lock(parts_.core.mutex());
    return parts_.compactor.RunManualLocked(family_, options, UserKeyRange{});
  }
  void RunJob() {
    parts_.RunJob(JobKind::kCompaction, [this] { parts_.compactor.RunJob(); });
  }
  int Level0Files() {
    MutexLock lock(parts_.core.mutex());
    return family_->version()->NumFiles(0);
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env_{memory_.get()};
  EngineParts parts_{TinyOptions(), &env_};
  Options& options_ = parts_.core.options;
  ColumnFamily* const family_ = &parts_.core.default_family;
};

TEST_F(CompactorTest, EmptiesLevel0) {
  AddTables();
  EXPECT_EQ(Level0Files(), 2);
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_EQ(Level0Files(), 0);
}

TEST_F(CompactorTest, RunsTheCompactionThatIsDue) {
  AddTables();
  RunJob();
  EXPECT_EQ(Level0Files(), 0);
}

TEST_F(CompactorTest, RunsNoJobBesideAnExclusiveCompaction) {
  AddTables();
  family_->compactions().is_exclusive = true;
  RunJob();
  EXPECT_EQ(Level0Files(), 2);
  family_->compactions().is_exclusive = false;
}

TEST_F(CompactorTest, ExcludesNothingAfterAnExclusiveCompaction) {
  AddTables();
  ASSERT_TRUE(Ok(Compact({.exclusive_manual_compaction = true})));
  EXPECT_FALSE(family_->compactions().is_exclusive);
  EXPECT_EQ(parts_.core.picker.gate().manual_count, 0);
}

TEST_F(CompactorTest, RefusesALevelAboveTheData) {
  AddTables();
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_TRUE(Compact({.target_level = 1}).IsInvalidArgument());
}

TEST_F(CompactorTest, PausesWithoutSpace) {
  AddTables();
  env_.FailAfter(0, Status::FromErrno("test", ENOSPC), kWriteOperation);
  EXPECT_TRUE(Compact().IsNoSpace());
  env_.ClearFailure();
  EXPECT_TRUE(parts_.core.picker.gate().error.IsNoSpace());
  EXPECT_TRUE(parts_.core.control.error().ok());
  EXPECT_EQ(Level0Files(), 2);
  {
    MutexLock lock(parts_.core.mutex());
    parts_.compactor.RetryLocked();
    EXPECT_TRUE(parts_.core.picker.GateIsOpenLocked());
  }
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_EQ(Level0Files(), 0);
}

TEST_F(CompactorTest, StopsWritesAfterOtherErrors) {
  AddTables();
  env_.FailAfter(0, Status::IOError("test"), kWriteOperation);
  EXPECT_TRUE(Compact().IsIOError());
  env_.ClearFailure();
  EXPECT_TRUE(parts_.core.control.error().IsIOError());
  EXPECT_TRUE(Compact().IsIOError());
}

}  // namespace
}  // namespace varve::test
