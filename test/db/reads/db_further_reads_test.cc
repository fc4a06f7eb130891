// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: reads with a limit read no more than it allows, and say so; without
// one, they find what a plain read finds. Method: small databases with entries
// in memtables and tables, closed and opened again to empty the memory, and a
// clock that the test moves.

#include <atomic>

#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

// Its clock shows what the test says, and moves by a step with each reading.
class SteppingEnv final : public EnvWrapper {
 public:
  SteppingEnv() : EnvWrapper(Env::Default()) {}
  uint64_t NowMicros() override { return now_us += step_us; }

  std::atomic<uint64_t> now_us{1000};
  std::atomic<uint64_t> step_us{0};
};

class DbFurtherReadsTest : public DbTestBase {
 protected:
  DbFurtherReadsTest() {
    options_.env = &env_;
    options_.merge_operator = NewStringAppendOperator();
  }
  void SetUp() override { Open(); }

  ReadOptions InMemory() {
    return ReadOptions{.read_tier = ReadTier::kBlockCacheTier};
  }
  // Returns "yes", "no", or the value.
  std::string MayExist(const std::string& key, DB* db = nullptr) {
    std::string value;
    bool found = true;
    if (db == nullptr) db = db_.get();
    const bool may = db->KeyMayExist({}, nullptr, key, &value, &found);
    EXPECT_TRUE(may || !found);
    return found ? value : may ? "yes" : "no";
  }
  // Returns the operands with spaces between, or the status.
  std::string Operands(const std::string& key, int expected = 9) {
    PinnableSlice operands[9];
    GetMergeOperandsOptions limits{.expected_max_number_of_operands = expected};
    int count = -1;
    const Status status =
        db_->GetMergeOperands({}, nullptr, key, operands, &limits, &count);
    if (status.IsNotFound()) return "none";
    if (!status.ok()) {
      return (status.IsIncomplete() ? "incomplete " : "error ") +
             std::to_string(count);
    }
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += (i > 0 ? " " : "") + operands[i].ToString();
    }
    return text;
  }

  SteppingEnv env_;
};

TEST_F(DbFurtherReadsTest, KeyMayExistFindsTheMemtable) {
  Do("put a 1, put b 2, delete b, merge c 3");
  EXPECT_EQ(MayExist("a"), "1");
  EXPECT_EQ(MayExist("b"), "no");
  EXPECT_EQ(MayExist("c"), "3");
  EXPECT_EQ(MayExist("d"), "no");
  EXPECT_TRUE(db_->KeyMayExist({}, nullptr, "a", nullptr));
  EXPECT_FALSE(db_->KeyMayExist({}, nullptr, "d", nullptr));
}

TEST_F(DbFurtherReadsTest, KeyMayExistReadsNoFile) {
  Do("put a 1, put c 2, merge d 3, flush, reopen");
  EXPECT_EQ(MayExist("a"), "yes");
  EXPECT_EQ(MayExist("b"), "yes");  // Between the table's keys.
  EXPECT_EQ(MayExist("d"), "yes");
  EXPECT_EQ(MayExist("e"), "no");
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(MayExist("a"), "1");
  EXPECT_EQ(MayExist("b"), "no");
  EXPECT_EQ(MayExist("d"), "3");
}

TEST_F(DbFurtherReadsTest, KeyMayExistAtASnapshot) {
  Do("put a 1, snap, delete a, delete_range b c");
  std::string value;
  bool found = false;
  const ReadOptions before{.snapshot = snapshots_[0]};
  EXPECT_TRUE(db_->KeyMayExist(before, nullptr, "a", &value, &found));
  EXPECT_TRUE(found);
  EXPECT_EQ(value, "1");
  EXPECT_EQ(MayExist("a"), "no");
  EXPECT_EQ(MayExist("b"), "no");
  ReleaseSnapshots();
}

TEST_F(DbFurtherReadsTest, KeyMayExistOfFoldedKeys) {
  Close();
  options_.key_case = KeyCase::kInsensitive;
  path_ = dir_.Sub("folded");
  Open();
  Put("Key", "1");
  EXPECT_EQ(MayExist("kEY"), "1");
  EXPECT_EQ(MayExist("other"), "no");
  EXPECT_EQ(MayExist("\xff"), "no");
  Merge("KEY", "2");
  EXPECT_EQ(Operands("key"), "1 2");
  EXPECT_EQ(Operands("\xff"), "error 0");
}

TEST_F(DbFurtherReadsTest, ReadsOfMemoryAloneAreIncomplete) {
  Do("put a 1, put c 3, flush, reopen, put b 2");
  std::string value;
  EXPECT_TRUE(db_->Get(InMemory(), "a", &value).IsIncomplete());
  EXPECT_TRUE(Ok(db_->Get(InMemory(), "b", &value)));
  const Slice keys[] = {"a", "b", "c"};
  std::string values[3];
  Status statuses[3];
  db_->MultiGet(InMemory(), 3, keys, values, statuses);
  EXPECT_TRUE(statuses[0].IsIncomplete());
  EXPECT_TRUE(Ok(statuses[1]));
  EXPECT_TRUE(statuses[2].IsIncomplete());
  auto nothing = db_->NewIterator(InMemory());
  nothing->SeekToFirst();
  EXPECT_TRUE(nothing->status().IsIncomplete());
  // All that has been read can be read again.
  auto all = db_->NewIterator({});
  EXPECT_EQ(Walk(all.get(), "first next next next"), "a=1 b=2 c=3 end");
  auto it = db_->NewIterator(InMemory());
  EXPECT_EQ(Walk(it.get(), "first next next next last"), "a=1 b=2 c=3 end c=3");
  db_->MultiGet(InMemory(), 3, keys, values, statuses);
  for (const Status& status : statuses) EXPECT_TRUE(Ok(status));
}

TEST_F(DbFurtherReadsTest, AnIteratorOfMemoryStopsAtABlockThatIsNotThere) {
  const std::string filler(options_.block_size, 'x');
  for (int i = 0; i < 20; ++i) Put(Key(i), filler);
  Do("flush, reopen");
  EXPECT_EQ(Get(Key(3)), filler);  // Also opens the table.
  auto it = db_->NewIterator(InMemory());
  it->Seek(Key(3));
  ASSERT_TRUE(Ok(it->status()));
  ASSERT_TRUE(it->Valid());
  it->Next();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsIncomplete());
  it->Seek(Key(3));
  EXPECT_TRUE(it->Valid());
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(DbFurtherReadsTest, ASeekOfMemoryInManyTables) {
  Do("put a 1, put e 5, compact, delete_range x y, put b 2, flush, "
     "put c 3, flush, reopen");
  for (const char* key : {"a", "b"}) EXPECT_NE(Get(key), "NOT_FOUND");
  auto it = db_->NewIterator(InMemory());
  for (int i = 0; i < 2; ++i) {
    it->Seek("b");
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(it->status().IsIncomplete());
  }
  EXPECT_EQ(Get("c"), "3");
  it = db_->NewIterator(InMemory());
  EXPECT_EQ(Walk(it.get(), "seek:b next next next for_prev:c seek:d"),
            "b=2 c=3 e=5 end c=3 e=5");
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(DbFurtherReadsTest, PersistedReadsLeaveOutUpdatesWithoutLog) {
  const ReadOptions persisted{.read_tier = ReadTier::kPersistedTier};
  const WriteOptions no_log{.disable_wal = true};
  const auto get = [&](const std::string& key) {
    std::string value;
    const Status status = db_->Get(persisted, key, &value);
    const Slice keys[] = {key};
    std::string values[1];
    Status statuses[1];
    db_->MultiGet(persisted, 1, keys, values, statuses);
    EXPECT_EQ(statuses[0].ToString(), status.ToString());
    EXPECT_EQ(values[0], value);
    return status.ok() ? value : status.IsNotFound() ? "none" : "error";
  };
  Do("put a 1, put d 1, flush, put a 2, merge m 1");
  EXPECT_EQ(get("a"), "2");  // In the log.
  EXPECT_EQ(get("m"), "1");
  ASSERT_TRUE(Ok(db_->Put(no_log, "a", "3")));
  ASSERT_TRUE(Ok(db_->Delete(no_log, "d")));
  ASSERT_TRUE(Ok(db_->Put(no_log, "b", "3")));
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(get("b"), "none");
  EXPECT_EQ(get("d"), "1");
  EXPECT_EQ(Get("a"), "3");
  Flush();
  EXPECT_EQ(get("a"), "3");
  EXPECT_EQ(get("b"), "3");
  EXPECT_EQ(get("d"), "none");
  EXPECT_TRUE(db_->NewIterator(persisted)->status().IsNotSupported());
}

TEST_F(DbFurtherReadsTest, TheDeadlineIsCheckedBeforeAFileIsRead) {
  Do("put a 1, flush, reopen, put b 2");
  ReadOptions late{.deadline = env_.now_us};
  std::string value;
  EXPECT_TRUE(db_->Get(late, "a", &value).IsTimedOut());
  EXPECT_TRUE(Ok(db_->Get(late, "b", &value)));
  auto it = db_->NewIterator(late);
  it->SeekToFirst();
  EXPECT_TRUE(it->status().IsTimedOut());
  const Slice keys[] = {"a", "b"};
  std::string values[2];
  Status statuses[2];
  db_->MultiGet(late, 2, keys, values, statuses);
  EXPECT_TRUE(statuses[0].IsTimedOut());
  EXPECT_TRUE(Ok(statuses[1]));
  late.deadline = env_.now_us + 1;
  EXPECT_TRUE(Ok(db_->Get(late, "a", &value)));
  // From now on in memory.
  env_.now_us += 10;
  EXPECT_TRUE(Ok(db_->Get(late, "a", &value)));
}

TEST_F(DbFurtherReadsTest, AnIteratorEndsAtItsDeadline) {
  const std::string filler(options_.block_size, 'x');
  for (int i = 0; i < 20; ++i) Put(Key(i), filler);
  Do("flush, reopen");
  const ReadOptions late{.deadline = env_.now_us + 5};
  auto it = db_->NewIterator(late);
  ASSERT_TRUE(Ok(it->status()));
  env_.step_us = 1;
  int seen = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++seen;
  EXPECT_TRUE(it->status().IsTimedOut());
  EXPECT_LT(seen, 20);
}

TEST_F(DbFurtherReadsTest, ManyHiddenEntriesEndAnIterator) {
  for (const char* key : {"a", "b", "c", "d", "e"}) Put(key, "1");
  Do("flush, delete b, delete c");
  // Passes the deletions, and what they delete.
  const auto walk = [&](uint64_t limit, const std::string& steps) {
    const ReadOptions options{.max_skippable_internal_keys = limit};
    auto it = db_->NewIterator(options);
    std::string text = Walk(it.get(), steps);
    return it->status().IsIncomplete() ? "incomplete" : text;
  };
  EXPECT_EQ(walk(4, "first next next"), "a=1 d=1 e=1");
  EXPECT_EQ(walk(3, "first next"), "incomplete");
  EXPECT_EQ(walk(3, "first next, first"), "a=1 a=1");
  EXPECT_EQ(walk(4, "seek:b"), "d=1");
  EXPECT_EQ(walk(3, "seek:b"), "incomplete");
  EXPECT_EQ(walk(9, "last prev prev"), "e=1 d=1 a=1");
  EXPECT_EQ(walk(2, "last prev prev"), "incomplete");
}

TEST_F(DbFurtherReadsTest, MergeOperandsAreNotHiddenEntries) {
  for (int i = 0; i < 20; ++i) Merge("a", std::to_string(i % 10));
  Put("b", "1");
  const ReadOptions options{.max_skippable_internal_keys = 3};
  auto it = db_->NewIterator(options);
  it->SeekToFirst();
  ASSERT_TRUE(Ok(it->status()));
  ASSERT_TRUE(it->Valid());
  it->Next();
  EXPECT_EQ(At(*it), "b=1");
}

TEST_F(DbFurtherReadsTest, MergeOperandsInTheOrderOfTheirWrites) {
  Do("put a 1, flush, merge a 2, flush, merge a 3, put b 1, merge c 1, "
     "delete d, merge d 4, put e 1, delete_range e f");
  EXPECT_EQ(Operands("a"), "1 2 3");
  EXPECT_EQ(Operands("a", 3), "1 2 3");
  EXPECT_EQ(Operands("a", 2), "incomplete 3");
  EXPECT_EQ(Operands("a", 0), "incomplete 3");
  EXPECT_EQ(Operands("b"), "1");
  EXPECT_EQ(Operands("c"), "1");
  EXPECT_EQ(Operands("d"), "4");
  EXPECT_EQ(Operands("e"), "none");
  EXPECT_EQ(Operands("x"), "none");
}

TEST_F(DbFurtherReadsTest, RefreshShowsThePresent) {
  Do("put a 1, flush, put b 2");
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first next next"), "a=1 b=2 end");
  Do("put c 3, delete a");
  EXPECT_EQ(Walk(it.get(), "first next next"), "a=1 b=2 end");
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(Walk(it.get(), "first next next"), "b=2 c=3 end");
  Do("flush, put d 4, compact");
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "last prev prev prev"), "d=4 c=3 b=2 end");
  Do("delete_range b d");
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "first next"), "d=4 end");
  Do("put b 5");
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "first next next"), "b=5 d=4 end");
}

TEST_F(DbFurtherReadsTest, RefreshShowsASnapshot) {
  Do("put a 1, snap, put a 2, put b 2");
  Slice upper("b");
  auto it = db_->NewIterator({.iterate_upper_bound = &upper});
  EXPECT_EQ(Walk(it.get(), "first next"), "a=2 end");
  ASSERT_TRUE(Ok(it->Refresh(snapshots_[0])));
  EXPECT_EQ(Walk(it.get(), "first next"), "a=1 end");
  upper = "c";
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "first next next"), "a=2 b=2 end");
  ReleaseSnapshots();
}

TEST_F(DbFurtherReadsTest, ATailingIteratorSeesNewUpdates) {
  Put("a", "1");
  const ReadOptions options{.tailing = true};
  auto it = db_->NewIterator(options);
  EXPECT_EQ(Walk(it.get(), "first next"), "a=1 end");
  Do("put b 2");
  EXPECT_EQ(Walk(it.get(), "seek:b"), "b=2");
  Do("put c 3, flush, delete b");
  EXPECT_EQ(Walk(it.get(), "next next"), "c=3 end");
  Do("delete_range a z, put a 7, compact");
  EXPECT_EQ(Walk(it.get(), "last prev"), "a=7 end");
}

// Iterators of many options, refreshed at random, show what a new one shows.
TEST_F(DbFurtherReadsTest, RefreshedIteratorsAreAsNewOnes) {
  Rng random(TestSeed());
  std::vector<std::unique_ptr<Iterator>> iterators;
  const auto create = [&] {
    ReadOptions options;
    options.fill_cache = random.OneIn(2);
    options.tailing = random.OneIn(4);
    if (random.OneIn(4)) options.max_skippable_internal_keys = 1000000;
    return db_->NewIterator(options);
  };
  for (int i = 0; i < 4; ++i) iterators.push_back(create());
  for (int step = 0; step < 400; ++step) {
    const std::string key = Key(static_cast<int>(random.Below(50)));
    switch (random.Below(12)) {
      case 0:
        DeleteRange(key, Key(static_cast<int>(random.Below(50)) + 50));
        break;
      case 1:
        Flush();
        break;
      case 2:
        if (random.OneIn(4)) CompactAll();
        break;
      case 3:
      case 4:
        Delete(key);
        break;
      case 5:
        Merge(key, std::to_string(step));
        break;
      default:
        Put(key, std::to_string(step));
    }
    std::unique_ptr<Iterator>& it = iterators[random.Below(4)];
    if (random.OneIn(10)) it = create();
    if (!random.OneIn(2)) continue;
    ASSERT_TRUE(Ok(it->Refresh()));
    auto fresh = db_->NewIterator({});
    for (fresh->SeekToFirst(), it->SeekToFirst(); fresh->Valid();
         fresh->Next(), it->Next()) {
      ASSERT_EQ(At(*it), At(*fresh)) << "step " << step;
    }
    ASSERT_EQ(At(*it), "end");
    fresh->SeekForPrev(key);
    it->SeekForPrev(key);
    ASSERT_EQ(At(*it), At(*fresh));
  }
}

}  // namespace
}  // namespace varve::test
