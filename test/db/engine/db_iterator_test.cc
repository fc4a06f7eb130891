// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: iterators and snapshots show the database at one moment, in order, in
// both directions, while it changes. Method: small databases with entries in
// memtables, level-0 tables and deeper levels; random walks compared with a
// std::map.

#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

class DbIteratorTest : public DbTestBase {
 protected:
  void SetUp() override { Open(); }

  // b, d, f in the last level; b overwritten and c, e deleted in level 0;
  // d deleted, g put in the memtable.
  void FillAllPlaces() {
    for (const char* key : {"b", "c", "d", "e", "f"}) Put(key, "bottom");
    Do("compact, put b level0, delete c, delete e, flush, delete d, "
       "put g memory");
  }
};

TEST_F(DbIteratorTest, IsNotValidBeforeASeek) {
  Put("a", "1");
  auto it = db_->NewIterator({});
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(Ok(it->status()));
}

TEST_F(DbIteratorTest, FindsNothingInAnEmptyDatabase) {
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first last seek: for_prev:z"), "end end end end");
}

TEST_F(DbIteratorTest, MergesAllPlacesInBothDirections) {
  FillAllPlaces();
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first next next next last prev prev prev"),
            "b=level0 f=bottom g=memory end g=memory f=bottom b=level0 end");
}

TEST_F(DbIteratorTest, SeeksSkipDeletedKeys) {
  FillAllPlaces();
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(),
                 "seek:c seek:g seek:g0 for_prev:e for_prev:f for_prev:zz "
                 "for_prev:a for_prev:"),
            "f=bottom g=memory end b=level0 f=bottom g=memory end end");
}

TEST_F(DbIteratorTest, ChangesDirectionAnywhere) {
  FillAllPlaces();
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "seek:f, prev next next prev prev, next last, next"),
            "b=level0 f=bottom g=memory f=bottom f=bottom end");
}

TEST_F(DbIteratorTest, StaysWithinBounds) {
  FillAllPlaces();
  const Slice lower("c"), upper("g");
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  auto it = db_->NewIterator(options);
  EXPECT_EQ(Walk(it.get(),
                 "first next last prev seek:a seek:z for_prev:z for_prev:b"),
            "f=bottom end f=bottom end f=bottom end f=bottom end");
}

TEST_F(DbIteratorTest, SeeksWithinBoundsAsTheyAreThen) {
  FillAllPlaces();
  Slice lower("c"), upper("g");
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  auto it = db_->NewIterator(options);
  it->SeekToFirst();
  EXPECT_EQ(At(*it), "f=bottom");
  lower = "a";
  upper = "f";
  EXPECT_EQ(Walk(it.get(), "last first next"), "b=level0 b=level0 end");
  lower = "f";
  upper = "z";
  EXPECT_EQ(Walk(it.get(), "seek:a next"), "f=bottom g=memory");
  upper = "g";
  EXPECT_EQ(Walk(it.get(), "for_prev:g prev"), "f=bottom end");
}

TEST_F(DbIteratorTest, EmptyAndCrossedBoundsHoldNothing) {
  FillAllPlaces();
  const Slice low("b"), high("g"), empty("");
  for (const auto& [lower, upper] :
       {std::pair(&low, &low), std::pair(&high, &low),
        std::pair(&empty, &empty)}) {
    ReadOptions options;
    options.iterate_lower_bound = lower;
    options.iterate_upper_bound = upper;
    auto it = db_->NewIterator(options);
    EXPECT_EQ(Walk(it.get(), "first last seek:f for_prev:f"),
              "end end end end");
  }
}

TEST_F(DbIteratorTest, ShowsTheMomentItWasMade) {
  Do("put a 1, put b 1, flush");
  auto it = db_->NewIterator({});
  Do("put a 2, delete b, put c 2");
  for (int i = 0; i < 3000; i++) Put(Key(i), std::string(100, 'x'));
  CompactAll();
  EXPECT_EQ(Walk(it.get(), "first next next"), "a=1 b=1 end");
}

TEST_F(DbIteratorTest, MovesOverManyDeletedEntries) {
  Put("a", "1");
  for (int i = 0; i < 20000; i++) Put(Key(i), "v");
  for (int i = 0; i < 20000; i++) Delete(Key(i));
  Put("z", "2");
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first, next prev"), "z=2 a=1");
}

// A step over a key of many versions is a few seeks, in both directions; with a
// snapshot, versions newer than it lie on the way, too.
TEST_F(DbIteratorTest, StepsOverManyVersionsAreSeeks) {
  if (TestAblation().waste == WasteMode::kAlways) {
    GTEST_SKIP() << "the walks begin where earlier ones ended";
  }
  options_.statistics = NewTestStatistics();
  options_.write_buffer_size = 16 << 20;
  Do("reopen, put a 1, put z 1");
  const Snapshot* snapshots[3];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2000; ++i) Put("k", std::to_string(round * 2000 + i));
    for (int i = 0; i < 2000; ++i) Delete("gone");
    snapshots[round] = db_->GetSnapshot();
    if (round == 1) Flush();
  }
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    ReadOptions read{.snapshot = snapshots[round]};
    const std::string k = "k=" + std::to_string(round * 2000 + 1999);
    const auto seeks = [this] {
      return options_.statistics->getTickerCount(Ticker::kNumberReseeks);
    };
    const uint64_t before = seeks();
    {
      const auto it = db_->NewIterator(read);
      it->SeekToLast();
      EXPECT_EQ(At(*it), "z=1");
      it->Prev();
      EXPECT_EQ(At(*it), k);
      it->Prev();
      EXPECT_EQ(At(*it), "a=1");
      it->Next();
      EXPECT_EQ(At(*it), k);
      it->Next();
      EXPECT_EQ(At(*it), "z=1");
      it->SeekForPrev("l");
      EXPECT_EQ(At(*it), k);
      it->Seek("k");
      EXPECT_EQ(At(*it), k);
      EXPECT_EQ(Walk(it.get(), "prev prev"), "a=1 end");
      EXPECT_TRUE(Ok(it->status()));
    }
    // Some structures pass the deletions of one key step by step.
    EXPECT_GE(seeks() - before, 4u);
    EXPECT_LE(seeks() - before, 20u);
    db_->ReleaseSnapshot(snapshots[round]);
  }
}

TEST_F(DbIteratorTest, RandomWalkFollowsTheModel) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  Rng rng(seed);
  ModelDb model;
  for (int i = 0; i < 4000; i++) {
    const std::string key = Key(rng.Between(0, 600));
    if (rng.OneIn(3)) {
      model.Delete(key);
      Delete(key);
    } else {
      model.Put(key, std::to_string(i) + std::string(rng.Below(300), 'x'));
      Put(key, *model.Find(key));
    }
    if (rng.OneIn(1500)) Flush();
  }
  const Entries& entries = model.entries();
  auto it = db_->NewIterator({});
  auto at = entries.end();
  for (int i = 0; i < 20000; i++) {
    const std::string target = Key(rng.Between(-2, 610));
    TakeRandomStep(rng.Next(), target, entries, it.get(), &at);
    ASSERT_EQ(At(*it), At(entries, at)) << "step " << i << " to " << target;
  }
}

TEST_F(DbIteratorTest, ReadOptionsDoNotChangeResults) {
  Entries expected;
  for (int i = 0; i < 5000; i++) {
    expected[Key(i)] = std::string(50, static_cast<char>('a' + i % 26));
    Put(Key(i), expected[Key(i)]);
  }
  Flush();
  ReadOptions options{.fill_cache = false};
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected), options));
  options.verify_checksums = false;
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected), options));
  options.readahead_size = 64 << 10;
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected), options));
}

class DbSnapshotTest : public DbIteratorTest {};

TEST_F(DbSnapshotTest, KeepsItsViewThroughOverwriteFlushAndCompaction) {
  std::vector<std::pair<const Snapshot*, Entries>> snapshots;
  ModelDb model;
  Rng rng(3);
  for (int round = 0; round < 12; round++) {
    for (int i = 0; i < 400; i++) {
      const std::string key = Key(rng.Between(0, 300));
      if (rng.OneIn(3)) {
        model.Delete(key);
        Delete(key);
      } else {
        model.Put(key, std::to_string(round) + rng.Bytes(40));
        Put(key, *model.Find(key));
      }
    }
    snapshots.emplace_back(db_->GetSnapshot(), model.entries());
    if (round % 3 == 0) Flush();
    if (round % 4 == 3) CompactAll();
  }
  EXPECT_EQ(Number("varve.num-snapshots"), snapshots.size());
  EXPECT_EQ(Number("varve.oldest-snapshot-sequence"),
            snapshots[0].first->GetSequenceNumber());
  // Released in mixed order; the rest must stay.
  for (size_t released : {5, 0, 11}) {
    db_->ReleaseSnapshot(snapshots[released].first);
    snapshots[released].first = nullptr;
    CompactAll();
    for (const auto& [snapshot, entries] : snapshots) {
      if (snapshot == nullptr) continue;
      ASSERT_TRUE(
          HasEntries(db_.get(), ToList(entries), {.snapshot = snapshot}))
          << "snapshot " << snapshot->GetSequenceNumber();
    }
  }
  for (const auto& [snapshot, entries] : snapshots) {
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
  }
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
}

TEST_F(DbSnapshotTest, OfAnEmptyDatabaseStaysEmpty) {
  const Snapshot* snapshot = db_->GetSnapshot();
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->GetSequenceNumber(), 0u);
  Do("put a 1, flush, compact");
  EXPECT_EQ(Get("a", snapshot), "NotFound");
  ReadOptions options{.snapshot = snapshot};
  EXPECT_TRUE(HasEntries(db_.get(), {}, options));
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(DbSnapshotTest, IteratorOutlivesTheSnapshotItWasMadeOf) {
  Put("a", "1");
  ReadOptions options{.snapshot = db_->GetSnapshot()};
  Delete("a");
  auto it = db_->NewIterator(options);
  db_->ReleaseSnapshot(options.snapshot);
  CompactAll();
  it->SeekToFirst();
  EXPECT_EQ(At(*it), "a=1");
}

}  // namespace
}  // namespace varve::test
