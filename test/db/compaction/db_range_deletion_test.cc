// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a range deletion hides all keys of its range that are older, from
// every kind of read, wherever it and they lie, and goes when it has nothing
// more to hide. Method: cases by hand, each read in all ways by HasEntries;
// the random ones are in db_model_test and db_differential_test.

#include <string>

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/model_db.h"
#include "varve/statistics.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbRangeDeletionTest : public DbTestBase {
 protected:
  DbRangeDeletionTest() {
    options_.statistics = NewTestStatistics();
    options_.compression = CompressionType::kNone;
  }
  void Fill(int begin, int end, const std::string& value) {
    for (int i = begin; i < end; i++) Put(Key(i), value);
  }
  void ExpectKeys(const std::vector<int>& keys) {
    EntryList expected;
    for (const int key : keys) expected.emplace_back(Key(key), "v");
    EXPECT_TRUE(HasEntries(db_.get(), expected));
  }
  uint64_t Ticks(Ticker ticker) const {
    return options_.statistics->getTickerCount(ticker);
  }
  std::string Property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(db_->GetProperty("varve." + name, &value)) << name;
    return value;
  }
};

TEST_F(DbRangeDeletionTest, DeletesFromBeginToBeforeEnd) {
  Open();
  Fill(0, 6, "v");
  DeleteRange(Key(1), Key(4));
  ExpectKeys({0, 4, 5});
  Put(Key(2), "v");
  ExpectKeys({0, 2, 4, 5});
  Reopen();
  ExpectKeys({0, 2, 4, 5});
  Flush();
  ExpectKeys({0, 2, 4, 5});
  CompactAll();
  ExpectKeys({0, 2, 4, 5});
}

TEST_F(DbRangeDeletionTest, EmptyRangeDeletesNothingAndReversedIsRefused) {
  Open();
  Fill(0, 3, "v");
  const uint64_t sequence = db_->GetLatestSequenceNumber();
  DeleteRange(Key(1), Key(1));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), sequence);
  EXPECT_TRUE(db_->DeleteRange({}, Key(2), Key(1)).IsInvalidArgument());
  WriteBatch batch;
  batch.Put(Key(7), "v");
  batch.DeleteRange(Key(2), Key(1));
  EXPECT_TRUE(db_->Write({}, &batch).IsInvalidArgument());
  ExpectKeys({0, 1, 2});
  batch.Clear();
  batch.DeleteRange(Key(1), Key(1));
  EXPECT_TRUE(Ok(db_->Write({}, &batch)));
  ExpectKeys({0, 1, 2});
  Flush();
  ExpectKeys({0, 1, 2});
}

// The largest of the inputs' ends is the one that is part of its range.
TEST_F(DbRangeDeletionTest, InputsEndAtAKeyInclusivelyAndExclusively) {
  options_.disable_auto_compactions = true;
  Open();
  const auto compact = [this] {
    ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  };
  Put(Key(1), "old");
  Flush();
  compact();
  // A table of the deepest level begins at the common end of those that follow.
  Put(Key(5), "old");
  Put(Key(9), "v");
  Flush();
  compact();
  DeleteRange(Key(0), Key(5));
  Flush();
  Put(Key(2), "v");
  Put(Key(5), "v");
  Flush();
  compact();
  ExpectKeys({2, 5, 9});
  Reopen();
  ExpectKeys({2, 5, 9});
}

TEST_F(DbRangeDeletionTest, OrderInABatchCounts) {
  Open();
  WriteBatch batch;
  batch.Put(Key(0), "old");
  batch.Put(Key(1), "old");
  batch.DeleteRange(Key(0), Key(9));
  batch.Put(Key(1), "v");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ExpectKeys({1});
}

TEST_F(DbRangeDeletionTest, OrderIsTheComparators) {
  static const ReverseComparator comparator;
  options_.comparator = &comparator;
  Open();
  for (const char* key : {"a", "b", "c", "d"}) Put(key, "v");
  EXPECT_TRUE(db_->DeleteRange({}, "b", "c").IsInvalidArgument());
  DeleteRange("c", "a");
  const auto expect = [&] {
    EXPECT_EQ(Get("d"), "v");
    EXPECT_EQ(Get("c"), "NotFound");
    EXPECT_EQ(Get("b"), "NotFound");
    EXPECT_EQ(Get("a"), "v");
    EntryList found;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
    EXPECT_EQ(found, (EntryList{{"d", "v"}, {"a", "v"}}));
  };
  expect();
  Flush();
  expect();
  CompactAll();
  expect();
}

TEST_F(DbRangeDeletionTest, SnapshotsSeeEarlierUpdates) {
  Open();
  Fill(0, 4, "v");
  const Snapshot* before = db_->GetSnapshot();
  DeleteRange(Key(0), Key(3));
  const Snapshot* after = db_->GetSnapshot();
  Put(Key(1), "new");
  const EntryList all = {
      {Key(0), "v"}, {Key(1), "v"}, {Key(2), "v"}, {Key(3), "v"}};
  const auto expect = [&] {
    ReadOptions options{.snapshot = before};
    EXPECT_TRUE(HasEntries(db_.get(), all, options));
    options.snapshot = after;
    EXPECT_TRUE(HasEntries(db_.get(), {{Key(3), "v"}}, options));
    EXPECT_TRUE(HasEntries(db_.get(), {{Key(1), "new"}, {Key(3), "v"}}));
  };
  expect();
  Flush();
  expect();
  CompactAll();
  expect();
  db_->ReleaseSnapshot(before);
  db_->ReleaseSnapshot(after);
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), {{Key(1), "new"}, {Key(3), "v"}}));
}

TEST_F(DbRangeDeletionTest, IteratorKeepsItsMoment) {
  Open();
  Fill(0, 4, "v");
  const auto it = db_->NewIterator({});
  DeleteRange(Key(0), Key(9));
  Flush();
  int count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
  EXPECT_EQ(count, 4);
  ExpectKeys({});
}

TEST_F(DbRangeDeletionTest, MemtableWithNothingElseIsFlushed) {
  Open();
  Fill(0, 4, "v");
  CompactAll();
  DeleteRange(Key(1), Key(3));
  Flush();
  EXPECT_EQ(Property("num-files-at-level0"), "1");
  ExpectKeys({0, 3});
  Reopen();
  ExpectKeys({0, 3});
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  CompactAll();
  ExpectKeys({0, 3});
}

TEST_F(DbRangeDeletionTest, DeletionOfAllLeavesNoTable) {
  Open();
  Fill(0, 2000, std::string(100, 'v'));
  Flush();
  DeleteRange(Key(0), Key(5000));
  CompactAll();
  ExpectKeys({});
  EXPECT_EQ(Tables(), 0u);
}

TEST_F(DbRangeDeletionTest, FilterDoesNotHideADeletionOfAKeyThatIsElsewhere) {
  options_.filter_policy = NewBloomFilterPolicy(10);
  options_.disable_auto_compactions = true;
  Open();
  Fill(0, 4, "v");
  Flush();
  DeleteRange(Key(1), Key(3));
  Put(Key(9), "v");
  Flush();
  ExpectKeys({0, 3, 9});
}

TEST_F(DbRangeDeletionTest, ManyInOneMemtable) {
  Open();
  Fill(0, 3000, "v");
  std::vector<int> left;
  for (int i = 0; i < 3000; i++) {
    if (i % 3 == 0) {
      left.push_back(i);
    } else if (i % 3 == 1) {
      DeleteRange(Key(i), Key(i + 2));
    }
  }
  ExpectKeys(left);
  Reopen();
  ExpectKeys(left);
}

// A deletion longer than a table, kept by a snapshot, is cut at the tables'
// ends; none of them is then in charge of a key of its neighbour.
TEST_F(DbRangeDeletionTest, TablesThatShareADeletionStayApart) {
  options_.disable_auto_compactions = true;
  Open();
  const std::string value(1000, 'v');
  Fill(0, 1000, value);
  const Snapshot* snapshot = db_->GetSnapshot();
  DeleteRange(Key(0), Key(2000));
  CompactAll();
  EXPECT_GE(Tables(), 4u);
  ExpectKeys({});
  ReadOptions options{.snapshot = snapshot};
  EntryList all;
  for (int i = 0; i < 1000; i++) all.emplace_back(Key(i), value);
  EXPECT_TRUE(HasEntries(db_.get(), all, options));
  // A part of the level can be compacted without the rest.
  const uint64_t read_before = Ticks(Ticker::kCompactReadBytes);
  const Slice key(all[500].first);
  Put(all[500].first, value);
  ASSERT_TRUE(Ok(db_->CompactRange({}, &key, &key)));
  EXPECT_LT(Ticks(Ticker::kCompactReadBytes) - read_before, 300u << 10);
  EXPECT_TRUE(HasEntries(db_.get(), all, options));
  EXPECT_TRUE(HasEntries(db_.get(), {all[500]}));
  db_->ReleaseSnapshot(snapshot);
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {all[500]}));
  ASSERT_TRUE(Ok(
      db_->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr)));
  EXPECT_EQ(Tables(), 1u);
  EXPECT_TRUE(HasEntries(db_.get(), {all[500]}));
}

TEST_F(DbRangeDeletionTest, WalkOverADeletedRangeReadsLittleOfIt) {
  options_.disable_auto_compactions = true;
  Open();
  Fill(0, 4000, std::string(200, 'v'));
  CompactAll();
  DeleteRange(Key(1), Key(3999));
  Flush();
  const auto blocks = [this] {
    return Ticks(Ticker::kBlockCacheHit) + Ticks(Ticker::kBlockCacheMiss);
  };
  const auto it = db_->NewIterator({});
  const uint64_t before = blocks();
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  it->Next();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key().ToString(), Key(3999));
  it->Prev();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key().ToString(), Key(0));
  EXPECT_LT(blocks() - before, 20u);
}

TEST_F(DbRangeDeletionTest, IteratorOpensNoTableToLookForDeletions) {
  options_.disable_auto_compactions = true;
  options_.paranoid_checks = false;
  Open();
  Fill(0, 2000, std::string(500, 'v'));
  CompactAll();
  ASSERT_GE(Tables(), 4u);
  Reopen();
  const uint64_t before = Ticks(Ticker::kNoFileOpens);
  const auto it = db_->NewIterator({});
  it->Seek(Key(0));
  EXPECT_TRUE(it->Valid());
  EXPECT_EQ(Ticks(Ticker::kNoFileOpens) - before, 1u);
}

// If reading a table's deletions fails once, the table must not be read without
// them.
TEST_F(DbRangeDeletionTest, MisreadBringsNothingBack) {
  const auto memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv faulty(memory.get());
  options_.env = &faulty;
  options_.disable_auto_compactions = true;
  options_.paranoid_checks = false;
  options_.level_compaction_dynamic_level_bytes = false;
  path_ = "/db";
  for (const bool in_level0 : {true, false}) {
    SCOPED_TRACE(in_level0);
    Open();
    Fill(0, 5, "v");
    ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 6}, nullptr, nullptr)));
    DeleteRange(Key(0), Key(5));
    Put(Key(9), "v");
    Flush();
    if (!in_level0) {
      // On its way, not yet where it hides nothing any more.
      const Slice first = "~";
      Put("~", "v");
      ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 6}, &first, nullptr)));
    }
    for (int failing = 0; failing < 3; failing++) {
      SCOPED_TRACE(failing);
      Reopen();
      faulty.SetPathFilter(".sst");
      faulty.FailAfter(failing, Status::Corruption("misread"), kReadOperation);
      {
        const auto it = db_->NewIterator({});
        int old = 0;
        for (it->SeekToFirst(); it->Valid(); it->Next()) {
          old += it->key().compare(Key(5)) < 0;
        }
        EXPECT_EQ(old, 0);
        if (faulty.FailureCount() > 0) {
          EXPECT_TRUE(it->status().IsCorruption() || it->status().ok());
        }
      }
      faulty.ClearFailure();
      const auto it = db_->NewIterator({});
      it->SeekToFirst();
      ASSERT_TRUE(it->Valid());
      EXPECT_EQ(it->key(), Slice(Key(9)));
    }
    db_.reset();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  }
}

TEST_F(DbRangeDeletionTest, RepairKeepsThem) {
  options_.disable_auto_compactions = true;
  Open();
  Fill(0, 6, "v");
  Flush();
  DeleteRange(Key(1), Key(3));
  Flush();
  DeleteRange(Key(4), Key(5));
  Close();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  ExpectKeys({0, 3, 5});
  Put(Key(4), "v");
  ExpectKeys({0, 3, 4, 5});
}

TEST_F(DbRangeDeletionTest, ReadOnlyDatabaseRefusesThem) {
  Open();
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(db_->DeleteRange({}, "a", "b").IsNotSupported());
}

TEST_F(DbRangeDeletionTest, HandlerSeesThem) {
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "1");
  batch.DeleteRange("a", "b");
  EXPECT_EQ(batch.Count(), 3u);
  ModelDb model;
  ASSERT_TRUE(Ok(model.Write(batch)));
  EXPECT_EQ(ToList(model.entries()), (EntryList{{"b", "1"}}));
}

}  // namespace
}  // namespace varve::test
