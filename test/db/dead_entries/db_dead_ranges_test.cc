// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: a walk over many dead entries is slow once. Later walks step over them,
// and background work removes them wherever they are, but not while a snapshot
// needs them. Method: small databases whose dead entries are in memory, in
// level 0, or above values in deeper levels; counters, the property, and
// events.

#include "test/testing/db_helpers.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/listener.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

constexpr int kDead = 3000;

class DeadRangeListener : public EventListener {
 public:
  void OnDeadRange(const DeadRangeInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    infos_.push_back(info);
  }
  std::vector<DeadRangeInfo> infos() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return infos_;
  }

 private:
  std::mutex mutex_;
  std::vector<DeadRangeInfo> infos_;
};

// After Begin, the next append to a log lasts until a job has tried for long to
// lead the queue of writers.
class LongWriteEnv final : public HookEnv {
 public:
  LongWriteEnv() : HookEnv(kWriteOperation, ".log") {}

  void Begin() { state_ = kNextIsLong; }
  void AwaitWriter() const {
    while (state_ != kLong) std::this_thread::yield();
  }
  void SleepForMicroseconds(uint64_t duration_us) override {
    if (state_ == kLong) ++pauses_;
    EnvWrapper::SleepForMicroseconds(duration_us);
  }

 private:
  enum State : int { kUsual, kNextIsLong, kLong };

  Status Before(FileOperation, const std::string&) override {
    int expected = kNextIsLong;
    if (state_.compare_exchange_strong(expected, kLong)) {
      // After so many, a job does not try any more.
      while (pauses_ < 50) std::this_thread::yield();
      state_ = kUsual;
    }
    return Status::OK();
  }

  std::atomic<int> state_{kUsual};
  std::atomic<int> pauses_{0};
};

class DbDeadRangesTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_.statistics = NewTestStatistics();
    options_.write_buffer_size = 4 << 20;
    options_.listeners = {listener_};
    Open();
  }
  // Whether the engine cleans, as it does in production.
  static bool Cleans() { return TestAblation().waste != WasteMode::kIgnored; }

  void PutAll(int first = 0) {
    for (int i = first; i < kDead; ++i) Put(Key(i), "value");
    Put("z", "last");
  }
  void DeleteAll() {
    for (int i = 0; i < kDead; ++i) Delete(Key(i));
  }
  uint64_t Count(Ticker ticker) const {
    return options_.statistics->getTickerCount(ticker);
  }
  // Returns how many entries a seek to the beginning passes, which finds "z".
  uint64_t PassedBySeek() {
    const uint64_t before = Count(Ticker::kNumberIterSkip);
    {
      const auto it = db_->NewIterator({});
      it->SeekToFirst();
      EXPECT_TRUE(it->Valid()) << it->status().ToString();
      if (it->Valid()) {
        EXPECT_EQ(it->key().ToString(), "z");
      }
    }
    return Count(Ticker::kNumberIterSkip) - before;
  }
  uint64_t PassedBackward() {
    const uint64_t before = Count(Ticker::kNumberIterSkip);
    {
      const auto it = db_->NewIterator({});
      it->SeekForPrev("y");
      EXPECT_FALSE(it->Valid());
      EXPECT_TRUE(Ok(it->status()));
    }
    return Count(Ticker::kNumberIterSkip) - before;
  }
  std::string DeadRangesText() {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.dead-ranges", &text));
    return text;
  }
  // Returns whether the property says so within some seconds.
  bool Comes(const std::function<bool(const std::string&)>& holds) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!holds(DeadRangesText())) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  // Waits until all reported ranges are clean.
  void AwaitClean() {
    EXPECT_TRUE(Comes([](const std::string& text) {
      return text.find("reported") == std::string::npos;
    })) << DeadRangesText();
    EXPECT_TRUE(Ok(db_->WaitForCompact()));
  }
  // Returns the deletions in memory and in tables.
  uint64_t Deletions() {
    uint64_t in_memory = 0;
    uint64_t waiting = 0;
    EXPECT_TRUE(
        db_->GetIntProperty("varve.num-deletes-active-mem-table", &in_memory));
    EXPECT_TRUE(
        db_->GetIntProperty("varve.num-deletes-imm-mem-tables", &waiting));
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.aggregated-table-properties", &text));
    uint64_t in_tables = 0;
    const size_t at = text.find("# deletions=");
    if (at != std::string::npos) in_tables = std::stoull(text.substr(at + 12));
    return in_memory + waiting + in_tables;
  }
  void ExpectCleaned() {
    AwaitClean();
    EXPECT_EQ(Deletions(), 0u) << DeadRangesText();
    EXPECT_LT(PassedBySeek(), 32u);
    EXPECT_LT(PassedBackward(), 32u);
  }

  std::shared_ptr<DeadRangeListener> listener_ =
      std::make_shared<DeadRangeListener>();
};

TEST_F(DbDeadRangesTest, DeadEntriesInMemoryAreDropped) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  DeleteAll();
  EXPECT_GE(PassedBySeek(), uint64_t{kDead});
  ExpectCleaned();
}

TEST_F(DbDeadRangesTest, DeletionsOfLevel0AreCompacted) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  Flush();
  DeleteAll();
  Flush();
  PassedBySeek();
  ExpectCleaned();
}

TEST_F(DbDeadRangesTest, DeletionsAboveValuesGoDownToThem) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  CompactAll();
  DeleteAll();
  PassedBySeek();
  // WaitForCompact, in ExpectCleaned, flushes deletions for another reason.
  EXPECT_TRUE(Comes([this](const std::string&) {
    return Count(Ticker::kDeadRangeFlushes) > 0;
  }));
  ExpectCleaned();
  EXPECT_FALSE(listener_->infos().empty());
  for (const DeadRangeInfo& info : listener_->infos()) {
    EXPECT_TRUE(std::string(info.job) == "flush" ||
                std::string(info.job) == "compaction");
    EXPECT_GT(info.dead, 0u);
    EXPECT_GT(info.walks, 0u);
  }
  EXPECT_GT(Count(Ticker::kDeadWalks), 0u);
}

TEST_F(DbDeadRangesTest, BackwardWalksReportToo) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  DeleteAll();
  EXPECT_GE(PassedBackward(), uint64_t{kDead});
  ExpectCleaned();
}

TEST_F(DbDeadRangesTest, ASnapshotThatNeedsThemKeepsThem) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  const Snapshot* const snapshot = db_->GetSnapshot();
  DeleteAll();
  PassedBySeek();
  EXPECT_TRUE(Comes([&](const std::string& text) {
    return Contains(text, "waits for a snapshot " +
                              std::to_string(snapshot->GetSequenceNumber()));
  })) << DeadRangesText();
  EXPECT_EQ(Count(Ticker::kDeadRangeFlushes), 0u);
  // They are stepped over in the meantime, except by the snapshot's readers.
  EXPECT_LT(PassedBySeek(), 32u);
  const auto it = db_->NewIterator({.snapshot = snapshot});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key().ToString(), Key(0));
  db_->ReleaseSnapshot(snapshot);
  Put("y", "");  // The jobs look again at the next report.
  Delete("y");
  ReadOptions bounded;
  const Slice upper = Key(kDead / 2);
  bounded.iterate_upper_bound = &upper;
  for (int i = 0; i < 3 && Deletions() > 0; ++i) {
    db_->NewIterator({})->SeekForPrev(Key(kDead - 1 - i));
    ASSERT_TRUE(Ok(db_->Flush(FlushOptions())));
    AwaitClean();
  }
  EXPECT_LT(PassedBySeek(), 32u);
}

TEST_F(DbDeadRangesTest, WaitForCompactCleansWhatASnapshotKept) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  PutAll();
  const Snapshot* const snapshot = db_->GetSnapshot();
  DeleteAll();
  PassedBySeek();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_TRUE(Contains(DeadRangesText(), "waits for a snapshot"))
      << DeadRangesText();
  db_->ReleaseSnapshot(snapshot);
  EXPECT_FALSE(Contains(DeadRangesText(), "waits for a snapshot"))
      << DeadRangesText();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Deletions(), 0u) << DeadRangesText();
}

// The report comes while a writer leads, and nobody writes after it.
TEST_F(DbDeadRangesTest, WaitForCompactCleansAfterALongWrite) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  LongWriteEnv env;
  options_.env = &env;
  Reopen();
  PutAll();
  DeleteAll();
  Actor writer;
  env.Begin();
  writer.Start([this] { EXPECT_TRUE(Ok(db_->Put({}, "zz", "value"))); });
  env.AwaitWriter();
  {
    const auto it = db_->NewIterator({});
    it->Seek(Key(0));
  }
  writer.Wait();
  EXPECT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Deletions(), 0u) << DeadRangesText();
  db_.reset();  // It uses the Env.
}

TEST_F(DbDeadRangesTest, AQueueIsPoppedWithoutWalking) {
  if (!Cleans()) GTEST_SKIP() << "waste=ignored cleans nothing";
  options_.write_buffer_size = 64 << 20;
  Reopen();
  constexpr int kQueue = 10000;
  for (int i = 0; i < kQueue; ++i) Put(Key(i), std::to_string(i));
  const uint64_t before = Count(Ticker::kNumberIterSkip);
  int pushed = kQueue;
  for (int i = 0; i < kQueue; ++i) {
    const auto it = db_->NewIterator({});
    it->SeekToFirst();
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(it->key().ToString(), Key(i));
    ASSERT_EQ(it->value().ToString(), std::to_string(i));
    Delete(it->key().ToString());
    if (i % 3 == 0) {
      Put(Key(pushed), std::to_string(pushed));
      ++pushed;
    }
  }
  const uint64_t passed = Count(Ticker::kNumberIterSkip) - before;
  EXPECT_LT(passed, uint64_t{kQueue} * 64);
  EXPECT_GT(Count(Ticker::kDeadRangeSteps), uint64_t{kQueue} / 2);
}

// A value that comes back into a range is found, in both directions.
TEST_F(DbDeadRangesTest, ValuesPutIntoARangeAreFound) {
  PutAll();
  DeleteAll();
  PassedBySeek();
  PassedBackward();
  for (const int i : {kDead / 2, kDead / 4, 1, kDead - 2}) {
    WriteBatch batch;
    batch.Delete(Key(i));
    batch.Put(Key(i), "back");
    ASSERT_TRUE(Ok(db_->Write(WriteOptions(), &batch)));
    for (const bool forward : {true, false}) {
      const auto it = db_->NewIterator({});
      if (forward) {
        it->Seek(Key(i - 1));
      } else {
        it->SeekForPrev(Key(i + 1));
      }
      ASSERT_TRUE(it->Valid());
      EXPECT_EQ(it->key().ToString(), Key(i));
    }
    Delete(Key(i));
    PassedBySeek();
  }
}

// The default family has no ranges.
TEST_F(DbDeadRangesTest, ValuesPutIntoARangeOfAnotherFamilyAreFound) {
  constexpr int kFewDead = 200;  // Remembered, but not reported and cleaned.
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &family)));
  for (int i = 0; i < kFewDead; ++i) {
    ASSERT_TRUE(Ok(db_->Put({}, family, Key(i), "value")));
    ASSERT_TRUE(Ok(db_->Delete({}, family, Key(i))));
  }
  ASSERT_TRUE(Ok(db_->Put({}, family, "z", "last")));
  const auto first = [&] {
    const auto it = db_->NewIterator({}, family);
    it->SeekToFirst();
    return it->Valid() ? it->key().ToString() : it->status().ToString();
  };
  EXPECT_EQ(first(), "z");
  EXPECT_EQ(first(), "z");
  if (Cleans()) {
    EXPECT_GT(Count(Ticker::kDeadRangeSteps), 0u);
  }
  ASSERT_TRUE(Ok(db_->Put({}, family, Key(5), "back")));
  EXPECT_EQ(first(), Key(5));
  WriteBatch batch;
  batch.Put("a", "of the default family");
  batch.Put(family, Key(4), "back");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(first(), Key(4));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

// The target of a seek may be the entry that the iterator leaves: the walk must
// not take other bytes for it.
TEST_F(DbDeadRangesTest, SeeksToItsOwnValue) {
  for (int i = 300; i < 499; ++i) {
    Put("row/" + std::to_string(i), std::string(200, 'z'));
    Delete("row/" + std::to_string(i));
  }
  Do("put index row/500, put row/900 live, put zz row/300");
  for (int i = 0; i < 2; ++i) {
    const auto it = db_->NewIterator({});
    it->SeekForPrev("index");
    ASSERT_TRUE(it->Valid());
    it->SeekForPrev(it->value());
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().ToString(), "index");
    it->SeekToLast();
    ASSERT_TRUE(it->Valid());
    it->Seek(it->value());
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().ToString(), "row/900");
    for (const char* target : {"row/500", "row/299", "row/899"}) {
      const auto other = db_->NewIterator({});
      other->Seek(target);
      ASSERT_TRUE(other->Valid()) << target;
      EXPECT_EQ(other->key().ToString(), "row/900");
    }
  }
}

// A step to the end of the data clears the status and the threshold of before.
TEST_F(DbDeadRangesTest, AStepToTheEndIsAnEnd) {
  PutAll();
  Delete("z");
  DeleteAll();
  for (int i = 0; i < 3; ++i) {
    const auto it = db_->NewIterator({});
    it->SeekToFirst();
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(Ok(it->status()));
    it->SeekToLast();
    EXPECT_FALSE(it->Valid());
    it->Seek(Key(7));
    EXPECT_FALSE(it->Valid());
    it->SeekForPrev(Key(7));
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(Ok(it->status()));
  }
  Put(Key(8), "value");
  const auto it = db_->NewIterator({});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key().ToString(), Key(8));
}

// Readers, a writer of values and a deleter, with ranges that come and go. What
// a reader finds first is what the writer put there.
TEST_F(DbDeadRangesTest, ReadersBesideWritersMissNothing) {
  constexpr int kKeys = 2000;
  options_.write_buffer_size = 256 << 10;
  Reopen();
  // The writer moves one live key through dead ones: it puts the next, then
  // deletes the last. So a reader always finds at least one key.
  std::atomic<bool> stop{false};
  for (int i = 0; i < kKeys; ++i) Put(Key(i), "old");
  for (int i = 1; i < kKeys; ++i) Delete(Key(i));
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      // relaxed: a flag of the test.
      while (!stop.load(std::memory_order_relaxed)) {
        const auto it = db_->NewIterator({});
        if (t == 0) {
          it->SeekToFirst();
        } else {
          it->SeekToLast();
        }
        ASSERT_TRUE(it->Valid()) << it->status().ToString();
      }
    });
  }
  Rng rng(TestSeed());
  int live = 0;
  for (int step = 0; step < 20000; ++step) {
    const int next = static_cast<int>(rng.Below(kKeys));
    if (next == live) continue;
    Put(Key(next), "live");
    Delete(Key(live));
    live = next;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace varve::test
