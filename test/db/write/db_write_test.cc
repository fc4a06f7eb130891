// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: writers are slowed down and stopped when necessary, for the right
// reason, which is counted and reported. A writer that refuses to wait is not
// delayed by waiting ones. Method: flushes or compactions that are held up.

#include "test/testing/db_helpers.h"
#include "test/testing/env/slow_tables_env.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

class DbWriteTest : public DbTestBase {
 protected:
  DbWriteTest() {
    options_.env = &env_;
    options_.statistics = NewTestStatistics();
    no_slowdown_.no_slowdown = true;
  }
  ~DbWriteTest() override {
    env_.LetGo();
    db_.reset();
  }

  uint64_t Count(Ticker ticker) {
    return options_.statistics->getTickerCount(ticker);
  }
  // Puts until one is refused.
  Status Fill() {
    Status s;
    for (int i = 0; i < 20000 && s.ok(); i++) {
      s = db_->Put(no_slowdown_, Key(i), std::string(1000, 'x'));
    }
    return s;
  }
  // A writer that waits.
  void StartWaiting(const std::string& key, Ticker ticker) {
    const uint64_t before = Count(ticker);
    waiting_.emplace_back([this, key] { Put(key, "waited"); });
    while (Count(ticker) == before) std::this_thread::yield();
  }
  void ExpectEnd() {
    env_.LetGo();
    for (std::thread& thread : waiting_) thread.join();
    EXPECT_EQ(Get("first"), "waited");
    EXPECT_EQ(Get("second"), "waited");
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_TRUE(Ok(db_->Put(no_slowdown_, "a", "free")));
  }

  SlowTablesEnv env_;
  WriteOptions no_slowdown_;
  std::vector<std::thread> waiting_;
};

TEST_F(DbWriteTest, StopsWhileMemTablesWaitForFlush) {
  Open();
  env_.KeepBack(Env::Priority::kHigh);
  EXPECT_TRUE(IsIncomplete(Fill(), "memtables"));
  StartWaiting("first", Ticker::kStallMemTableStops);
  StartWaiting("second", Ticker::kStallMemTableStops);
  // They do not stand in the way.
  EXPECT_TRUE(db_->Put(no_slowdown_, "a", "b").IsIncomplete());
  EXPECT_TRUE(Ok(db_->SyncWAL()));
  EXPECT_EQ(Count(Ticker::kStallMemTableStops), 2u);
  ExpectEnd();
}

// A table of few bytes says nothing of the write buffer after it, whether it
// was flushed or is from an earlier run.
TEST_F(DbWriteTest, ATableOfLittleDoesNotPaceWriters) {
  options_.write_buffer_size = 64 << 20;
  options_.level0_file_num_compaction_trigger = 4;
  Open();
  for (int opened = 1; opened <= 2; opened++) {
    ASSERT_TRUE(Ok(db_->Put(WriteOptions(), "little", "x")));
    ASSERT_TRUE(Ok(db_->Flush(FlushOptions())));
    for (int i = 0; i < 20000; i++) {
      ASSERT_TRUE(Ok(db_->Put(WriteOptions(), Key(i), std::string(1000, 'x'))));
    }
    EXPECT_EQ(Count(Ticker::kPaceMicros), 0u) << opened;
    Reopen();
  }
}

TEST_F(DbWriteTest, FlushesOfLittleDoNotSlowWriters) {
  options_.write_buffer_size = 64 << 20;
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_slowdown_writes_trigger = 3;
  Open();
  env_.KeepBack(Env::Priority::kLow);
  for (int files = 1; files <= 4; files++) {
    Put("little", std::to_string(files));
    Flush();
  }
  EXPECT_EQ(Number("varve.is-write-stalled"), 1u);
  for (int i = 0; i < 20000; i++) {
    ASSERT_TRUE(Ok(db_->Put(no_slowdown_, Key(i), std::string(1000, 'x'))));
  }
  EXPECT_EQ(Count(Ticker::kStallMicros), 0u);
}

// Keeps its lines in a database.
class DbLogger : public Logger {
 public:
  explicit DbLogger(DB* db) : db_(db) {}
  void Logv(LogLevel, const char* format, va_list) override {
    EXPECT_TRUE(Ok(db_->Put({}, format, "seen")));
  }

 private:
  DB* const db_;
};

TEST_F(DbWriteTest, LoggerMayPutDuringAPut) {
  std::unique_ptr<DB> log_db;
  ASSERT_TRUE(Ok(DB::Open(TinyOptions(), dir_.Sub("log"), &log_db)));
  options_.info_log = std::make_shared<DbLogger>(log_db.get());
  Open();
  env_.KeepBack(Env::Priority::kHigh);
  EXPECT_TRUE(Fill().IsIncomplete());
  StartWaiting("first", Ticker::kStallMemTableStops);
  StartWaiting("second", Ticker::kStallMemTableStops);
  ExpectEnd();
  const auto it = log_db->NewIterator({});
  it->Seek("[%s] writes are ");
  ASSERT_TRUE(it->Valid());
  EXPECT_TRUE(it->key().starts_with("[%s] writes are "));
  db_.reset();
}

TEST_F(DbWriteTest, SlowsDownAndStopsByLevelZero) {
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_slowdown_writes_trigger = 3;
  options_.level0_stop_writes_trigger = 6;
  options_.write_buffer_size = 32 << 20;  // Not flushed but by Flush.
  // The rate at which writers may go on is less than they do on any machine.
  env_.SetTableTime(1000000);
  Open();
  env_.KeepBack(Env::Priority::kLow);
  for (int i = 0; i < 50000; i++) Put(Key(i), std::string(100, 'x'));
  for (int files = 1; files <= 6; files++) {
    Put("key", std::to_string(files));
    Flush();
    const uint64_t rate = Number("varve.actual-delayed-write-rate");
    if (files < 3 || files == 6) {
      EXPECT_EQ(rate, 0u) << files;
      continue;
    }
    EXPECT_GT(rate, 0u) << files;
    const uint64_t before = Count(Ticker::kStallLevel0Delays);
    const std::string large(300000, 'x');
    for (int i = 0; i < 60 && Count(Ticker::kStallLevel0Delays) == before;
         i++) {
      ASSERT_TRUE(Ok(db_->Put({}, "large", large)));
    }
    EXPECT_GT(Count(Ticker::kStallLevel0Delays), before);
    Status s;
    for (int i = 0; i < 1000 && s.ok(); i++) {
      s = db_->Put(no_slowdown_, "large", large);
    }
    EXPECT_TRUE(IsIncomplete(s, "level-0"));
  }
  EXPECT_EQ(Number("varve.is-write-stopped"), 1u);
  EXPECT_EQ(Count(Ticker::kStallLevel0Stops), 0u);
  EXPECT_TRUE(db_->Put(no_slowdown_, "a", "b").IsIncomplete());
  StartWaiting("first", Ticker::kStallLevel0Stops);
  StartWaiting("second", Ticker::kStallLevel0Stops);
  EXPECT_TRUE(db_->Put(no_slowdown_, "a", "b").IsIncomplete());
  EXPECT_GT(Count(Ticker::kStallMicros), 0u);
  EXPECT_EQ(Count(Ticker::kStallPendingDelays), 0u);
  ExpectEnd();
  const std::string log = [this] {
    std::string text;
    EXPECT_TRUE(Ok(ReadFileToString(Env::Default(), path_ + "/LOG", &text)));
    return text;
  }();
  EXPECT_TRUE(Contains(log, "writes are slowed down: level-0 files"));
  EXPECT_TRUE(Contains(log, "writes are stopped: level-0 files"));
  EXPECT_TRUE(Contains(log, "writes are normal"));
}

}  // namespace
}  // namespace varve::test
