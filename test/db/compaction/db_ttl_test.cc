// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: with `ttl` and `periodic_compaction_seconds`, tables are compacted when
// they are old enough, and not before; their times are kept. Method: an Env
// whose wall clock the test sets; a listener that records the compactions; the
// times in the MANIFEST. Where the thread of an idle database is tested, the
// clock is the true one.

#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "test/testing/db/manifest_edits.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/date_env.h"
#include "test/testing/machine/live_threads.h"
#include "test/testing/test_headers.h"
#include "util/base/mutex.h"
#include "varve/column_family.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

constexpr uint64_t kStart = 1700000000;
constexpr uint64_t kAge = 1000;

// Compactions as text: levels, reason, and whether tables were moved.
class Jobs final : public EventListener {
 public:
  void OnCompactionCompleted(const CompactionJobInfo& info) override {
    MutexLock lock(&mutex_);
    if (!jobs_.empty()) jobs_ += ", ";
    jobs_ += std::to_string(info.base_input_level) + " to " +
             std::to_string(info.output_level) + " (" + info.reason + ")" +
             (info.trivial_move ? " moved" : "");
  }
  std::string Take() {
    MutexLock lock(&mutex_);
    return std::exchange(jobs_, "");
  }

 private:
  Mutex mutex_;
  std::string jobs_ VARVE_GUARDED_BY(mutex_);
};

class DbTtlTest : public DbTestBase {
 protected:
  DbTtlTest() {
    options_.env = &env_;
    options_.listeners = {jobs_};
  }

  // Lets the clock show so many seconds after the start, and runs what is due.
  void RunAt(uint64_t seconds) {
    env_.now_s = kStart + seconds;
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
  }
  std::string JobsAt(uint64_t seconds) {
    RunAt(seconds);
    return jobs_->Take();
  }
  // Writes what is in memory to the level, if it is about this key.
  void FlushTo(int level, const Slice& key = "a") {
    ASSERT_TRUE(Ok(db_->CompactRange({.target_level = level}, &key, &key)));
    jobs_->Take();
  }
  std::vector<TableTimes> TimesAt(int level) {
    const InternalKeyComparator comparator(BytewiseComparator());
    ManifestState state;
    EXPECT_TRUE(
        Ok(ReadManifest(&env_, path_, ForAllFamilies(&comparator), &state)));
    std::vector<TableTimes> times;
    for (const FileMetaData* file : state.families.front()->levels[level]) {
      times.push_back(file->times);
    }
    return times;
  }
  // Expects one table in the level, with these times after the start.
  void ExpectTimes(int level, uint64_t ancestor, uint64_t creation) {
    const std::vector<TableTimes> times = TimesAt(level);
    ASSERT_EQ(times.size(), 1u);
    EXPECT_EQ(times[0].oldest_ancestor_s - kStart, ancestor);
    EXPECT_EQ(times[0].file_creation_s - kStart, creation);
  }

  DateEnv env_{kStart};
  std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
};

// A table of level 1 above one of level 3: moved, then merged.
TEST_F(DbTtlTest, TablesGoDownLevelByLevelWhenTheirDataIsOld) {
  options_.ttl = kAge;
  options_.level_compaction_dynamic_level_bytes = false;
  Do("open, put a old, put b old");
  FlushTo(3);
  env_.now_s = kStart + 500;
  options_.level0_file_num_compaction_trigger = 1;
  Do("reopen, put a new, delete b");
  for (int i = 0; i < 20; ++i) Put(Key(i), "new");
  Flush();
  RunAt(500 + kAge);
  EXPECT_EQ(TablesAt(1), 1u);
  EXPECT_EQ(TablesAt(3), 1u) << "the last level is as old as it likes";
  jobs_->Take();
  EXPECT_EQ(JobsAt(500 + kAge + 1), "1 to 2 (ttl) moved, 2 to 3 (ttl)");
  EXPECT_EQ(Tables(), 1u);
  ExpectTimes(3, 0, 500 + kAge + 1);
  EXPECT_EQ(Get("a"), "new");
  EXPECT_EQ(Get("b"), "NotFound");
  EXPECT_EQ(JobsAt(100 * kAge), "");
}

TEST_F(DbTtlTest, LevelZeroIsCompactedWhole) {
  options_.ttl = kAge;
  Do("open, put a 1, put z 1, flush");
  env_.now_s = kStart + 500;
  Put("a", "2");
  Flush();
  RunAt(kAge);
  EXPECT_EQ(TablesAt(0), 2u);
  EXPECT_EQ(jobs_->Take(), "");
  EXPECT_EQ(JobsAt(kAge + 1), "0 to 6 (ttl)");
  ExpectTimes(6, 0, kAge + 1);
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Get("z"), "1");
}

TEST_F(DbTtlTest, TablesOfDeletedDataAreDropped) {
  options_.ttl = kAge;
  Open();
  for (int i = 0; i < 100; ++i) Put(Key(i), "value");
  FlushTo(6, Key(0));
  for (int i = 0; i < 100; ++i) Delete(Key(i));
  Flush();
  RunAt(kAge + 1);
  EXPECT_EQ(Tables(), 0u);
}

// A table without a neighbour is rewritten once, in the last level.
TEST_F(DbTtlTest, ATableIsRewrittenOnItsWayIntoTheLastLevel) {
  options_.ttl = kAge;
  options_.level_compaction_dynamic_level_bytes = false;
  Open();
  Put("a", "1");
  FlushTo(4);
  options_.level0_file_num_compaction_trigger = 1;
  Do("reopen, put x 1, flush");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  jobs_->Take();
  EXPECT_EQ(JobsAt(kAge + 1),
            "1 to 2 (ttl) moved, 2 to 3 (ttl) moved, 3 to 4 (ttl)");
  EXPECT_EQ(TablesAt(4), 2u);
}

TEST_F(DbTtlTest, TimesAreKeptThroughCompactionsMovesAndReopens) {
  options_.level_compaction_dynamic_level_bytes = false;
  Do("open, put a 1, flush");
  ExpectTimes(0, 0, 0);
  env_.now_s = kStart + 10;
  FlushTo(2);
  ExpectTimes(2, 0, 10);
  Reopen();
  ExpectTimes(2, 0, 10);
  Put("a", "2");
  env_.now_s = kStart + 20;
  FlushTo(2);  // Merged with the older one.
  ExpectTimes(2, 0, 20);
  env_.now_s = kStart + 30;
  Put("b", "1");  // A log's entries, which are flushed by the next Open.
  db_.reset();
  Open();
  Flush();
  ExpectTimes(0, 30, 30);
  ExpectTimes(2, 0, 20);
  options_.level0_file_num_compaction_trigger = 1;
  Reopen();
  EXPECT_EQ(JobsAt(40), "0 to 1 (level 0 has enough files) moved");
  ExpectTimes(1, 30, 30);
  Reopen();
  ExpectTimes(1, 30, 30);
  ExpectTimes(2, 0, 20);
}

TEST_F(DbTtlTest, PeriodicCompactionsRewriteTablesInTheirLevels) {
  options_.periodic_compaction_seconds = kAge;
  options_.level_compaction_dynamic_level_bytes = false;
  Open();
  for (const int level : {3, 2}) {
    const std::string key = level == 3 ? "a" : "b";
    Put(key, "1");
    FlushTo(level, key);
  }
  EXPECT_EQ(JobsAt(kAge), "");
  EXPECT_EQ(JobsAt(kAge + 1), "2 to 2 (periodic), 3 to 3 (periodic)");
  for (const int level : {2, 3}) ExpectTimes(level, 0, kAge + 1);
  EXPECT_EQ(Get("a") + Get("b"), "11");
  EXPECT_EQ(JobsAt(2 * kAge), "");
  EXPECT_EQ(JobsAt(2 * kAge + 2), "2 to 2 (periodic), 3 to 3 (periodic)");
  for (const int level : {2, 3}) ExpectTimes(level, 0, 2 * kAge + 2);
}

TEST_F(DbTtlTest, PeriodicCompactionsRewriteLevelZeroIntoTheNextLevel) {
  options_.periodic_compaction_seconds = kAge;
  Do("open, put a 1, flush");
  EXPECT_EQ(JobsAt(kAge + 1), "0 to 6 (periodic)");
  ExpectTimes(6, 0, kAge + 1);
}

TEST_F(DbTtlTest, NothingIsDueWithoutTheOptions) {
  Do("open, put a 1, flush");
  EXPECT_EQ(JobsAt(1000 * kAge), "");
  // As many seconds as there are.
  ASSERT_TRUE(Ok(db_->SetOptions(
      {{"ttl", "18446744073709551615"},
       {"periodic_compaction_seconds", "18446744073709551614"}})));
  EXPECT_EQ(JobsAt(1000 * kAge), "");
}

TEST_F(DbTtlTest, AClockThatIsSetBackMakesNothingDue) {
  options_.ttl = kAge;
  options_.periodic_compaction_seconds = kAge;
  Do("open, put a 1, flush");
  env_.now_s = 0;
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  env_.now_s = kStart - 10 * kAge;
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(jobs_->Take(), "");
}

TEST_F(DbTtlTest, DisableAutoCompactionsDisablesThem) {
  options_.ttl = kAge;
  options_.periodic_compaction_seconds = kAge;
  options_.disable_auto_compactions = true;
  Do("open, put a 1, flush");
  EXPECT_EQ(JobsAt(10 * kAge), "");
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
  EXPECT_EQ(JobsAt(10 * kAge), "0 to 6 (ttl)");
}

TEST_F(DbTtlTest, SetOptionsSwitchesThemOn) {
  Do("open, put a 1, flush");
  RunAt(10 * kAge);
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", std::to_string(kAge)}})));
  EXPECT_EQ(JobsAt(10 * kAge), "0 to 6 (ttl)");
  ASSERT_TRUE(Ok(db_->SetOptions(
      {{"ttl", "0"}, {"periodic_compaction_seconds", std::to_string(kAge)}})));
  EXPECT_EQ(JobsAt(11 * kAge + 1), "6 to 6 (periodic)");
}

TEST_F(DbTtlTest, EachFamilyHasItsOwn) {
  Open();
  ColumnFamilyOptions old;
  old.ttl = kAge;
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(old, "old", &family)));
  Put("a", "1");
  Flush();
  ASSERT_TRUE(Ok(db_->Put({}, family, "a", "1")));
  ASSERT_TRUE(Ok(db_->Flush({}, family)));
  EXPECT_EQ(JobsAt(kAge + 1), "0 to 6 (ttl)");
  EXPECT_EQ(TablesAt(0), 1u);
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

// Tables of a MANIFEST without times, as from an old engine. If they are not
// open either, they are due.
TEST_F(DbTtlTest, TimesThatTheManifestDoesNotHaveAreTheTables) {
  Open();
  Put("a", "1");
  FlushTo(6);
  Close();
  const auto manifests = FilesStartingWith(path_, "MANIFEST-");
  ASSERT_EQ(manifests.size(), 1u);
  const std::string& manifest = manifests[0];
  std::vector<VersionEdit> edits;
  ReadEdits(&env_, manifest, &edits);
  for (VersionEdit& edit : edits) {
    for (auto& [level, file] : *edit.mutable_new_files()) file.times = {};
  }
  WriteEdits(&env_, manifest, edits);
  ASSERT_EQ(TimesAt(6)[0].file_creation_s, 0u);
  options_.periodic_compaction_seconds = kAge;
  env_.now_s = kStart + 10;
  Open();  // Opens the table.
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(jobs_->Take(), "");
  Close();
  options_.paranoid_checks = false;  // It is not opened, and so due.
  Open();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(jobs_->Take(), "6 to 6 (periodic)");
  ExpectTimes(6, 0, 10);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(jobs_->Take(), "");
}

// ---- The thread of an idle database -----------------------------------------

// Returns how many threads of this process wait for tables to get due.
int AgeThreads() { return CountLiveThreads("varve:age"); }

class DbAgeThreadTest : public DbTestBase {
 protected:
  // Waits for the thread, which the kernel names after its start.
  static void AwaitThread() {
    const Stopwatch waiting(Env::Default());
    while (AgeThreads() == 0 && waiting.ElapsedMicros() < 30000000) {
      Env::Default()->SleepForMicroseconds(1000);
    }
    EXPECT_EQ(AgeThreads(), 1);
  }
};

TEST_F(DbAgeThreadTest, AnIdleDatabaseIsCompacted) {
  options_.ttl = 1;
  Do("open, put a 1, flush");
  const Stopwatch waiting(Env::Default());
  while (TablesAt(0) != 0 && waiting.ElapsedMicros() < 60000000) {
    Env::Default()->SleepForMicroseconds(10000);
  }
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(TablesAt(6), 1u);
}

TEST_F(DbAgeThreadTest, ItHasAThreadIfItNeedsOneAndCloseEndsIt) {
  Open();
  EXPECT_EQ(AgeThreads(), 0);
  ASSERT_TRUE(Ok(db_->SetOptions({{"ttl", "1000000"}})));
  AwaitThread();
  const Stopwatch closing(Env::Default());
  Close();
  EXPECT_LT(closing.ElapsedMicros(), 30000000u) << "a step is ten minutes";
  EXPECT_EQ(AgeThreads(), 0);
  options_.periodic_compaction_seconds = 1000;
  Open();
  AwaitThread();
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_EQ(AgeThreads(), 0);
  db_.reset();
  options_.disable_auto_compactions = true;
  Open();
  EXPECT_EQ(AgeThreads(), 0);
}

TEST_F(DbAgeThreadTest, AFamilyThatIsCreatedHasOne) {
  Open();
  ColumnFamilyOptions old;
  old.ttl = 1000;
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(old, "old", &family)));
  AwaitThread();
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

}  // namespace
}  // namespace varve::test
