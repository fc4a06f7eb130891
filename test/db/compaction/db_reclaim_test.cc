// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: if deletions hide much data, compactions reclaim its space without a
// request, at any level. They do not read tables that are hidden as a whole,
// and keep all data that a reader may see. Method: sizes of tables and bytes
// read by compactions, before and after. db_model_test has random deletions.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

constexpr int kCount = 4000;

class DbReclaimTest : public DbTestBase {
 protected:
  DbReclaimTest() {
    options_.statistics = NewTestStatistics();
    options_.compression = CompressionType::kNone;
    options_.target_file_size_base = 64 << 10;
  }
  void DeleteRange(int begin, int end) {
    ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(begin), Key(end))));
  }
  // Some 470 KB in the last level.
  void Fill() {
    Open();
    Rng rng(5);
    for (int i = 0; i < kCount; i++) Put(Key(i), rng.Bytes(100));
    CompactAll();
    filled_bytes_ = Bytes();
    ASSERT_GE(filled_bytes_, 400000u);
  }
  void FlushAndWait() {
    read_before_ = BytesRead();
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_EQ(Number("varve.compaction-pending"), 0u);
  }
  uint64_t Bytes() { return Number("varve.live-sst-files-size"); }
  uint64_t BytesRead() {
    return options_.statistics->getTickerCount(Ticker::kCompactReadBytes);
  }
  uint64_t BytesReadSince() { return BytesRead() - read_before_; }
  void ExpectAbsent(int begin, int end) {
    for (int i = begin; i < end; i++) ASSERT_EQ(Get(Key(i)), "NotFound") << i;
  }
  int CountEntries(const ReadOptions& options = {}) {
    int count = 0;
    const auto it = db_->NewIterator(options);
    for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
    EXPECT_TRUE(Ok(it->status()));
    return count;
  }

  uint64_t filled_bytes_ = 0;
  uint64_t read_before_ = 0;
};

TEST_F(DbReclaimTest, RangeDeletionOfEverything) {
  Fill();
  DeleteRange(0, kCount);
  FlushAndWait();
  EXPECT_EQ(Tables(), 0u);
  EXPECT_LT(BytesReadSince(), 5000u) << "only the range deletion";
  ExpectAbsent(0, kCount);
}

TEST_F(DbReclaimTest, RangeDeletionOfAPart) {
  Fill();
  DeleteRange(kCount / 4, kCount / 2);
  FlushAndWait();
  EXPECT_LT(Bytes(), filled_bytes_ * 4 / 5);
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_LT(BytesReadSince(), filled_bytes_ / 3) << "the tables at its ends";
  Reopen();
  EXPECT_EQ(CountEntries(), kCount * 3 / 4);
  ExpectAbsent(kCount / 4, kCount / 2);
}

TEST_F(DbReclaimTest, ManySmallRanges) {
  Fill();
  for (int i = 0; i + 10 <= kCount; i += 10) DeleteRange(i, i + 8);
  FlushAndWait();
  EXPECT_LT(Bytes(), filled_bytes_ / 4);
  EXPECT_EQ(CountEntries(), kCount / 5);
}

TEST_F(DbReclaimTest, SingleDeletions) {
  Fill();
  for (int i = 0; i < kCount; i += 2) Delete(Key(i));
  FlushAndWait();
  EXPECT_LT(Bytes(), filled_bytes_ * 3 / 5);
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(CountEntries(), kCount / 2);
}

// Where much would have to be rewritten for little, nothing is done.
TEST_F(DbReclaimTest, LittleIsLeftWhereItIs) {
  Fill();
  Put(Key(0), "first");
  DeleteRange(kCount / 2, kCount * 6 / 10);
  Put(Key(kCount - 1), "last");
  FlushAndWait();
  EXPECT_EQ(TablesAt(0), 1u);
  EXPECT_EQ(BytesReadSince(), 0u);
  ExpectAbsent(kCount / 2, kCount * 6 / 10);

  // Less than a quarter of a table, and less than a fifth of what is in the
  // way.
  CompactAll();
  DeleteRange(0, 100);
  FlushAndWait();
  EXPECT_EQ(TablesAt(0), 1u);
}

TEST_F(DbReclaimTest, ThroughAllLevels) {
  options_.level_compaction_dynamic_level_bytes = false;
  options_.max_bytes_for_level_base = 64 << 10;
  options_.max_bytes_for_level_multiplier = 2;
  options_.write_buffer_size = 64 << 10;
  Open();
  Rng rng(9);
  for (int i = 0; i < 10 * kCount; i++) {
    Put(Key(rng.Between(0, kCount)), rng.Bytes(100));
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  int levels = 0;
  for (int level = 1; level < 7; level++) levels += TablesAt(level) > 0;
  ASSERT_GE(levels, 3);
  DeleteRange(0, kCount + 1);
  Put(Key(7), "new");
  FlushAndWait();
  EXPECT_LT(Bytes(), 5000u);
  EXPECT_EQ(CountEntries(), 1);
  EXPECT_EQ(Get(Key(7)), "new");
}

// RocksDB keeps the estimate for range deletions in the MANIFEST as well.
TEST_F(DbReclaimTest, IsKnownAfterReopening) {
  Fill();
  options_.disable_auto_compactions = true;
  Reopen();
  DeleteRange(0, kCount);
  Flush();
  EXPECT_EQ(TablesAt(0), 1u);
  options_.disable_auto_compactions = false;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Tables(), 0u);
}

// A deletion that is only in the log when the database is opened.
TEST_F(DbReclaimTest, IsEstimatedInRecovery) {
  Fill();
  DeleteRange(0, kCount);
  Close();
  Open();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Tables(), 0u);
}

TEST_F(DbReclaimTest, SnapshotsKeepTheirVersions) {
  Fill();
  const Snapshot* const before = db_->GetSnapshot();
  DeleteRange(0, kCount);
  FlushAndWait();
  EXPECT_GE(Bytes(), filled_bytes_);
  CompactAll();
  ReadOptions as_of{.snapshot = before};
  EXPECT_EQ(CountEntries(as_of), kCount);
  EXPECT_EQ(CountEntries(), 0);
  // A snapshot that sees the deletion keeps nothing that it hides.
  const Snapshot* const after = db_->GetSnapshot();
  db_->ReleaseSnapshot(before);
  Put("another", "write");
  FlushAndWait();
  EXPECT_LT(Bytes(), 5000u);
  as_of.snapshot = after;
  EXPECT_EQ(CountEntries(as_of), 0);
  db_->ReleaseSnapshot(after);
}

// A snapshot before the data, or after the deletion, needs no hidden data.
TEST_F(DbReclaimTest, TablesAreSkippedBesideOtherSnapshots) {
  options_.disable_auto_compactions = true;
  Open();
  Put("a", "1");
  const Snapshot* const early = db_->GetSnapshot();
  Rng rng(5);
  for (int i = 0; i < kCount; i++) Put(Key(i), rng.Bytes(100));
  CompactAll();
  DeleteRange(0, kCount);
  const Snapshot* const late = db_->GetSnapshot();
  Put("z", "1");
  read_before_ = BytesRead();
  CompactAll();
  EXPECT_LT(BytesReadSince(), 100000u) << "the table with \"a\"";
  for (const Snapshot* const snapshot : {early, late}) {
    EXPECT_EQ(CountEntries({.snapshot = snapshot}), 1);
    db_->ReleaseSnapshot(snapshot);
  }
  EXPECT_EQ(CountEntries(), 2);
}

// Only tables inside the deleted range are skipped.
TEST_F(DbReclaimTest, OnlyTablesThatAreHiddenWhollyAreSkipped) {
  struct Case {
    std::vector<std::pair<int, int>> ranges;
    bool skipped;
    int left;
  };
  const Case cases[] = {
      {{{0, 100}}, true, 0},           {{{0, 99}}, false, 1},
      {{{1, 100}}, false, 1},          {{{0, 50}, {50, 100}}, true, 0},
      {{{0, 60}, {40, 100}}, true, 0}, {{{0, 50}, {51, 100}}, false, 1},
      {{{0, 200}}, true, 0},
  };
  options_.disable_auto_compactions = true;
  options_.level_compaction_dynamic_level_bytes = false;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.left);
    OpenAnew();
    Rng rng(5);
    for (int i = 0; i < 100; i++) Put(Key(i), rng.Bytes(300));
    CompactAll();
    ASSERT_EQ(Tables(), 1u);
    for (const auto& [begin, end] : c.ranges) DeleteRange(begin, end);
    read_before_ = BytesRead();
    CompactAll();
    EXPECT_EQ(BytesReadSince() < 10000, c.skipped);
    EXPECT_EQ(CountEntries(), c.left);
  }
}

// An entry newer than the deletion may be in the same table.
TEST_F(DbReclaimTest, NewerEntriesStay) {
  options_.disable_auto_compactions = true;
  Open();
  for (int i = 0; i < 100; i++) Put(Key(i), "old");
  CompactAll();
  DeleteRange(0, 100);
  Flush();
  Put(Key(50), "new");
  Flush();
  CompactAll();
  EXPECT_EQ(CountEntries(), 1);
  EXPECT_EQ(Get(Key(50)), "new");
}

TEST_F(DbReclaimTest, LevelZeroCountsAsAWhole) {
  options_.target_file_size_base = 16 << 10;
  Fill();
  // Small, but wide: it takes all tables below with it.
  for (int i = 0; i < kCount; i += 400) Put(Key(i), "x");
  FlushAndWait();
  DeleteRange(1000, 1000 + kCount / 20);
  FlushAndWait();
  EXPECT_EQ(BytesReadSince(), 0u) << "to free a twentieth of it";
  // All of level 0 is looked at, so its parts count together.
  for (int i = 0; i < 3; ++i) {
    DeleteRange(i * kCount / 4, (i + 1) * kCount / 4);
    FlushAndWait();
  }
  EXPECT_LT(Bytes(), filled_bytes_ * 2 / 5);
}

// Deletions of keys that do not exist: only a compaction shows that.
TEST_F(DbReclaimTest, VainDeletionsDoNotRewriteTheDatabaseAgainAndAgain) {
  options_.level0_file_num_compaction_trigger = 100;
  Fill();
  const uint64_t before = BytesRead();
  uint64_t flushed = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kCount / 2; ++i) {
      ASSERT_TRUE(Ok(db_->Delete({}, Key(i * 2) + std::to_string(round))));
    }
    FlushAndWait();
    flushed += kCount / 2 * Key(0).size();
  }
  // One rewriting for as many bytes as were flushed, and up to two more of jobs
  // that begin before the others' result is known. It would be eight of them.
  EXPECT_LT(BytesRead() - before, 4 * (filled_bytes_ + flushed));
  EXPECT_EQ(CountEntries(), kCount);
  // Deletions of existing keys become worth a compaction.
  for (int i = 0; i < kCount; i++) {
    ASSERT_TRUE(Ok(db_->Delete({}, Key(i))));
  }
  FlushAndWait();
  for (int i = 0; i < kCount; i++) Put("z" + Key(i), std::string(200, 'x'));
  FlushAndWait();
  ExpectAbsent(0, kCount);
}

// Tables in between, whose compaction frees nothing, must be rewritten first.
TEST_F(DbReclaimTest, LiveKeysBetweenAreNotInTheWay) {
  options_.level_compaction_dynamic_level_bytes = false;
  options_.target_file_size_base = 16 << 10;
  options_.max_bytes_for_level_base = 8 << 20;
  Open();
  Rng rng(7);
  for (int i = 0; i < kCount; ++i) Put(Key(i) + "old", rng.Bytes(100));
  ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 2}, nullptr, nullptr)));
  for (int i = 0; i < kCount; ++i) Put(Key(i), rng.Bytes(50));
  FlushAndWait();
  ASSERT_GT(TablesAt(1), 2u);
  ASSERT_GT(TablesAt(2), 5u);
  const uint64_t before = Bytes();
  for (int i = 0; i < kCount; ++i) Delete(Key(i) + "old");
  FlushAndWait();
  EXPECT_LT(Bytes(), before / 2);
  EXPECT_EQ(CountEntries(), kCount);
}

// With so many ranges, the estimate does not look at each.
TEST_F(DbReclaimTest, OneWideRangeAmongManyNarrowOnes) {
  options_.target_file_size_base = 16 << 10;
  for (const int narrow : {255, 256, 257, 258, 600}) {
    SCOPED_TRACE(narrow);
    OpenAnew();
    Fill();
    for (int i = 0; i < narrow; ++i) DeleteRange(2 * i, 2 * i + 1);
    DeleteRange(2 * narrow + 10, kCount);
    FlushAndWait();
    EXPECT_LT(Bytes(), filled_bytes_ * (2 * narrow + 200) / kCount);
    EXPECT_EQ(CountEntries(), narrow + 10);
  }
}

TEST_F(DbReclaimTest, RangesOfOneKeyEach) {
  options_.block_size = 16 << 10;  // Few of them are of two blocks.
  Fill();
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(i), Key(i) + '\xff')));
  }
  FlushAndWait();
  EXPECT_LT(Bytes(), filled_bytes_ / 10);
  EXPECT_EQ(CountEntries(), 0);
}

TEST_F(DbReclaimTest, PartsAreCutFromTheDataRead) {
  options_.max_subcompactions = 4;
  options_.target_file_size_base = 16 << 10;
  options_.paranoid_checks = false;  // Which opens all tables.
  Fill();
  Reopen();
  const uint64_t opens =
      options_.statistics->getTickerCount(Ticker::kNoFileOpens);
  DeleteRange(0, kCount);
  FlushAndWait();
  EXPECT_EQ(Tables(), 0u);
  EXPECT_LT(options_.statistics->getTickerCount(Ticker::kNoFileOpens) - opens,
            10u);
}

TEST_F(DbReclaimTest, WaitForCompactSeesThatASnapshotIsReleased) {
  // Holds the purge that WaitForCompact waits for.
  class HoldsDeletions : public EventListener {
   public:
    void OnTableFileDeleted(const TableFileInfo&) override {
      while (hold) {
        held = true;
        std::this_thread::yield();
      }
    }
    std::atomic<bool> hold{false}, held{false};
  };
  const auto listener = std::make_shared<HoldsDeletions>();
  options_.listeners.push_back(listener);
  Open();
  for (int i = 0; i < kCount; i++) Put(Key(i), std::string(100, 'x'));
  Flush();
  auto keeps_a_table = db_->NewIterator({});
  keeps_a_table->SeekToFirst();
  CompactAll();
  const Snapshot* const snapshot = db_->GetSnapshot();
  DeleteRange(0, kCount);
  FlushAndWait();
  listener->hold = true;
  keeps_a_table.reset();
  while (!listener->held) std::this_thread::yield();
  std::thread waiter([&] { EXPECT_TRUE(Ok(db_->WaitForCompact())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  db_->ReleaseSnapshot(snapshot);
  listener->hold = false;
  waiter.join();
  EXPECT_EQ(Tables(), 0u);
}

}  // namespace
}  // namespace varve::test
