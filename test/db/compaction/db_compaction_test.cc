// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: flushes and compactions move data through the levels, drop versions
// that no reader can see, and remove their inputs. Method: tiny levels,
// properties and directory listings.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/holds_a_table_env.h"
#include "test/testing/env/pausing_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbCompactionTest : public DbTestBase {
 protected:
  // Tables on disk are exactly those in the levels.
  // The last reader of a version that was replaced may still be about to let
  // go of it, and of its tables.
  void ExpectNoStrayTables() {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (FilesEndingIn(path_, ".sst").size() != Tables() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
  }
};

TEST_F(DbCompactionTest, FlushMakesOneTableAndDropsTheLog) {
  Open();
  Flush();
  EXPECT_EQ(Tables(), 0u) << "an empty buffer needs no table";
  Put("a", "1");
  Flush();
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(FilesEndingIn(path_, ".log").size(), 1u);
  Flush();
  EXPECT_EQ(Tables(), 1u);
  ExpectNoStrayTables();
}

TEST_F(DbCompactionTest, FlushWithoutWaitingHappensAnyway) {
  Open();
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Tables(), 1u);
}

TEST_F(DbCompactionTest, LevelZeroIsCompactedAtItsTrigger) {
  Open();
  for (int table = 0; table < 4; table++) {
    for (int i = 0; i < 100; i++) Put(Key(i), std::to_string(table));
    Flush();
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(Get(Key(50)), "3");
  ExpectNoStrayTables();
}

// Data in the last level that a snapshot kept is not moved on from there.
TEST_F(DbCompactionTest, VersionsKeptForSnapshotsGoAfterThem) {
  enum Kind { kOverwritten, kDeleted, kRangeDeleted };
  for (const Kind kind : {kOverwritten, kDeleted, kRangeDeleted}) {
    SCOPED_TRACE(kind);
    OpenAnew();
    Rng rng(7);
    for (int i = 0; i < 2000; i++) Put(Key(i), rng.Bytes(100));
    CompactAll();
    // The number of tables may be one less, depending on where the last ones
    // ended.
    const uint64_t once = Number("varve.live-sst-files-size") * 19 / 20;
    const Snapshot* const first = db_->GetSnapshot();
    Put("another", "write");
    const Snapshot* const second = db_->GetSnapshot();
    for (int i = 0; i < 2000; i++) {
      if (kind == kOverwritten) Put(Key(i), "new");
      if (kind == kDeleted) Delete(Key(i));
    }
    if (kind == kRangeDeleted) {
      ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(0), Key(2000))));
    }
    CompactAll();
    ASSERT_GE(Number("varve.live-sst-files-size"), once);
    db_->ReleaseSnapshot(first);
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_GE(Number("varve.live-sst-files-size"), once) << "one is left";
    db_->ReleaseSnapshot(second);
    Put("one more", "write");
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_LT(Number("varve.live-sst-files-size"), once / 2);
    EXPECT_EQ(Get(Key(7)), kind == kOverwritten ? "new" : "NotFound");
    EXPECT_EQ(Number("varve.compaction-pending"), 0u);
  }
}

// A deletion that hides nothing from the present, but was too new to go.
TEST_F(DbCompactionTest, DeletionsGoAfterTheSnapshotsThatKeptThem) {
  Open();
  Put("a", "1");
  const Snapshot* const snapshot = db_->GetSnapshot();
  for (int i = 0; i < 2000; i++) {
    Put(Key(i), "v");
    Delete(Key(i));
  }
  CompactAll();
  const uint64_t kept = Number("varve.live-sst-files-size");
  db_->ReleaseSnapshot(snapshot);
  Put("one more", "write");
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_LT(Number("varve.live-sst-files-size"), kept / 2);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get(Key(7)), "NotFound");
  EXPECT_EQ(Number("varve.compaction-pending"), 0u);
}

TEST_F(DbCompactionTest, DoesNothingByItselfWhenDisabled) {
  options_.disable_auto_compactions = true;
  Open();
  for (int table = 0; table < 8; table++) {
    Put(Key(table), "v");
    Put("common", std::to_string(table));
    Flush();
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 8u);
  EXPECT_EQ(Get("common"), "7");
  CompactAll();
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(Get("common"), "7");
}

TEST_F(DbCompactionTest, RandomWritesFillSeveralLevels) {
  Open();
  Rng rng(1);
  for (int i = 0; i < 30000; i++) {
    Put(Key(rng.Between(0, 100000)), rng.Bytes(60));
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_LT(TablesAt(0), 4u);
  int levels = 0;
  for (int level = 1; level < 7; level++) levels += TablesAt(level) > 0;
  EXPECT_GE(levels, 2);
  EXPECT_EQ(Number("varve.compaction-pending"), 0u);
  EXPECT_EQ(Number("varve.num-immutable-mem-table"), 0u);
  ExpectNoStrayTables();
  std::string text;
  ASSERT_TRUE(db_->GetProperty("varve.levelstats", &text));
  EXPECT_TRUE(Contains(text, "1")) << text;
}

TEST_F(DbCompactionTest, SequentialLoadMovesTablesWithoutRewriting) {
  Open();
  for (int i = 0; i < 20000; i++) Put(Key(i), std::string(100, 'x'));
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_LT(TablesAt(0), 4u);
  for (int i = 0; i < 20000; i += 501) {
    ASSERT_EQ(Get(Key(i)), std::string(100, 'x'));
  }
}

TEST_F(DbCompactionTest, CompactingAllDeletedKeysLeavesNoTable) {
  Open();
  for (int i = 0; i < 5000; i++) Put(Key(i), std::string(50, 'x'));
  CompactAll();
  EXPECT_GT(Tables(), 0u);
  for (int i = 0; i < 5000; i++) Delete(Key(i));
  CompactAll();
  EXPECT_EQ(Tables(), 0u);
  ExpectNoStrayTables();
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  EXPECT_EQ(Number("varve.live-sst-files-size"), 0u);
}

TEST_F(DbCompactionTest, SnapshotKeepsDeletedKeysUntilReleased) {
  Open();
  for (int i = 0; i < 1000; i++) Put(Key(i), std::string(50, 'x'));
  const Snapshot* snapshot = db_->GetSnapshot();
  for (int i = 0; i < 1000; i++) Delete(Key(i));
  CompactAll();
  EXPECT_GT(Tables(), 0u);
  EXPECT_EQ(Get(Key(500), snapshot), std::string(50, 'x'));
  EXPECT_EQ(Get(Key(500)), "NotFound");
  db_->ReleaseSnapshot(snapshot);
  CompactAll();
  EXPECT_EQ(Tables(), 0u);
}

TEST_F(DbCompactionTest, OverwritesDoNotPileUp) {
  Open();
  Rng rng(2);
  for (int round = 0; round < 60; round++) {
    for (int i = 0; i < 300; i++) Put(Key(i), rng.Bytes(100));
  }
  CompactAll();
  // 300 entries of about 112 bytes are left of 18,000.
  EXPECT_LT(Number("varve.live-sst-files-size"), 80000u);
}

TEST_F(DbCompactionTest, RangeCompactionTouchesItsRangeOnly) {
  options_.disable_auto_compactions = true;
  Open();
  for (int i = 0; i < 100; i++) Put("a" + Key(i), "v");
  Flush();
  for (int i = 0; i < 100; i++) Put("z" + Key(i), "v");
  Flush();
  const Slice begin("y"), end("zz");
  ASSERT_TRUE(Ok(db_->CompactRange({}, &begin, &end)));
  EXPECT_EQ(TablesAt(0), 1u);
  EXPECT_EQ(Tables(), 2u);
  const Slice before("A"), behind("B");
  ASSERT_TRUE(Ok(db_->CompactRange({}, &before, &behind)));
  EXPECT_EQ(TablesAt(0), 1u);
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, &begin)));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(Get("a" + Key(5)), "v");
  EXPECT_EQ(Get("z" + Key(5)), "v");
}

TEST_F(DbCompactionTest, RangeCompactionIncludesTheMemtable) {
  Open();
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(Get("a"), "1");
  // Nor does it miss one that is on its way.
  Put("a", "2");
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  const Slice only("a");
  ASSERT_TRUE(Ok(db_->CompactRange({}, &only, &only)));
  EXPECT_EQ(Tables(), 1u);
  EXPECT_EQ(TablesAt(0), 0u);
}

// A range compaction flushes memtables that overlap the range: by a key at
// either end, or by a range deletion that ends or begins there.
TEST_F(DbCompactionTest, RangeCompactionFlushesOverlappingMemTables) {
  options_.disable_auto_compactions = true;
  const Slice begin("d"), end("m");
  const auto flushes = [&](const Slice* from, const Slice* to) {
    const uint64_t before = Number("varve.num-entries-active-mem-table");
    EXPECT_TRUE(Ok(db_->CompactRange({}, from, to)));
    return Number("varve.num-entries-active-mem-table") != before;
  };
  const auto open_with = [&](const std::string& key,
                             const std::string& deleted_to = "") {
    OpenAnew();
    Put("outside", "v");
    Flush();
    if (deleted_to.empty()) {
      Put(key, "v");
    } else {
      Put("zz", "v");  // To be counted.
      ASSERT_TRUE(Ok(db_->DeleteRange({}, key, deleted_to)));
    }
  };
  for (const auto& [key, is_of_the_range] :
       std::map<std::string, bool>{{"", false},
                                   {"c", false},
                                   {"d", true},
                                   {"m", true},
                                   {Slice("m\0", 2).ToString(), false}}) {
    SCOPED_TRACE(key);
    open_with(key);
    EXPECT_EQ(flushes(&begin, &end), is_of_the_range);
    EXPECT_EQ(Get(key), "v");
    open_with(key);
    EXPECT_EQ(flushes(nullptr, &end), key <= "m");
    open_with(key);
    EXPECT_EQ(flushes(&begin, nullptr), key >= "d");
    open_with(key);
    EXPECT_TRUE(flushes(nullptr, nullptr));
    EXPECT_FALSE(flushes(nullptr, nullptr));  // Nothing is left.
  }
  struct Deletion {
    const char* begin;
    const char* end;
    bool is_of_the_range;
  };
  for (const auto& [from, to, is_of_the_range] :
       {Deletion{"a", "d", false}, Deletion{"a", "da", true},
        Deletion{"a", "z", true}, Deletion{"e", "f", true},
        Deletion{"m", "n", true}, Deletion{"ma", "n", false}}) {
    SCOPED_TRACE(std::string(from) + " to " + to);
    open_with(from, to);
    EXPECT_EQ(flushes(&begin, &end), is_of_the_range);
    EXPECT_EQ(Get("outside"), std::string(to) == "z" ? "NotFound" : "v");
  }
}

TEST_F(DbCompactionTest, IteratorKeepsItsFilesUntilItIsDestroyed) {
  Open();
  for (int i = 0; i < 3000; i++) Put(Key(i), std::string(100, 'x'));
  Flush();
  auto it = db_->NewIterator({});
  it->SeekToFirst();
  for (int i = 0; i < 3000; i++) Put(Key(i), std::string(100, 'y'));
  CompactAll();
  int count = 0;
  for (; it->Valid(); it->Next()) {
    ASSERT_EQ(it->value().ToString(), std::string(100, 'x'));
    count++;
  }
  ASSERT_TRUE(Ok(it->status()));
  EXPECT_EQ(count, 3000);
  it.reset();
  Do("put one more, flush, wait");
  ExpectNoStrayTables();
  EXPECT_EQ(Number("varve.num-live-versions"), 1u);
}

TEST_F(DbCompactionTest, StrayFilesAreRemovedAtOpenAndOthersKept) {
  Do("open, put a 1, flush");
  Close();
  // Leftovers of a crash: older MANIFESTs and temporary files. Names that no
  // database file has are not removed.
  WriteWholeFile(path_ + "/MANIFEST-000000", "");
  WriteWholeFile(path_ + "/000099.dbtmp", "MANIFEST-000098\n");
  WriteWholeFile(path_ + "/notes.txt", "mine");
  WriteWholeFile(path_ + "/OPTIONS-000007", "a foreign engine's");
  Open();
  EXPECT_EQ(Get("a"), "1");
  const auto files = ReadDirectory(path_);
  EXPECT_EQ(files.count("MANIFEST-000000"), 0u);
  EXPECT_EQ(files.count("000099.dbtmp"), 0u);
  EXPECT_EQ(files.count("notes.txt"), 1u);
  // Numbers of stray files are not used again.
  Put("b", "2");
  Flush();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}}));
}

// A descriptor would keep the space of a removed table from others.
TEST_F(DbCompactionTest, RemovedTablesAreNotHeldOpen) {
  const auto value = [](int round) { return std::string(100 + round, 'x'); };
  Open();
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2000; ++i) Put(Key(i), value(round));
    Flush();
    EXPECT_EQ(Get(Key(1)), value(round));
  }
  CompactAll();
  int open = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // The iterator has released its own by then.
    const std::string file =
        std::filesystem::read_symlink(entry.path(), error).string();
    if (!Contains(file, path_)) continue;
    ++open;
    EXPECT_FALSE(Contains(file, "(deleted)")) << file;
  }
  EXPECT_GT(open, 0);
}

TEST_F(DbCompactionTest, WritersStopAtTheLevelZeroLimit) {
  PausingEnv latch;
  latch.KeepBack(Env::Priority::kLow);
  options_.env = &latch;
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_slowdown_writes_trigger = 3;
  options_.level0_stop_writes_trigger = 4;
  Open();
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(Number("varve.is-write-stopped"), 0u);
    Put("key", std::to_string(i));
    Flush();
  }
  EXPECT_EQ(Number("varve.is-write-stopped"), 1u);
  EXPECT_EQ(Number("varve.compaction-pending"), 1u);
  // Writes that still fit into the write buffer are accepted.
  WriteOptions no_slowdown{.no_slowdown = true};
  Status s;
  int taken = 0;
  for (; taken < 5000 && s.ok(); taken++) {
    s = db_->Put(no_slowdown, Key(taken), std::string(100, 'x'));
  }
  EXPECT_TRUE(IsIncomplete(s));
  EXPECT_EQ(Get(Key(taken - 1)), "NotFound");
  EXPECT_EQ(TablesAt(0), 4u);
  // A waiting writer continues when a compaction makes space.
  std::thread writer([&] { EXPECT_TRUE(Ok(db_->Put({}, "key", "waited"))); });
  latch.LetGo();
  writer.join();
  EXPECT_EQ(Get("key"), "waited");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Number("varve.is-write-stopped"), 0u);
  ASSERT_TRUE(Ok(db_->Put(no_slowdown, "key", "free again")));
  EXPECT_EQ(Get("key"), "free again");
  db_.reset();
}

// One is due, but cannot begin before the one that runs ends.
TEST_F(DbCompactionTest, WaitForCompactDoesNotTryAgainAndAgain) {
  class CountsJobs : public HoldsATableEnv {
   public:
    CountsJobs() : HoldsATableEnv(Env::Default()) {}
    Status Schedule(std::function<void()> work, Priority priority) override {
      ++jobs;
      return target()->Schedule(std::move(work), priority);
    }
    std::atomic<int> jobs{0};
  } env;
  options_.env = &env;
  options_.max_background_jobs = 4;
  options_.level0_file_num_compaction_trigger = 2;
  for (const bool manual : {false, true}) {
    SCOPED_TRACE(manual);
    options_.disable_auto_compactions = true;
    OpenAnew();
    const auto make_due = [&] {
      for (int i = 0; i < 2; i++) {
        Put("key", "value");
        Flush();
      }
    };
    make_due();
    env.HoldNext();
    std::thread compacter([&] {
      if (manual) {
        EXPECT_FALSE(db_->CompactRange({.exclusive_manual_compaction = false},
                                       nullptr, nullptr)
                         .ok());
      } else {
        EXPECT_TRUE(
            Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
      }
    });
    env.AwaitHeld();
    ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
    make_due();
    const int before = env.jobs;
    std::thread waiter([&] { EXPECT_FALSE(db_->WaitForCompact().ok()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LT(env.jobs - before, 5);
    EXPECT_EQ(Number("varve.compaction-pending"), 1u);
    env.Release();
    waiter.join();
    compacter.join();
    db_.reset();
  }
}

TEST_F(DbCompactionTest, ManualAndBackgroundWorkTogether) {
  options_.max_background_jobs = 4;
  Open();
  std::thread compacter([&] {
    for (int i = 0; i < 5; i++) {
      EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
    }
  });
  Entries expected;
  Rng rng(5);
  for (int i = 0; i < 20000; i++) {
    const std::string key = Key(rng.Between(0, 3000));
    expected[key] = rng.Bytes(50);
    ASSERT_TRUE(Ok(db_->Put({}, key, expected[key])));
  }
  compacter.join();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  ExpectNoStrayTables();
}

}  // namespace
}  // namespace varve::test
