// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an iterator that is made, moved and destroyed by a thread that has done
// the same before allocates nothing, whatever the database is made of; nor does
// a MultiGet. Method: this program's malloc counts.

#include "experimental/ablation.h"
#include "test/testing/db_helpers.h"
#include "test/testing/machine/counted_malloc.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

constexpr int kKeys = 3000;
constexpr int kWarmRounds = 3;
constexpr int kRounds = 20;

// Keeps every flush waiting while it is closed.
class FlushLatch : public EventListener {
 public:
  void OnFlushBegin(const FlushJobInfo& /*info*/) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void Set(bool open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

class IteratorAllocationsTest : public ::testing::Test {
 protected:
  IteratorAllocationsTest() {
    options_.create_if_missing = true;
    options_.disable_auto_compactions = true;
    options_.compression = CompressionType::kNone;
    options_.block_cache = NewBlockCache(64 << 20);
    options_.target_file_size_base = 64 << 10;
    options_.listeners.push_back(latch_);
  }
  ~IteratorAllocationsTest() override {
    latch_->Set(true);
    db_.reset();
  }

  void Open() { ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("db"), &db_))); }
  // Made once, so that their making is not counted.
  const std::string& KeyOf(int number) {
    while (keys_.size() < kKeys) {
      keys_.push_back(prefix_ + Key(static_cast<int>(keys_.size())));
    }
    return keys_[static_cast<size_t>(number)];
  }
  void Fill(int begin, int step, size_t value_bytes = 30) {
    for (int i = begin; i < kKeys; i += step) {
      ASSERT_TRUE(Ok(db_->Put({}, KeyOf(i), std::string(value_bytes, 'v'))));
    }
  }
  void Flush() { ASSERT_TRUE(Ok(db_->Flush({}))); }
  void Compact() {
    ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }
  // Two levels, two tables of level 0 and a memtable.
  void FillAll() {
    Fill(0, 1);
    Flush();
    Compact();
    Fill(0, 5);
    Flush();
    Fill(0, 7);
    Flush();
    Fill(0, 11);
  }

  // All moves, or only those that suit blocks that are not worth making.
  void Walk(const ReadOptions& options, int round, bool forward_only) {
    const Slice from = KeyOf(round * 131 % kKeys);
    const auto it = db_->NewIterator(options);
    it->Seek(from);
    for (int i = 0; i < 5 && it->Valid(); i++) it->Next();
    it->SeekToFirst();
    ASSERT_TRUE(it->Valid());
    if (forward_only) return;
    it->SeekForPrev(from);
    for (int i = 0; i < 5 && it->Valid(); i++) it->Prev();
    if (it->Valid()) it->Next();
    it->SeekToLast();
    ASSERT_TRUE(it->Valid());
    ASSERT_TRUE(Ok(it->status()));
  }

  // Returns the allocations of `work(round)` after it has run before.
  static uint64_t Warm(const std::function<void(int)>& work) {
    for (int i = 0; i < kWarmRounds; i++) {
      for (int round = 0; round < kRounds; round++) work(round);
    }
    const uint64_t before = allocations;
    for (int round = 0; round < kRounds; round++) work(round);
    return allocations - before;
  }
  void ExpectNone(const ReadOptions& options = {}, bool forward_only = false) {
    EXPECT_EQ(Warm([&](int round) { Walk(options, round, forward_only); }), 0u);
  }

  TempDir dir_;
  const std::shared_ptr<FlushLatch> latch_ = std::make_shared<FlushLatch>();
  Options options_;
  std::string prefix_;
  std::vector<std::string> keys_;
  std::unique_ptr<DB> db_;
};

TEST_F(IteratorAllocationsTest, NoneFromAMemtable) {
  Open();
  Fill(0, 1);
  ExpectNone();
  // An entry more needs no new tree.
  EXPECT_EQ(
      Warm([this](int round) { db_->NewIterator({})->Seek(KeyOf(round)); }),
      0u);
}

TEST_F(IteratorAllocationsTest, NoneFromAnEmptyDatabase) {
  Open();
  EXPECT_EQ(Warm([this](int) { db_->NewIterator({})->SeekToFirst(); }), 0u);
}

TEST_F(IteratorAllocationsTest, NoneFromMemtablesThatWaitForFlush) {
  Open();
  Fill(0, 2);
  latch_->Set(false);
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  Fill(1, 2);
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneFromLevelZero) {
  Open();
  for (int i = 0; i < 6; i++) {
    Fill(i, 6);
    Flush();
  }
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneFromALevelOfManyTables) {
  Open();
  Fill(0, 1);
  Flush();
  Compact();
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneFromAllAtOnce) {
  Open();
  FillAll();
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneWithOptions) {
  Open();
  FillAll();
  const Slice lower = KeyOf(100);
  const Slice upper = KeyOf(2900);
  // They do not fill the cache.
  EntryList entries;
  ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
  ReadOptions options;
  options.snapshot = db_->GetSnapshot();
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  options.fill_cache = false;
  options.verify_checksums = false;
  Fill(0, 3);
  ExpectNone(options);
  db_->ReleaseSnapshot(options.snapshot);
}

TEST_F(IteratorAllocationsTest, NoneForLongKeysAndValues) {
  prefix_ = std::string(300, 'p');
  Open();
  Fill(0, 1, 2000);
  Flush();
  Compact();
  Fill(0, 9, 3000);
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneWithRangeDeletions) {
  Open();
  FillAll();
  ASSERT_TRUE(Ok(db_->DeleteRange({}, KeyOf(500), KeyOf(700))));
  ExpectNone();
  Flush();
  ExpectNone();
  ASSERT_TRUE(Ok(db_->DeleteRange({}, KeyOf(600), KeyOf(900))));
  ASSERT_TRUE(Ok(db_->DeleteRange({}, KeyOf(1000), KeyOf(1100))));
  ExpectNone();
}

TEST_F(IteratorAllocationsTest, NoneFromBlocksThatAreNotCached) {
  for (const CompressionType compression :
       {CompressionType::kNone, CompressionType::kLZ4}) {
    options_.compression = compression;
    options_.block_cache = NewBlockCache(0);
    db_.reset();
    Open();
    FillAll();
    ExpectNone({}, true);
  }
}

TEST_F(IteratorAllocationsTest, NoneWhileOthersLive) {
  Open();
  FillAll();
  EXPECT_EQ(Warm([this](int round) {
              const auto first = db_->NewIterator({});
              first->Seek(KeyOf(round));
              const auto second = db_->NewIterator({});
              second->SeekToFirst();
              Walk({}, round, false);
              ASSERT_TRUE(first->Valid());
              EXPECT_EQ(first->key(), Slice(KeyOf(round)));
            }),
            0u);
}

TEST_F(IteratorAllocationsTest, NoneForMultiGet) {
  Open();
  FillAll();
  std::vector<std::string> keys;
  for (int i = 0; i < 100; i++) keys.push_back(KeyOf(i * 17));
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<std::string> values(keys.size(), std::string(100, ' '));
  std::vector<Status> statuses(keys.size());
  for (const size_t count : {size_t{1}, size_t{10}, keys.size()}) {
    EXPECT_EQ(Warm([&](int) {
                db_->MultiGet({}, count, slices.data(), values.data(),
                              statuses.data());
              }),
              0u);
    ASSERT_TRUE(Ok(statuses[count - 1]));
  }
}

TEST_F(IteratorAllocationsTest, SomeEachTimeWhenNothingIsKept) {
  options_.experiment = NewExperiment({.arena = ArenaMode::kFresh});
  Open();
  FillAll();
  const uint64_t count =
      Warm([this](int) { db_->NewIterator({})->SeekToFirst(); });
  printf("arena=fresh: %.1f allocations an iterator\n",
         static_cast<double>(count) / kRounds);
  EXPECT_GE(count, 6u * kRounds);
}

}  // namespace
}  // namespace varve::test
