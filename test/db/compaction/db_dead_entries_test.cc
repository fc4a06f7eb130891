// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: deletions that hide nothing are dropped at the flush, no others are,
// and space of dead entries comes back in databases of any size and shape.
// Method: numbers of tables, their sizes, and all keys, after each step.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

// Whether the tests run with waste=ignored. Then nothing is dropped.
bool WasteIsIgnored() {
  const char* const ablation = getenv("VARVE_TEST_ABLATION");
  return ablation != nullptr &&
         std::string(ablation).find("waste=ignored") != std::string::npos;
}

class DbDeadEntriesTest : public DbTestBase {
 protected:
  DbDeadEntriesTest() {
    options_.compression = CompressionType::kNone;
    // All data fits in one memtable, and in level 0.
    options_.write_buffer_size = 16 << 20;
    options_.target_file_size_base = 64 << 20;
    options_.max_bytes_for_level_base = 256 << 20;
  }
  void SetUp() override {
    if (WasteIsIgnored()) GTEST_SKIP() << "waste is ignored";
  }
  void Fill(int count) {
    Rng rng(5);
    for (int i = 0; i < count; ++i) Put(Key(i), rng.Bytes(100));
  }
  // Deletes all keys except each tenth.
  void DeleteNineInTen(int count) {
    for (int i = 0; i < count; ++i) {
      if (i % 10 != 0) Delete(Key(i));
    }
  }
  uint64_t Bytes() { return Number("varve.live-sst-files-size"); }
  int CountEntries() {
    int count = 0;
    const auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++count;
    EXPECT_TRUE(Ok(it->status()));
    return count;
  }
  void FlushAndWait() {
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }
};

TEST_F(DbDeadEntriesTest, NothingIsLeftOfKeysThatLivedInMemory) {
  Open();
  Fill(100);
  for (int i = 0; i < 100; ++i) Delete(Key(i));
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "a", "z")));
  Flush();
  EXPECT_EQ(Tables(), 0u);
  Reopen();
  EXPECT_EQ(CountEntries(), 0);
}

TEST_F(DbDeadEntriesTest, DeletionsOutsideOfAllTablesAreDropped) {
  options_.disable_auto_compactions = true;
  Do("open, put c 1, put e 1, flush");
  for (const char* key : {"a", "b", "f", "g"}) Delete(key);
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "a", "c")));
  Flush();
  EXPECT_EQ(Tables(), 1u);
  // The table's range is all that counts.
  for (const char* key : {"c", "d", "e"}) {
    Delete(key);
    Flush();
  }
  EXPECT_EQ(Tables(), 4u);
  EXPECT_EQ(CountEntries(), 0);
  Reopen();
  EXPECT_EQ(CountEntries(), 0);
}

// Each level of tables counts.
TEST_F(DbDeadEntriesTest, DeletionsOverAnyLevelStay) {
  for (const int target : {0, 1, 3, 6}) {
    SCOPED_TRACE(target);
    options_.disable_auto_compactions = true;
    options_.level_compaction_dynamic_level_bytes = false;
    OpenAnew();
    Do("put b old, put d old, flush");
    if (target > 0) {
      ASSERT_TRUE(
          Ok(db_->CompactRange({.target_level = target}, nullptr, nullptr)));
      ASSERT_EQ(TablesAt(target), 1u);
    }
    Do("delete b, delete_range c e, delete x, flush");
    EXPECT_EQ(Tables(), 2u);
    EXPECT_EQ(CountEntries(), 0);
    CompactAll();
    EXPECT_EQ(Tables(), 0u);
  }
}

TEST_F(DbDeadEntriesTest, SnapshotsKeepDeletions) {
  Open();
  Put("a", "1");
  const Snapshot* const before = db_->GetSnapshot();
  Delete("a");
  const Snapshot* const after = db_->GetSnapshot();
  Flush();
  EXPECT_EQ(Get("a", before), "1");
  EXPECT_EQ(Get("a", after), "NotFound");
  EXPECT_EQ(Get("a"), "NotFound");
  db_->ReleaseSnapshot(before);
  Do("put a 2, delete a, flush");
  EXPECT_EQ(Get("a", after), "NotFound");
  EXPECT_EQ(CountEntries(), 0);
  db_->ReleaseSnapshot(after);
}

// A snapshot between a single deletion and a newer value.
TEST_F(DbDeadEntriesTest, SingleDeletionsGoAsWell) {
  Do("open, put a 1, single_delete a");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Do("put a 2, single_delete a, flush");
  EXPECT_EQ(Get("a", snapshot), "NotFound");
  EXPECT_EQ(Get("a"), "NotFound");
  db_->ReleaseSnapshot(snapshot);
  CompactAll();
  EXPECT_EQ(CountEntries(), 0);
}

// The table with the key moves to another level during the flush.
TEST_F(DbDeadEntriesTest, DeletionsStayWhileACompactionMovesTheirKeys) {
  class HoldsCompaction : public EventListener {
   public:
    void OnCompactionBegin(const CompactionJobInfo&) override {
      begun = true;
      while (hold) std::this_thread::yield();
    }
    std::atomic<bool> hold{true}, begun{false};
  };
  const auto listener = std::make_shared<HoldsCompaction>();
  options_.listeners.push_back(listener);
  Open();
  Fill(100);
  Flush();
  std::thread compaction([this] { CompactAll(); });
  while (!listener->begun) std::this_thread::yield();
  for (int i = 10; i < 90; ++i) Delete(Key(i));
  Flush();
  EXPECT_EQ(CountEntries(), 20);
  listener->hold = false;
  compaction.join();
  EXPECT_EQ(CountEntries(), 20);
  for (int i = 0; i < 100; ++i) Delete(Key(i));
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(CountEntries(), 0);
  Reopen();
  EXPECT_EQ(CountEntries(), 0);
}

// Recovery writes several tables before any of them is in a version.
TEST_F(DbDeadEntriesTest, RecoveryKeepsDeletionsOfItsEarlierTables) {
  Open();
  Fill(4000);
  for (int i = 0; i < 4000; ++i) Delete(Key(i));
  Close();
  options_.write_buffer_size = 64 << 10;
  options_.disable_auto_compactions = true;
  Open();
  EXPECT_GT(TablesAt(0), 3u);
  EXPECT_EQ(CountEntries(), 0);
  for (int i = 0; i < 4000; i += 100) ASSERT_EQ(Get(Key(i)), "NotFound");
}

// Fewer tables than a compaction of level 0 needs, and less than a table of
// data.
TEST_F(DbDeadEntriesTest, SpaceOfSmallDatabasesComesBack) {
  for (const int count : {2000, 20000}) {
    SCOPED_TRACE(count);
    OpenAnew();
    Fill(count);
    Flush();
    const uint64_t filled = Bytes();
    DeleteNineInTen(count);
    FlushAndWait();
    EXPECT_LT(Bytes(), filled * 13 / 100);
    EXPECT_EQ(CountEntries(), count / 10);
    EXPECT_EQ(Number("varve.compaction-pending"), 0u);
    for (int i = 0; i < count; ++i) Delete(Key(i));
    FlushAndWait();
    EXPECT_EQ(CountEntries(), 0);
    // Less than a compaction is worth may stay.
    EXPECT_LT(Bytes(), filled / 100 + (64 << 10));
  }
}

TEST_F(DbDeadEntriesTest, SpaceComesBackInSteps) {
  Open();
  Fill(20000);
  Flush();
  const uint64_t filled = Bytes();
  for (int step = 1; step < 10; ++step) {
    for (int i = step; i < 20000; i += 10) Delete(Key(i));
    FlushAndWait();
    const uint64_t live = filled * static_cast<uint64_t>(10 - step) / 10;
    EXPECT_LT(Bytes(), live * 13 / 10) << step;
  }
  EXPECT_EQ(CountEntries(), 2000);
}

// The counts of tables are known again when the database is opened.
TEST_F(DbDeadEntriesTest, SpaceComesBackAfterReopening) {
  for (const bool opens_all : {true, false}) {
    SCOPED_TRACE(opens_all);
    options_.paranoid_checks = opens_all;
    options_.disable_auto_compactions = true;
    OpenAnew();
    Fill(20000);
    Flush();
    const uint64_t filled = Bytes();
    DeleteNineInTen(20000);
    Flush();
    options_.disable_auto_compactions = false;
    Reopen();
    // The tables are opened by the first reads otherwise.
    EXPECT_EQ(CountEntries(), 2000);
    if (!opens_all) {
      Put("new", "1");
      Flush();
    }
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_LT(Bytes(), filled * 13 / 100);
  }
}

// Deletions in the log only.
TEST_F(DbDeadEntriesTest, SpaceComesBackAfterRecovery) {
  Open();
  Fill(20000);
  Flush();
  const uint64_t filled = Bytes();
  DeleteNineInTen(20000);
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_LT(Bytes(), filled * 13 / 100);
  EXPECT_EQ(CountEntries(), 2000);
}

// Entries that were kept for a snapshot, in the last level.
TEST_F(DbDeadEntriesTest, HiddenEntriesAreKnownAfterReopening) {
  options_.disable_auto_compactions = true;
  Open();
  Fill(4000);
  const Snapshot* const snapshot = db_->GetSnapshot();
  Fill(2000);
  CompactAll();
  const uint64_t kept = Bytes();
  db_->ReleaseSnapshot(snapshot);
  options_.disable_auto_compactions = false;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_LT(Bytes(), kept * 3 / 4);
  EXPECT_EQ(CountEntries(), 4000);
}

// A table that overlaps nothing is rewritten instead of moved.
TEST_F(DbDeadEntriesTest, AMoveCarriesNoDeadEntries) {
  options_.level0_file_num_compaction_trigger = 1;
  options_.disable_auto_compactions = true;
  Open();
  const Snapshot* const snapshot = db_->GetSnapshot();
  Fill(2000);
  const Snapshot* const second = db_->GetSnapshot();
  for (int i = 0; i < 1000; ++i) Delete(Key(i));
  Flush();
  const uint64_t kept = Bytes();
  db_->ReleaseSnapshot(snapshot);
  db_->ReleaseSnapshot(second);
  options_.disable_auto_compactions = false;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_LT(Bytes(), kept * 3 / 5);
  EXPECT_EQ(CountEntries(), 1000);
}

TEST_F(DbDeadEntriesTest, WaitForCompactWaitsForNoQuietTime) {
  Open();
  Fill(20000);
  Flush();
  DeleteNineInTen(20000);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Number("varve.num-deletes-active-mem-table"), 0u);
  EXPECT_LT(Bytes(), 2000u * 130);
  EXPECT_EQ(CountEntries(), 2000);
}

}  // namespace
}  // namespace varve::test
