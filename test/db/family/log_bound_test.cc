// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the families that keep the oldest logs are flushed before the logs
// exceed their bound, and no others. Method: families and logs in memory.

#include "db/family/log_bound.h"

#include "test/testing/db/engine_parts.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr uint64_t kBound = 1 << 20;

class LogBoundTest : public ::testing::Test {
 protected:
  LogBoundTest() {
    options_.write_buffer_size = kBound;
    other_options_.write_buffer_size = kBound;
    options_.max_total_wal_size = kBound;
    MutexLock lock(parts_.core.mutex());
    bound_.UpdateLogSizeLocked();
  }
  std::vector<ColumnFamily*> Holders(std::vector<ColumnFamily*> families = {}) {
    MutexLock lock(parts_.core.mutex());
    bound_.AddHoldersLocked(&families);
    return families;
  }
  // Begins a new log, and no new memtable.
  void SwitchLog() {
    options_.max_total_wal_size = UINT64_MAX;
    parts_.Switch({});
    options_.max_total_wal_size = kBound;
  }

  Options other_options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  EngineParts parts_{TinyOptions(), env_.get()};
  Options& options_ = parts_.core.options;
  LogBound& bound_ = parts_.core.log_bound;
  ColumnFamily* const default_ = &parts_.core.default_family;
};

TEST_F(LogBoundTest, ComputesTheBoundFromTheMemTables) {
  MutexLock lock(parts_.core.mutex());
  EXPECT_EQ(bound_.MaxBytesLocked(), kBound);
  options_.max_total_wal_size = 0;
  options_.max_write_buffer_number = 3;
  EXPECT_EQ(bound_.MaxBytesLocked(), 4 * 3 * kBound);
}

TEST_F(LogBoundTest, CountsAllFamiliesEvenIfTheyAreMany) {
  options_.max_total_wal_size = 0;
  options_.max_write_buffer_number = 2;
  other_options_.max_write_buffer_number = 2;
  for (int i = 0; i < 9; ++i) {
    parts_.Add("family" + std::to_string(i), &other_options_);
  }
  MutexLock lock(parts_.core.mutex());
  EXPECT_EQ(bound_.MaxBytesLocked(), 10 * kBound);
}

TEST_F(LogBoundTest, MakesSeveralLogsOfTheBound) {
  EXPECT_EQ(parts_.core.wals.max_log_bytes(), kBound / 4);
  MutexLock lock(parts_.core.mutex());
  options_.max_total_wal_size = 100 * kBound;
  bound_.UpdateLogSizeLocked();
  EXPECT_EQ(parts_.core.wals.max_log_bytes(), kBound + kBound / 4);
  options_.max_total_wal_size = 1;
  bound_.UpdateLogSizeLocked();
  EXPECT_EQ(parts_.core.wals.max_log_bytes(), 64u << 10);
}

TEST_F(LogBoundTest, AddsTheFamilyOfTheOldestLog) {
  ColumnFamily* const a = parts_.Add("a", &other_options_);
  ColumnFamily* const b = parts_.Add("b", &other_options_);
  parts_.Put(a, "key", kBound / 8 * 3);
  EXPECT_TRUE(Holders().empty());
  SwitchLog();
  // `a` still needs the first log.
  parts_.Put(b, "key", kBound / 8 * 3);
  EXPECT_EQ(Holders(), std::vector{a});
  EXPECT_EQ(Holders({a}), std::vector{a});
  EXPECT_EQ(Holders({b}), (std::vector{b, a}));
}

TEST_F(LogBoundTest, AddsAllFamiliesOfTheLogsToFree) {
  ColumnFamily* const a = parts_.Add("a", &other_options_);
  ColumnFamily* const b = parts_.Add("b", &other_options_);
  parts_.Put(b, "key");
  parts_.Put(a, "key", kBound);
  SwitchLog();
  parts_.Put(default_, "key");
  EXPECT_EQ(Holders(), (std::vector{a, b}));
}

TEST_F(LogBoundTest, LeavesFamiliesAloneWhoseFlushIsDue) {
  ColumnFamily* const a = parts_.Add("a", &other_options_);
  parts_.Put(a, "key", kBound);
  parts_.Switch({a});
  EXPECT_TRUE(Holders().empty());
}

TEST_F(LogBoundTest, NeedsNoneWithoutFurtherFamilies) {
  parts_.Put(default_, "key", 2 * kBound);
  EXPECT_TRUE(Holders().empty());
}

// Otherwise nothing would end the wait, and the logs would exceed the bound.
TEST_F(LogBoundTest, WritersWaitOnlyAfterAFlushHasBegun) {
  ColumnFamily* const idle = parts_.Add("idle", &other_options_);
  parts_.Put(idle, "key");
  bool flushes = false;
  for (;;) {
    parts_.Put(default_, "key", parts_.core.wals.max_log_bytes());
    {
      MutexLock lock(parts_.core.mutex());
      if (bound_.CheckLocked(true)) break;
    }
    flushes |= !Holders().empty();
    SwitchLog();
  }
  EXPECT_TRUE(flushes);
}

TEST_F(LogBoundTest, HoldsWritersUpOnlyIfLogsWillBeFreed) {
  parts_.Put(default_, "key", kBound);
  parts_.Switch({default_});
  MutexLock lock(parts_.core.mutex());
  EXPECT_FALSE(bound_.CheckLocked(false));
  EXPECT_FALSE(bound_.holds_up());
  EXPECT_TRUE(bound_.CheckLocked(true));
  EXPECT_TRUE(bound_.holds_up());
  options_.max_total_wal_size = 100 * kBound;
  EXPECT_FALSE(bound_.CheckLocked(true));
  EXPECT_FALSE(bound_.holds_up());
}

TEST_F(LogBoundTest, NamesTheFamilyThatNeedsTheOldestLog) {
  ColumnFamily* const a = parts_.Add("a", &other_options_);
  const auto describe = [this] {
    MutexLock lock(parts_.core.mutex());
    return bound_.DescribeOldestLocked();
  };
  EXPECT_NE(describe().find("needed by no column family"), std::string::npos);
  parts_.Put(a, "key");
  EXPECT_NE(describe().find("needed by a,"), std::string::npos) << describe();
}

}  // namespace
}  // namespace varve::test
