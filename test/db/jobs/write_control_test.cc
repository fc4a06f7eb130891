// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the gate stops writers exactly while the database is not writable, or a
// family or the logs hold them up. Method: families and logs in memory.

#include "db/jobs/write_control.h"

#include "test/testing/db/engine_parts.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class Recorder : public EventListener {
 public:
  void OnBackgroundError(const std::string& where,
                         const Status& status) override {
    errors.push_back(where + ": " + status.ToString());
  }
  std::vector<std::string> errors;
};

class WriteControlTest : public ::testing::Test {
 protected:
  Options WithRecorder() {
    Options options = TinyOptions();
    options.listeners = {recorder_};
    return options;
  }
  bool Passes() { return parts_.core.control.gate().IsClear(); }

  Options other_options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  EngineParts parts_{WithRecorder(), env_.get()};
  Options& options_ = parts_.core.options;
  WriteControl& control_ = parts_.core.control;
};

TEST_F(WriteControlTest, StopsWritesAfterAnErrorUntilItIsCleared) {
  EXPECT_TRUE(Passes());
  MutexLock lock(parts_.core.mutex());
  control_.SetErrorLocked(Status::Corruption("first"), "a flush");
  control_.SetErrorLocked(Status::Corruption("second"), "a compaction");
  EXPECT_FALSE(Passes());
  EXPECT_TRUE(control_.gate().HasError());
  EXPECT_EQ(control_.error_count(), 2u);
  EXPECT_TRUE(control_.error().IsCorruption());
  const std::string message = control_.error().ToString();
  EXPECT_NE(message.find("read-only since a flush failed"), std::string::npos)
      << message;
  EXPECT_EQ(message.find("second"), std::string::npos) << message;
  parts_.core.events.DeliverLocked();
  ASSERT_EQ(recorder_->errors.size(), 1u);
  control_.ClearErrorLocked();
  control_.UpdateGateLocked();
  EXPECT_TRUE(Passes());
}

TEST_F(WriteControlTest, StopsWritesInAChildUntilItTakesOver) {
  MutexLock lock(parts_.core.mutex());
  control_.inheritance().Inherit(true, true);
  control_.SetInheritedErrorLocked();
  control_.UpdateGateLocked();
  EXPECT_FALSE(Passes());
  EXPECT_FALSE(control_.error().ok());
  EXPECT_TRUE(control_.inheritance().TakeOver());
  control_.ClearErrorLocked();
  control_.UpdateGateLocked();
  EXPECT_TRUE(Passes());
}

TEST_F(WriteControlTest, IsClosedOnceTheLogsAre) {
  MutexLock lock(parts_.core.mutex());
  EXPECT_FALSE(control_.IsEndingLocked());
  control_.SetClosingLocked();
  EXPECT_TRUE(control_.IsEndingLocked());
  EXPECT_FALSE(control_.IsClosedLocked());
  ASSERT_TRUE(Ok(parts_.core.wals.CloseLocked()));
  EXPECT_TRUE(control_.IsClosedLocked());
  control_.UpdateGateLocked();
  EXPECT_TRUE(control_.gate().HasError());
}

TEST_F(WriteControlTest, EndsWhenTheSchedulerStops) {
  MutexLock lock(parts_.core.mutex());
  parts_.core.scheduler.StopLocked();
  EXPECT_TRUE(control_.IsEndingLocked());
  EXPECT_FALSE(control_.is_closing());
}

TEST_F(WriteControlTest, StopsWritesWhileOneFamilyHasNoMemTable) {
  ColumnFamily* const other = parts_.Add("other", &other_options_);
  other_options_.max_write_buffer_number = 2;
  other_options_.write_buffer_size = 1;
  parts_.Put(other, "a");
  parts_.Switch({other});
  EXPECT_TRUE(Passes());
  parts_.Put(other, "b");
  {
    MutexLock lock(parts_.core.mutex());
    control_.UpdateStallLocked(other);
    EXPECT_FALSE(Passes());
    EXPECT_FALSE(control_.gate().HasError());
  }
  parts_.Flush({other});
  EXPECT_TRUE(Passes());
}

TEST_F(WriteControlTest, StopsWritesWhileTheLogsHoldThemUp) {
  parts_.Put(&parts_.core.default_family, "key", 1 << 20);
  parts_.Switch({&parts_.core.default_family});
  options_.max_total_wal_size = 1 << 20;
  {
    MutexLock lock(parts_.core.mutex());
    EXPECT_FALSE(control_.LogsHoldUpLocked());
    EXPECT_TRUE(control_.LogsBeginToHoldUpLocked());
    EXPECT_FALSE(Passes());
    EXPECT_TRUE(control_.LogsHoldUpLocked());
  }
  parts_.Flush({&parts_.core.default_family});
  MutexLock lock(parts_.core.mutex());
  EXPECT_FALSE(control_.LogsHoldUpLocked());
  EXPECT_TRUE(Passes());
}

// The wait would not end.
TEST_F(WriteControlTest, DoesNotWaitForLogsThatNoFlushFrees) {
  parts_.Put(&parts_.core.default_family, "key", 1 << 20);
  parts_.Switch({});
  options_.max_total_wal_size = 1 << 20;
  MutexLock lock(parts_.core.mutex());
  EXPECT_FALSE(control_.LogsBeginToHoldUpLocked());
  EXPECT_TRUE(Passes());
}

}  // namespace
}  // namespace varve::test
