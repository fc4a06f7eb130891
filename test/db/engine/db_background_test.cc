// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: background work runs side by side where it may, stops at once when it
// must, follows options changed under way, and counts what it did. Method:
// environments that hold jobs back or fill the disk slowly; tiny levels.

#include "db/compaction/parallel_compaction.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"
#include "varve/rate_limiter.h"

namespace varve::test {
namespace {

class DbBackgroundTest : public DbTestBase {
 protected:
  // Level-0 tables of random keys; what the database holds then.
  Entries FillLevel0(int tables, int entries_per_table) {
    Entries expected;
    Rng rng(7);
    for (int table = 0; table < tables; ++table) {
      for (int i = 0; i < entries_per_table; ++i) {
        const std::string key = Key(rng.Between(0, 50000));
        expected[key] = rng.Bytes(100);
        Put(key, expected[key]);
      }
      Flush();
    }
    return expected;
  }
};

// ---- Parts ------------------------------------------------------------------

TEST(RunPartsTest, DoesEachPartOnceAndWaitsForAll) {
  for (const size_t count : {0u, 1u, 2u, 50u}) {
    std::vector<std::atomic<int>> done(count);
    RunParts(Env::Default(), count, [&](size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

// Refuses background threads, or takes jobs and runs them too late; later ones
// as they come.
class NoThreadsEnv : public EnvWrapper {
 public:
  explicit NoThreadsEnv(bool refuse)
      : EnvWrapper(Env::Default()), refuse_(refuse) {}
  Status Schedule(std::function<void()> work, Priority priority) override {
    if (refuse_) return Status::IOError("no thread");
    if (has_threads_) return EnvWrapper::Schedule(std::move(work), priority);
    late_.push_back(std::move(work));
    return Status::OK();
  }
  void RunLate() {
    has_threads_ = true;
    for (auto& work : std::exchange(late_, {})) work();
  }

 private:
  const bool refuse_;
  bool has_threads_ = false;
  std::vector<std::function<void()>> late_;
};

TEST(RunPartsTest, NeedsNoOtherThread) {
  for (const bool refuse : {true, false}) {
    NoThreadsEnv env(refuse);
    int done = 0;
    RunParts(&env, 10, [&](size_t i) { done += static_cast<int>(i); });
    EXPECT_EQ(done, 45);
    env.RunLate();
    EXPECT_EQ(done, 45);
  }
}

TEST_F(DbBackgroundTest, SubcompactionsGiveTheSameDatabase) {
  options_.max_subcompactions = 4;
  options_.disable_auto_compactions = true;
  options_.max_bytes_for_level_base = 64 << 20;
  Open();
  Entries expected = FillLevel0(5, 2000);
  const Snapshot* snapshot = db_->GetSnapshot();
  const Entries before = expected;
  for (int i = 0; i < 50000; i += 5) {
    Delete(Key(i));
    expected.erase(Key(i));
  }
  CompactAll();
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_GE(Tables(), 4u);
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
  EXPECT_TRUE(HasEntries(db_.get(), ToList(before), {.snapshot = snapshot}));
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  db_->ReleaseSnapshot(snapshot);
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
}

// ---- Levels -----------------------------------------------------------------

TEST_F(DbBackgroundTest, SmallDatabaseHasOneLevel) {
  options_.max_bytes_for_level_base = 64 << 20;
  Open();
  EXPECT_EQ(Number("varve.base-level"), 6u);
  FillLevel0(8, 500);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0) + TablesAt(6), Tables());
  EXPECT_GT(TablesAt(6), 0u);
}

TEST_F(DbBackgroundTest, StaticDatabaseGoesOnWithDynamicLevelsAndBack) {
  Entries expected;
  Rng rng(3);
  for (const bool dynamic : {false, true, false, true}) {
    options_.level_compaction_dynamic_level_bytes = dynamic;
    Open();
    for (int i = 0; i < 6000; ++i) {
      const std::string key = Key(rng.Between(0, 20000));
      expected[key] = rng.Bytes(60);
      Put(key, expected[key]);
    }
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_LT(TablesAt(0), 4u);
    EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
    Close();
  }
}

TEST_F(DbBackgroundTest, MostDataIsInTheLastLevel) {
  Open();
  Rng rng(4);
  for (int i = 0; i < 60000; ++i) {
    Put(Key(rng.Between(0, 60000)), rng.Bytes(60));
  }
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  std::string text;
  ASSERT_TRUE(db_->GetProperty("varve.sstables", &text));
  EXPECT_GE(TablesAt(6) * 2, Tables()) << text;  // Those above are smaller.
}

TEST_F(DbBackgroundTest, TargetLevelIsWhereEverythingGoes) {
  options_.level_compaction_dynamic_level_bytes = false;
  options_.disable_auto_compactions = true;
  Open();
  const Entries expected = FillLevel0(3, 500);
  CompactRangeOptions options{.target_level = 3};
  ASSERT_TRUE(Ok(db_->CompactRange(options, nullptr, nullptr)));
  EXPECT_GT(TablesAt(3), 0u);
  EXPECT_EQ(TablesAt(3), Tables());
  for (const int level : {0, 1, 2, 7, -2}) {
    options.target_level = level;
    const Status s = db_->CompactRange(options, nullptr, nullptr);
    EXPECT_TRUE(s.IsInvalidArgument()) << level << ": " << s.ToString();
  }
  options.target_level = 6;
  options.exclusive_manual_compaction = false;
  ASSERT_TRUE(Ok(db_->CompactRange(options, nullptr, nullptr)));
  EXPECT_EQ(TablesAt(6), Tables());
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
}

TEST_F(DbBackgroundTest, ManualAndAutomaticCompactionsRunTogether) {
  options_.max_background_jobs = 4;
  Open();
  std::atomic<bool> done = false;
  std::vector<std::thread> compacters;
  for (int i = 0; i < 2; ++i) {
    compacters.emplace_back([&, i] {
      CompactRangeOptions options;
      options.exclusive_manual_compaction = false;
      options.rewrite_bottommost_level = i == 0;
      while (!done) {
        EXPECT_TRUE(Ok(db_->CompactRange(options, nullptr, nullptr)));
      }
    });
  }
  Entries expected;
  Rng rng(5);
  for (int i = 0; i < 20000; i++) {
    const std::string key = Key(rng.Between(0, 5000));
    expected[key] = rng.Bytes(50);
    ASSERT_TRUE(Ok(db_->Put({}, key, expected[key])));
  }
  done = true;
  for (std::thread& compacter : compacters) compacter.join();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected)));
}

TEST_F(DbBackgroundTest, CompressionFollowsTheLevel) {
  options_.compression_per_level = {CompressionType::kNone,
                                    CompressionType::kLZ4};
  options_.bottommost_compression = CompressionType::kZSTD;
  options_.disable_auto_compactions = true;
  Open();
  for (int i = 0; i < 2000; ++i) Put(Key(i), std::string(100, 'x'));
  Flush();
  const uint64_t raw = Number("varve.live-sst-files-size");
  EXPECT_GT(raw, 200000u);
  CompactAll();
  EXPECT_LT(Number("varve.live-sst-files-size"), raw / 4);
  const std::string table = ReadWholeFile(FilesEndingIn(path_, ".sst").back());
  EXPECT_TRUE(Contains(table, "ZSTD"));
  options_.bottommost_compression = CompressionType::kXpress;
  db_.reset();
  EXPECT_TRUE(IsInvalidArgument(TryOpen()));
}

// ---- Options changed under way ----------------------------------------------

TEST_F(DbBackgroundTest, OptionsChangeWhileOpen) {
  options_.disable_auto_compactions = true;
  Open();
  FillLevel0(6, 100);
  EXPECT_EQ(TablesAt(0), 6u);
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"},
                                  {"level0_file_num_compaction_trigger", "3"},
                                  {"target_file_size_base", "1M"},
                                  {"max_bytes_for_level_base", "1G"},
                                  {"max_bytes_for_level_multiplier", "8.5"}})));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(Tables(), 1u);
  ASSERT_TRUE(Ok(db_->SetOptions({})));
  // Writes stop, and go on.
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "1"}})));
  FillLevel0(3, 10);
  ASSERT_TRUE(Ok(db_->SetOptions(
      {{"write_buffer_size", "1m"}, {"max_write_buffer_number", "4"}})));
  for (int i = 0; i < 1000; ++i) Put(Key(i), std::string(100, 'y'));
  Flush();
  EXPECT_EQ(TablesAt(0), 4u);
}

// While a requested compaction waits, another one moves older entries to a
// level that was empty. Newer ones must not be moved below them.
TEST_F(DbBackgroundTest, CompactionsSideBySideKeepTheOrderOfEntries) {
  class SlowsOne final : public EventListener {
   public:
    void OnCompactionBegin(const CompactionJobInfo& /*job*/) override {
      if (!slow.exchange(false)) return;
      begun = true;
      while (!go_on) std::this_thread::yield();
    }
    std::atomic<bool> slow{false};
    std::atomic<bool> begun{false};
    std::atomic<bool> go_on{false};
  };
  const auto listener = std::make_shared<SlowsOne>();
  options_.listeners = {listener};
  options_.compression = CompressionType::kNone;
  options_.max_bytes_for_level_base = 1 << 10;
  options_.max_bytes_for_level_multiplier = 10;
  options_.level0_file_num_compaction_trigger = 1;
  options_.disable_auto_compactions = true;
  Open();
  for (int i = 0; i < 100; ++i) Put(Key(i), std::string(1000, 'x'));
  ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 6}, nullptr, nullptr)));
  Put(Key(5), "old");
  Put(Key(6), "old");
  Flush();
  listener->slow = true;
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
  while (!listener->begun) std::this_thread::yield();
  ASSERT_TRUE(Ok(db_->SetOptions({{"max_bytes_for_level_base", "1G"}})));
  Put(Key(5), "new");
  ASSERT_TRUE(Ok(db_->Delete({}, Key(6))));
  std::thread manual([&] {
    EXPECT_TRUE(Ok(db_->CompactRange({.exclusive_manual_compaction = false},
                                     nullptr, nullptr)));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  listener->go_on = true;
  manual.join();
  EXPECT_EQ(Get(Key(5)), "new");
  EXPECT_EQ(Get(Key(6)), "NotFound");
}

TEST_F(DbBackgroundTest, ExclusiveCompactionIsAloneAmongStepsOfAnother) {
  // While one of the exclusive call begins, others have time to.
  class Watcher final : public EventListener {
   public:
    void OnCompactionBegin(const CompactionJobInfo& /*info*/) override {
      const int others = running++;
      steps++;
      if (std::this_thread::get_id() != exclusive) return;
      beside += others;
      const int before = steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      beside += steps - before;
    }
    void OnCompactionCompleted(const CompactionJobInfo& /*info*/) override {
      running--;
    }
    std::atomic<int> running{0};
    std::atomic<int> steps{0};
    std::atomic<int> beside{0};
    std::atomic<std::thread::id> exclusive;
  };
  const auto watcher = std::make_shared<Watcher>();
  options_.listeners = {watcher};
  options_.disable_auto_compactions = true;
  options_.target_file_size_base = 16 << 10;
  options_.max_compaction_bytes = 16 << 10;
  options_.compression = CompressionType::kNone;
  Open();
  const std::string value(100, 'x');
  for (int i = 0; i < 10000; i++) Put(Key(i), value);
  CompactAll();
  const std::string middle = Key(9000);
  const Slice border = middle;
  CompactRangeOptions options;
  options.rewrite_bottommost_level = true;
  options.exclusive_manual_compaction = false;
  const int steps_before = watcher->steps;
  std::thread other(
      [&] { EXPECT_TRUE(Ok(db_->CompactRange(options, nullptr, &border))); });
  while (watcher->steps < steps_before + 3) std::this_thread::yield();
  watcher->exclusive = std::this_thread::get_id();
  CompactRangeOptions alone = options;
  alone.exclusive_manual_compaction = true;
  ASSERT_TRUE(Ok(db_->CompactRange(alone, &border, nullptr)));
  other.join();
  EXPECT_EQ(watcher->beside, 0);
}

TEST_F(DbBackgroundTest, BadOptionsChangeNothing) {
  options_.disable_auto_compactions = true;
  Open();
  const std::vector<std::map<std::string, std::string>> all = {
      {{"no_such_option", "1"}},
      {{"", ""}},
      {{"block_size", "4096"}},
      {{"write_buffer_size", ""}},
      {{"write_buffer_size", "-1"}},
      {{"write_buffer_size", "64 M"}},
      {{"write_buffer_size", "64MB"}},
      {{"write_buffer_size", "99999999999999999999"}},
      {{"write_buffer_size", "99999999999T"}},
      {{"max_write_buffer_number", "65"}},
      {{"max_write_buffer_number", "4294967298"}},
      {{"level0_stop_writes_trigger", "1"}},
      {{"level0_stop_writes_trigger", "0T"}},
      {{"max_bytes_for_level_multiplier", "nan"}},
      {{"max_bytes_for_level_multiplier", "2x"}},
      {{"disable_auto_compactions", "yes"}},
      {{"max_compaction_bytes", "1"}},
      {{"hard_pending_compaction_bytes_limit", "1"},
       {"soft_pending_compaction_bytes_limit", "2"}},
  };
  for (auto changes : all) {
    changes["disable_auto_compactions"].insert(0, "false");
    const auto& [name, value] = *changes.begin();
    const Status s = db_->SetOptions(changes);
    EXPECT_TRUE(s.IsInvalidArgument())
        << name << " = " << value << ": " << s.ToString();
  }
  FillLevel0(6, 10);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 6u);
}

// ---- Stopping ---------------------------------------------------------------

class DbStopTest : public DbBackgroundTest {
 protected:
  // The DB goes before its Env.
  ~DbStopTest() override { db_.reset(); }

  // A compaction has begun to write, and waits.
  void StartCompaction() {
    options_.env = &env_;
    options_.disable_auto_compactions = true;
    // A table for each flush: so few of them do not stop writes.
    options_.write_buffer_size = 1 << 20;
    Open();
    // Fewer tables than stop writers.
    expected_ = FillLevel0(4, 2000);
    env_.hook = [this](const std::string&) {
      appends_.Wait();
      ++appends_after_;
      return Status::OK();
    };
    appends_.Close();
    ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
    appends_.AwaitWaiting();
  }

  Gate appends_;
  std::atomic<int> appends_after_ = 0;
  HookEnv env_{kWriteOperation, ".sst"};
  Entries expected_;
};

TEST_F(DbStopTest, CloseStopsACompactionAtOnce) {
  StartCompaction();
  const size_t before = TablesAt(0);
  // The compaction continues only after the close has begun.
  db_->CancelAllBackgroundWork(false);
  appends_.Open();
  Close();
  EXPECT_LE(appends_after_, 2) << "it went on for more than a block";
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), before);
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbStopTest, CancelledDatabaseIsReadAndWrittenUntilItIsFull) {
  StartCompaction();
  db_->CancelAllBackgroundWork(false);
  appends_.Open();
  db_->CancelAllBackgroundWork(true);
  EXPECT_LE(appends_after_, 2);
  EXPECT_EQ(Number("varve.num-running-compactions"), 0u);
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
  EXPECT_TRUE(db_->Flush({}).ok()) << "there is nothing to flush";
  Status s;
  int written = 0;
  for (; s.ok() && written < 100000; ++written) {
    s = db_->Put({}, Key(written), "after");
    if (s.ok()) expected_[Key(written)] = "after";
  }
  EXPECT_TRUE(IsShutdownInProgress(s));
  EXPECT_GT(written, 500);
  EXPECT_TRUE(db_->Flush({}).IsShutdownInProgress());
  EXPECT_TRUE(db_->CompactRange({}, nullptr, nullptr).IsShutdownInProgress());
  EXPECT_TRUE(db_->WaitForCompact().IsShutdownInProgress());
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  EXPECT_EQ(Number("varve.background-errors"), 0u);
}

TEST_F(DbStopTest, ManualCompactionEndsWithTheDatabase) {
  StartCompaction();
  std::thread compacter([&] {
    EXPECT_TRUE(IsShutdownInProgress(db_->CompactRange({}, nullptr, nullptr)));
  });
  db_->CancelAllBackgroundWork(false);
  appends_.Open();
  compacter.join();
  db_->CancelAllBackgroundWork(true);
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

// A flush makes writes without the log durable.
TEST_F(DbBackgroundTest, CloseFlushesUnloggedWritesOnlyWhereThereAreSome) {
  options_.disable_auto_compactions = true;  // Tables are counted.
  Open();
  WriteOptions unlogged{.disable_wal = true};
  ASSERT_TRUE(Ok(db_->Put(unlogged, "a", "1")));
  Flush();
  Put("b", "2");
  EXPECT_EQ(Tables(), 1u);
  db_->CancelAllBackgroundWork(true);
  EXPECT_TRUE(Ok(db_->Close()));
  Reopen();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "2");
  Put("c", "3");
  Reopen();
  for (const bool cancelled : {false, true}) {
    const std::string value = cancelled ? "5" : "4";
    ASSERT_TRUE(Ok(db_->Put(unlogged, "d", value)));
    const size_t before = Tables();
    if (cancelled) db_->CancelAllBackgroundWork(true);
    EXPECT_TRUE(Ok(db_->Close()));
    Reopen();
    EXPECT_EQ(Tables(), before + 1);
    EXPECT_EQ(Get("d"), value);
  }
}

// After a cancel, Close also flushes memtables that wait: with an empty one
// after them, one in use, and no space for another.
TEST_F(DbBackgroundTest, CloseFlushesMemTablesThatWaitAfterACancel) {
  options_.max_write_buffer_number = 3;
  WriteOptions unlogged{.disable_wal = true};
  FlushOptions no_wait{.wait = false};
  for (const int waiting : {1, 2}) {
    for (const bool one_in_use : {false, true}) {
      SCOPED_TRACE(std::to_string(waiting) + (one_in_use ? " and one" : ""));
      NoThreadsEnv env(false);
      options_.env = &env;
      Open();
      int keys = 0;
      while (keys < waiting) {
        ASSERT_TRUE(Ok(db_->Put(unlogged, Key(keys++), "value")));
        ASSERT_TRUE(Ok(db_->Flush(no_wait)));
      }
      db_->CancelAllBackgroundWork(false);
      env.RunLate();
      if (one_in_use) {
        ASSERT_TRUE(Ok(db_->Put(unlogged, Key(keys++), "value")));
      }
      EXPECT_EQ(Tables(), 0u);
      EXPECT_TRUE(Ok(db_->Close()));
      Reopen();
      for (int i = 0; i < keys; ++i) EXPECT_EQ(Get(Key(i)), "value");
      Close();
      db_.reset();  // It must not outlive the Env.
      std::filesystem::remove_all(path_);
    }
  }
}

TEST_F(DbBackgroundTest, AfterACancelNothingIsReportedAsDone) {
  options_.level0_file_num_compaction_trigger = 2;
  options_.disable_auto_compactions = true;
  Do("open, put a 1, flush, put a 2, flush");
  FlushOptions no_wait{.wait = false};
  db_->CancelAllBackgroundWork(true);
  EXPECT_TRUE(Ok(db_->WaitForCompact()));  // Nothing is due.
  EXPECT_TRUE(Ok(db_->Flush({})));
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
  EXPECT_TRUE(db_->WaitForCompact().IsShutdownInProgress());
  Put("b", "3");
  EXPECT_TRUE(db_->Flush(no_wait).IsShutdownInProgress());
  EXPECT_TRUE(db_->Flush({}).IsShutdownInProgress());
  EXPECT_EQ(Number("varve.num-immutable-mem-table"), 0u);
  Reopen();
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Get("b"), "3");
}

TEST_F(DbBackgroundTest, WaitForCompactWaitsForRunningJobsAfterACancel) {
  NoThreadsEnv env(false);
  options_.env = &env;
  Open();
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  db_->CancelAllBackgroundWork(false);
  std::atomic<bool> is_over{false};
  std::thread waiter([&] {
    EXPECT_TRUE(db_->WaitForCompact().IsShutdownInProgress());
    is_over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_over);
  env.RunLate();
  waiter.join();
  Close();
  db_.reset();
}

// Others' jobs take all threads of a pool.
TEST_F(DbBackgroundTest, CloseDoesNotWaitForAThread) {
  NoThreadsEnv env(false);
  options_.env = &env;
  options_.level0_file_num_compaction_trigger = 1;
  Open();
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  Close();
  env.RunLate();
  options_.env = Env::Default();
  Open();
  EXPECT_EQ(Get("a"), "1");
}

// ---- Counting ---------------------------------------------------------------

TEST_F(DbBackgroundTest, AllTableBytesAreAskedOfTheRateLimiter) {
  options_.rate_limiter = NewGenericRateLimiter(1 << 30);
  options_.disable_auto_compactions = true;
  Open();
  FillLevel0(2, 1000);
  using Priority = RateLimiter::Priority;
  const RateLimiter& limiter = *options_.rate_limiter;
  EXPECT_EQ(limiter.GetTotalBytesThrough(Priority::kHigh),
            Number("varve.live-sst-files-size"));
  EXPECT_EQ(limiter.GetTotalBytesThrough(Priority::kLow), 0u);
  CompactAll();
  EXPECT_EQ(limiter.GetTotalBytesThrough(Priority::kLow),
            Number("varve.live-sst-files-size"));
  EXPECT_GT(limiter.GetTotalRequests(Priority::kLow), 1u);
}

TEST_F(DbBackgroundTest, StatsCountBytesExactly) {
  options_.disable_auto_compactions = true;
  Open();
  FillLevel0(2, 1000);
  const double flushed =
      static_cast<double>(Number("varve.live-sst-files-size")) / (1 << 20);
  CompactAll();
  const double compacted =
      static_cast<double>(Number("varve.live-sst-files-size")) / (1 << 20);
  std::string text;
  ASSERT_TRUE(db_->GetProperty("varve.stats", &text));
  const auto line = [&](const char* name) {
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "\n%5s ", name);
    const size_t at = text.find(wanted);
    EXPECT_NE(at, std::string::npos) << name << "\n" << text;
    double v[16] = {};
    if (at == std::string::npos) return std::vector<double>(16);
    sscanf(text.c_str() + at + 7, "%lf %lf %lf %lf %lf %lf %lf %lf %lf %lf",
           &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8],
           &v[9]);
    return std::vector<double>(v, v + 16);
  };
  // Files, size, score, read, from above, from the level, written, moved,
  // write and space amplification.
  const auto level0 = line("L0");
  EXPECT_NEAR(level0[6], flushed, 0.1);
  EXPECT_NEAR(level0[8], 1.0, 0.01);
  const auto last = line("L6");
  EXPECT_NEAR(last[1], compacted, 0.1);
  EXPECT_NEAR(last[3], flushed, 0.1);
  EXPECT_NEAR(last[4], flushed, 0.1);
  EXPECT_NEAR(last[6], compacted, 0.1);
  EXPECT_NEAR(last[9], 1.0, 0.01);
  const auto sum = line("Sum");
  EXPECT_NEAR(sum[6], flushed + compacted, 0.2);
  EXPECT_NEAR(sum[8], (flushed + compacted) / flushed, 0.1);
  EXPECT_TRUE(Contains(text, "write amplification"));
  EXPECT_TRUE(Contains(text, "space amplification 1.00"));
}

}  // namespace
}  // namespace varve::test
