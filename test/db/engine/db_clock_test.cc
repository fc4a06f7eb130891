// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no duration, wait or rate comes from the wall clock. Method: an Env
// whose wall clock jumps by years, forth and back, at every look, or is set to
// a time before the database was made; what the database reports and how long
// it waits must be as with a good clock.

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/slow_tables_env.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"
#include "varve/statistics.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr uint64_t kSecond = 1000000;
constexpr uint64_t kYear = 365 * 86400 * kSecond;
constexpr uint64_t kHour = 3600 * kSecond;

// The wall clock jumps between `shifts`, to the next one at each look. Sleeps,
// and new tables if they are to take time, only advance the monotonic clock.
class SteppingEnv final : public SlowTablesEnv {
 public:
  uint64_t NowMicros() override {
    const size_t look = looks_++;
    return target()->NowMicros() + shifts_[look % shifts_.size()];
  }
  uint64_t NowNanos() override {
    return SlowTablesEnv::NowNanos() + 1000 * slept_us_;
  }
  void SleepForMicroseconds(uint64_t duration_us) override {
    slept_us_ += duration_us;
    longest_us_ = std::max(longest_us_.load(), duration_us);
  }

  void SetShifts(std::vector<uint64_t> shifts) { shifts_ = std::move(shifts); }
  uint64_t slept_us() const { return slept_us_; }
  uint64_t longest_us() const { return longest_us_; }

 private:
  std::vector<uint64_t> shifts_ = {0, 10 * kYear, uint64_t{0} - 30 * kYear};
  std::atomic<size_t> looks_{0};
  std::atomic<uint64_t> slept_us_{0};
  std::atomic<uint64_t> longest_us_{0};
};

class LongestTimes final : public EventListener {
 public:
  void OnFlushCompleted(const FlushJobInfo& info) override {
    flush_us = std::max(flush_us.load(), info.micros);
  }
  void OnCompactionCompleted(const CompactionJobInfo& info) override {
    compaction_us = std::max(compaction_us.load(), info.micros);
  }
  std::atomic<uint64_t> flush_us{0};
  std::atomic<uint64_t> compaction_us{0};
};

class DbClockTest : public ::testing::Test {
 protected:
  DbClockTest() : faulty_(&env_) {
    options_ = TinyOptions();
    options_.env = &faulty_;
    options_.statistics = NewTestStatistics();
  }

  void Open() {
    db_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, directory_.path(), &db_)));
  }
  void PutAndFlush(int round) {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), std::to_string(round))));
    }
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  std::string Property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(db_->GetProperty(name, &value));
    return value;
  }

  TempDir directory_;
  SteppingEnv env_;
  FaultInjectionEnv faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_F(DbClockTest, ListenersStatsAndTickersTellTrueDurations) {
  const auto times = std::make_shared<LongestTimes>();
  options_.listeners = {times};
  options_.level0_file_num_compaction_trigger = 2;
  Open();
  for (int i = 0; i < 8; ++i) PutAndFlush(i);
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  Open();  // The log's replay is a flush, too.
  EXPECT_LT(times->flush_us, kHour);
  EXPECT_LT(times->compaction_us, kHour);
  // The column "Sec(s)" of all levels' rows.
  const std::string stats = Property("varve.stats");
  std::istringstream lines(stats);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream row(line);
    std::string column;
    row >> column;
    if (column != "Sum" && (column.size() != 2 || column[0] != 'L')) continue;
    std::vector<std::string> columns;
    while (row >> column) columns.push_back(column);
    for (const std::string& value : columns) {
      EXPECT_LT(strtod(value.c_str(), nullptr), 1e7) << line;
    }
    ++rows;
  }
  EXPECT_GT(rows, 1) << stats;
}

TEST_F(DbClockTest, SlowedWritersAreSlowedByTheRateAlone) {
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_slowdown_writes_trigger = 3;
  options_.level0_stop_writes_trigger = 100;
  options_.write_buffer_size = 1 << 20;
  env_.SetTableTime(kSecond);
  Open();
  env_.KeepBack(Env::Priority::kLow);
  constexpr int kWrites = 200;
  const std::string value(1000, 'v');
  const auto put = [&] {
    for (int i = 0; i < kWrites; ++i) {
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), value)));
    }
  };
  for (int i = 0; i < 4; ++i) {
    put();
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  // Each flush of as many bytes took a little over a second.
  const double rate = std::stod(Property("varve.actual-delayed-write-rate"));
  EXPECT_GT(rate, 1e3);
  EXPECT_LT(rate, kWrites * 1100);
  const uint64_t before_us = env_.slept_us();
  const uint64_t begin_us = env_.NowNanos() / 1000;
  put();
  const uint64_t slept_us = env_.slept_us() - before_us;
  const uint64_t passed_us = env_.NowNanos() / 1000 - begin_us;
  EXPECT_LE(env_.longest_us(), kSecond);
  EXPECT_LT(static_cast<double>(slept_us), kWrites * 1100 / rate * kSecond);
  // The last sleeps, below a millisecond, may still be owed.
  EXPECT_GT(static_cast<double>(passed_us), kWrites * 990 / rate * kSecond);
  EXPECT_LT(options_.statistics->getTickerCount(Ticker::kStallMicros), kHour);
  env_.LetGo();
}

TEST_F(DbClockTest, StoppedWritersReportTheirWait) {
  options_.max_write_buffer_number = 2;
  Open();
  const std::string value(4000, 'v');
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(Ok(db_->Put({}, Key(i), value)));
  }
  EXPECT_LT(options_.statistics->getTickerCount(Ticker::kStallMicros), kHour);
  EXPECT_LE(env_.longest_us(), kSecond);
}

TEST_F(DbClockTest, ResumesByItselfAndReadsWhileReadOnly) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
  FailureOptions how{.once = false};
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::FromErrno("injected", ENOSPC), kWriteOperation,
                    how);
  EXPECT_FALSE(db_->Flush({}).ok());
  EXPECT_EQ(Property("varve.is-read-only"), "1");
  std::string value;
  EXPECT_TRUE(Ok(db_->Get({}, "a", &value)));
  faulty_.ClearFailure();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Property("varve.is-read-only") == "1" &&
         std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(Property("varve.is-read-only"), "0");
  EXPECT_TRUE(Ok(db_->Put({}, "a", "2")));
}

TEST_F(DbClockTest, ASnapshotOfAWallClockNotYetSetHasADate) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
  const Snapshot* const snapshot = db_->GetSnapshot();
  // The epoch began a microsecond ago.
  env_.SetShifts({uint64_t{1} - Env::Default()->NowMicros()});
  uint64_t time_s = 1;
  ASSERT_TRUE(db_->GetIntProperty("varve.oldest-snapshot-time", &time_s));
  EXPECT_LT(time_s, 1000u);
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(DbClockTest, TheNewestOldInfoLogsStayWhenTheClockIsSetBack) {
  const auto old_logs = [this] {
    return FilesStartingWith(directory_.path(), "LOG.old.");
  };
  env_.SetShifts({30 * kYear});
  for (int i = 0; i < 12; ++i) Open();
  const size_t kept = old_logs().size();
  ASSERT_GT(kept, 2u);
  env_.SetShifts({0});
  for (size_t i = 0; i < kept; ++i) Open();
  const std::string last_possible = directory_.path() + "/LOG.old." +
                                    std::to_string(Env::Default()->NowMicros());
  for (const std::string& name : old_logs()) EXPECT_LE(name, last_possible);
}

}  // namespace
}  // namespace varve::test
