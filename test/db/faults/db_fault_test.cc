// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: variants
//
// Goal: whichever call of the operating system fails, and whenever the power
// does, no acknowledged write is lost and nothing crashes or hangs. Method: a
// short script with its n-th operation failing, for every n; writers in
// several threads cut off at a random moment.

#include "test/testing/db_helpers.h"
#include "test/testing/env/forwarding_file.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbFaultTest : public ::testing::Test {
 protected:
  DbFaultTest() { Renew(); }
  ~DbFaultTest() override { db_.reset(); }

  void Renew() {
    db_.reset();
    faulty_.reset();
    memory_ = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = faulty_.get();
    acknowledged_.clear();
    attempted_.clear();
  }

  Status TryOpen() {
    db_.reset();
    return DB::Open(options_, "/db/it", &db_);
  }

  // Cuts the power and opens again.
  void CutPowerAndOpen(const CrashOptions& crash) {
    faulty_->SetFilesystemActive(false);
    db_.reset();
    ASSERT_TRUE(Ok(faulty_->CrashAndReset(crash)));
    ASSERT_TRUE(Ok(TryOpen()));
  }

  Status Put(const std::string& key, const std::string& value, bool sync) {
    Status s = db_->Put({.sync = sync}, key, value);
    if (s.ok()) {
      acknowledged_[key] = value;
      attempted_[key].clear();
    } else {
      attempted_[key].push_back(value);
    }
    return s;
  }

  // Opens, writes, flushes, compacts, reads and closes. Continues after errors,
  // like a careless program. Returns the first error.
  Status RunScript(bool sync) {
    Status first = TryOpen();
    if (!first.ok()) return first;
    const auto note = [&](const Status& s) {
      if (first.ok()) first = s;
    };
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 4; i++) {
        note(Put(Key(i), "round" + std::to_string(round), sync));
      }
      note(Put(Key(100 + round), "once", sync));
      if (round < 2) note(db_->Flush({}));
      if (round == 1) note(db_->CompactRange({}, nullptr, nullptr));
    }
    std::string value;
    Status s = db_->Get({}, Key(1), &value);
    if (!s.IsNotFound()) note(s);
    note(db_->SyncWAL());
    note(db_->Close());
    db_.reset();
    return first;
  }

  // Every acknowledged write is there, unless a later one that was refused
  // took effect after all.
  void ExpectAcknowledged() {
    for (const auto& [key, value] : acknowledged_) {
      std::string found;
      ASSERT_TRUE(Ok(db_->Get({}, key, &found))) << key << " was acknowledged";
      const auto& later = attempted_[key];
      EXPECT_TRUE(found == value ||
                  std::find(later.begin(), later.end(), found) != later.end())
          << key << " = " << found << ", acknowledged " << value;
    }
  }

  // Runs the script with each of its operations failing in turn.
  void FailEach(const Status& error, FailureOptions failure, bool power_cut,
                OperationMask kinds = kAllOperations) {
    Renew();
    ASSERT_TRUE(Ok(RunScript(power_cut)));
    const uint64_t operations = faulty_->OperationCount(kinds);
    ASSERT_GT(operations, 20u);
    uint64_t failed = 0;
    uint64_t runs = 0;
    // Threads and timing may add a few.
    for (uint64_t n = 0; n < operations + 5; n++) {
      SCOPED_TRACE("operation " + std::to_string(n) + " of " +
                   std::to_string(operations));
      Renew();
      faulty_->FailAfter(n, error, kinds, failure);
      const Status s = RunScript(power_cut);
      runs++;
      if (!s.ok()) {
        failed++;
        // A file, or the directory; both are in this one.
        EXPECT_TRUE(Contains(s.message(), "/db")) << s.ToString();
        EXPECT_EQ(s.code(), error.code()) << s.ToString();
        EXPECT_EQ(s.IsNoSpace(), error.IsNoSpace()) << s.ToString();
      }
      faulty_->ClearFailure();
      if (power_cut) {
        CutPowerAndOpen({.lose_everything_unsynced = true});
      } else {
        ASSERT_TRUE(Ok(TryOpen()));
      }
      if (HasFatalFailure()) return;
      ExpectAcknowledged();
      // All is well again.
      ASSERT_TRUE(Ok(Put("after", "all", true)));
      ASSERT_TRUE(Ok(db_->Flush({})));
      ASSERT_TRUE(Ok(db_->VerifyChecksum()));
      if (HasFailure()) return;
    }
    printf("%s%s: %" PRIu64 " runs, one with each operation failing, %" PRIu64
           " of which met the error\n",
           error.ToString().c_str(),
           failure.partial_append ? ", appends cut short" : "", runs, failed);
  }

  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
  Entries acknowledged_;
  std::map<std::string, std::vector<std::string>> attempted_;
};

TEST_F(DbFaultTest, AnySingleOperationMayFail) {
  FailEach(FaultInjectionEnv::InjectedError(), {}, false);
}

TEST_F(DbFaultTest, AnySingleOperationMayFailBeforeAPowerCut) {
  FailEach(FaultInjectionEnv::InjectedError(), {}, true);
}

// Any part of the unsynced data may be lost: a name may exist without the data.
TEST_F(DbFaultTest, ThePowerMayFailBetweenAnyTwoOperations) {
  constexpr uint64_t kCuts = 6;
  const auto run_twice = [this] {
    const Status first = RunScript(true);
    // A database that was closed, whose next edit makes another MANIFEST.
    return first.ok() ? RunScript(true) : first;
  };
  Renew();
  ASSERT_TRUE(Ok(run_twice()));
  const uint64_t operations = faulty_->OperationCount(kAllOperations);
  const uint64_t seed = TestSeed();
  for (uint64_t n = 0; n < operations; n++) {
    for (uint64_t cut = 0; cut < kCuts; cut++) {
      SCOPED_TRACE("before operation " + std::to_string(n) +
                   ", TEST_SEED=" + std::to_string(seed));
      Renew();
      faulty_->FailAfter(n, FaultInjectionEnv::InjectedError(), kAllOperations,
                         {.once = false});
      run_twice().IgnoreError();  // It ends where the power does.
      faulty_->ClearFailure();
      CutPowerAndOpen({.seed = seed + kCuts * n + cut});
      if (HasFatalFailure()) return;
      ExpectAcknowledged();
    }
  }
}

TEST_F(DbFaultTest, AnySingleOperationMayFailWithAnyError) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EINTR}) {
    for (const bool short_append : {false, true}) {
      FailEach(Status::FromErrno("test", error),
               {.partial_append = short_append}, true);
      if (HasFailure()) return;
    }
  }
}

TEST_F(DbFaultTest, AllOperationsMayFailFromAnyOneOn) {
  FailEach(FaultInjectionEnv::InjectedError(), {.once = false}, false);
}

TEST_F(DbFaultTest, TheDeviceMayFillUpAnywhere) {
  FailEach(Status::FromErrno("test", ENOSPC),
           {.once = false, .partial_append = true}, true,
           kWriteOperation | kCreateOperation | kSyncOperation);
}

// A failed creation may have left a CURRENT whose name is not durable, and
// which no later sync makes durable. The next open creates another one.
TEST_F(DbFaultTest, AfterEachSyncThatFailedInMakingItMakingItAgainIsSafe) {
  for (uint64_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    Renew();
    faulty_->FailAfter(i, FaultInjectionEnv::InjectedError(),
                       kSyncDirectoryOperation);
    EXPECT_EQ(TryOpen().ok(), i == 3);
    faulty_->ClearFailure();
    ASSERT_TRUE(Ok(TryOpen()));
    ASSERT_TRUE(Ok(Put("a", "1", true)));
    CutPowerAndOpen({.lose_everything_unsynced = true});
    std::string value;
    EXPECT_TRUE(Ok(db_->Get({}, "a", &value)));
  }
}

// Syncs inside a directory are worthless if the directory's own name may be
// lost. If a creation failed or was killed there, the next open syncs the
// parent.
TEST_F(DbFaultTest, TheNameOfANewDirectoryIsSyncedByTheNextOpen) {
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(),
                     kSyncDirectoryOperation);
  EXPECT_TRUE(TryOpen().IsIOError());
  EXPECT_TRUE(memory_->FileExists("/db/it").IsNotFound());

  ASSERT_TRUE(Ok(memory_->CreateDirIfMissing("/db/it")));
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(),
                     kSyncDirectoryOperation);
  const Status status = TryOpen();
  EXPECT_TRUE(status.IsIOError());
  EXPECT_FALSE(Contains(status.message(), "/db/it")) << status.ToString();
  EXPECT_TRUE(memory_->FileExists("/db/it/LOCK").IsNotFound());
  ASSERT_TRUE(Ok(TryOpen()));
}

TEST_F(DbFaultTest, BackgroundErrorMakesReadOnlyAndIsReported) {
  ASSERT_TRUE(Ok(TryOpen()));
  ASSERT_TRUE(Ok(Put("a", "1", false)));
  faulty_->SetPathFilter(".sst");
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kWriteOperation,
                     {.once = false});
  const std::string cause =
      FaultInjectionEnv::InjectedError().message().ToString();
  EXPECT_TRUE(IsIOError(db_->Flush({}), cause));
  EXPECT_TRUE(IsIOError(db_->Put({}, "b", "2"), cause, ".sst"));
  EXPECT_FALSE(db_->Flush({}).ok());
  EXPECT_FALSE(db_->CompactRange({}, nullptr, nullptr).ok());
  uint64_t errors = 0;
  EXPECT_TRUE(db_->GetIntProperty("varve.background-errors", &errors));
  EXPECT_GE(errors, 1u);
  // Reading goes on.
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}));
  faulty_->ClearFailure();
  ASSERT_TRUE(Ok(TryOpen()));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}));
  ASSERT_TRUE(Ok(Put("b", "2", false)));
}

TEST_F(DbFaultTest, WritersWaitingForAFailedFlushFail) {
  ASSERT_TRUE(Ok(TryOpen()));
  faulty_->SetPathFilter(".sst");
  FailureOptions all{.once = false};
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kCreateOperation,
                     all);
  // More than all write buffers hold: some writer must wait, and then fail.
  Status s;
  for (int i = 0; i < 20000 && s.ok(); i++) {
    s = db_->Put({}, Key(i), std::string(100, 'x'));
  }
  EXPECT_TRUE(IsIOError(s));
  EXPECT_FALSE(db_->WaitForCompact().ok());
}

TEST_F(DbFaultTest, FailedSyncOfTheLogIsNotRetriedOnTheSameFile) {
  for (bool with_flush : {false, true}) {
    Renew();
    ASSERT_TRUE(Ok(TryOpen()));
    ASSERT_TRUE(Ok(Put("before", "1", true)));
    faulty_->SetPathFilter(".log");
    faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
    EXPECT_FALSE(Put("failed", "1", true).ok());
    // Whether later writes are taken is the engine's choice; if they are, they
    // must be safe. The failed pages were dropped by the kernel.
    for (int i = 0; i < 5; i++) {
      Put(Key(i), "later", true).IgnoreError();  // Noted if acknowledged.
    }
    if (with_flush) db_->Flush({}).IgnoreError();  // The result is not needed.
    CutPowerAndOpen({.lose_everything_unsynced = true});
    if (HasFatalFailure()) return;
    ExpectAcknowledged();
  }
}

TEST_F(DbFaultTest, CloseThatFailedSaysSoAgain) {
  options_.manual_wal_flush = true;
  ASSERT_TRUE(Ok(TryOpen()));
  ASSERT_TRUE(Ok(Put("a", "1", false)));
  faulty_->SetFilesystemActive(false);
  EXPECT_TRUE(db_->Close().IsIOError());
  faulty_->SetFilesystemActive(true);
  EXPECT_TRUE(db_->Close().IsIOError());
}

TEST_F(DbFaultTest, FailedWriteIsNotSeenByReaders) {
  ASSERT_TRUE(Ok(TryOpen()));
  ASSERT_TRUE(Ok(Put("a", "1", false)));
  faulty_->SetPathFilter(".log");
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kWriteOperation);
  EXPECT_FALSE(Put("a", "2", false).ok());
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}));
}

TEST_F(DbFaultTest, ReadErrorsAreReportedAndPass) {
  options_.block_cache = NewTestCache(0);
  ASSERT_TRUE(Ok(TryOpen()));
  for (int i = 0; i < 500; i++) {
    ASSERT_TRUE(Ok(Put(Key(i), std::string(100, 'x'), false)));
  }
  ASSERT_TRUE(Ok(db_->Flush({})));
  std::string value;
  ASSERT_TRUE(Ok(db_->Get({}, Key(1), &value)));
  faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kReadOperation,
                     {.once = false});
  EXPECT_TRUE(IsIOError(db_->Get({}, Key(1), &value)));
  std::vector<std::string> values;
  for (const Status& each : db_->MultiGet({}, {Key(1), Key(400)}, &values)) {
    EXPECT_TRUE(IsIOError(each));
  }
  EntryList found;
  EXPECT_TRUE(ScanForward(db_.get(), {}, &found).IsIOError());
  EXPECT_TRUE(ScanBackward(db_.get(), {}, &found).IsIOError());
  faulty_->ClearFailure();
  ASSERT_TRUE(Ok(db_->Get({}, Key(1), &value)));
  ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
  EXPECT_EQ(found.size(), 500u);
  ASSERT_TRUE(Ok(Put("a", "1", false)));
}

// A thread writes its own keys in order until the power is cut. The results of
// its calls determine which writes must survive.
struct CutWriter {
  int written = 0;
  int synced = 0;

  static std::string KeyOf(int thread, int number) {
    return "thread" + std::to_string(thread) + Key(number);
  }

  void Run(DB* db, int thread, uint64_t seed) {
    Rng rng(seed);
    for (;; written++) {
      WriteOptions options{.sync = rng.OneIn(10)};
      const std::string value(rng.Below(300), static_cast<char>('a' + thread));
      if (!db->Put(options, KeyOf(thread, written), value).ok()) return;
      // All writes before it are safe with it: they are in the same log, or
      // in one that was synced.
      if (options.sync) synced = written + 1;
    }
  }
};

TEST_F(DbFaultTest, PowerCutLeavesAPrefixOfEachThreadWithAllSyncedWrites) {
  constexpr int kThreads = 8;
  const uint64_t first_seed = TestSeed();
  const int cuts = EnvironmentInt("VARVE_POWER_CUTS", 60);
  uint64_t kept = 0, lost = 0;
  for (int cut = 0; cut < cuts; cut++) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(cut);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    Rng rng(seed);
    Renew();
    ASSERT_TRUE(Ok(TryOpen()));
    // The cut comes with some operation of the engine.
    faulty_->FailAfter(rng.Below(3000), FaultInjectionEnv::InjectedError(),
                       kAllOperations & ~kReadingOperations, {.once = false});
    CutWriter writers[kThreads];
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      const uint64_t writer_seed = rng.Next();
      threads.emplace_back(
          [&, t, writer_seed] { writers[t].Run(db_.get(), t, writer_seed); });
    }
    for (std::thread& thread : threads) thread.join();
    CrashOptions crash;
    crash.seed = rng.Next();
    crash.lose_everything_unsynced = rng.OneIn(4);
    CutPowerAndOpen(crash);
    if (HasFatalFailure()) return;
    for (int t = 0; t < kThreads; t++) {
      int found = 0;
      std::string value;
      while (db_->Get({}, CutWriter::KeyOf(t, found), &value).ok()) found++;
      EXPECT_GE(found, writers[t].synced) << "thread " << t;
      EXPECT_LE(found, writers[t].written + 1) << "thread " << t;
      for (int i = found; i <= writers[t].written; i++) {
        EXPECT_FALSE(db_->Get({}, CutWriter::KeyOf(t, i), &value).ok())
            << "a hole: thread " << t << " has write " << i << " but not "
            << found;
      }
      kept += static_cast<uint64_t>(found);
      lost += static_cast<uint64_t>(std::max(writers[t].written - found, 0));
    }
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
    if (HasFailure()) return;
  }
  printf(
      "power loss: %d cuts among %d writers: %llu writes kept, %llu "
      "unsynced ones lost\n",
      cuts, kThreads, static_cast<unsigned long long>(kept),
      static_cast<unsigned long long>(lost));
}

// The first failure has left the MANIFEST in doubt, so a Resume begins a new
// one. Whichever of its steps fails, CURRENT names one that exists.
TEST_F(DbFaultTest, AnyOperationOfAResumeMayFail) {
  for (const bool power_cut : {false, true}) {
    SCOPED_TRACE(power_cut ? "power cut" : "opened again");
    bool met = true;
    for (uint64_t n = 0; met; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n));
      Renew();
      ASSERT_TRUE(Ok(TryOpen()));
      for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(Ok(Put(Key(i), "value", true)));
      }
      faulty_->SetPathFilter("MANIFEST");
      faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
      ASSERT_FALSE(db_->Flush({}).ok());
      faulty_->SetPathFilter("");
      const uint64_t failures = faulty_->FailureCount();
      faulty_->FailAfter(n, FaultInjectionEnv::InjectedError(), kAllOperations);
      const bool resumed = db_->Resume().ok();
      met = faulty_->FailureCount() > failures;
      faulty_->ClearFailure();
      EXPECT_TRUE(resumed || met);
      if (power_cut) {
        CutPowerAndOpen({.lose_everything_unsynced = true});
      } else {
        ASSERT_TRUE(Ok(TryOpen()));
      }
      if (HasFatalFailure()) return;
      ExpectAcknowledged();
      ASSERT_TRUE(Ok(Put("after", "all", true)));
      ASSERT_TRUE(Ok(db_->Flush({})));
      ASSERT_TRUE(Ok(TryOpen()));
      ExpectAcknowledged();
      if (HasFailure()) return;
    }
  }
}

// ---- Writes that are acknowledged and not done ------------------------------

// Tables lose what is appended to them from the `kept_appends`-th time on.
class LosesAppendsEnv final : public EnvWrapper {
 public:
  static constexpr int kAll = 1 << 30;
  using EnvWrapper::EnvWrapper;
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok() && path.find(".sst") != std::string::npos) {
      *file = std::make_unique<File>(std::move(*file), kept_appends);
    }
    return status;
  }

  std::atomic<int> kept_appends{kAll};

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<WritableFile> file, int kept_appends)
        : ForwardingFile(std::move(file)), kept_appends_(kept_appends) {}
    Status Append(const Slice& data) override {
      return appends_++ < kept_appends_ ? ForwardingFile::Append(data)
                                        : Status::OK();
    }

   private:
    const int kept_appends_;
    int appends_ = 0;
  };
};

class DbLostAppendsTest : public ::testing::Test {
 protected:
  DbLostAppendsTest()
      : memory_(NewMemoryEnv(Env::Default())), losing_(memory_.get()) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = &losing_;
    options_.disable_auto_compactions = true;
  }
  ~DbLostAppendsTest() override { db_.reset(); }

  void Open() {
    db_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db_)));
  }
  void Put(int from, int to) {
    for (int i = from; i < to; ++i) {
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), "value of " + Key(i))));
    }
  }
  void ExpectAll(int count) {
    for (int i = 0; i < count; ++i) {
      std::string value;
      EXPECT_TRUE(Ok(db_->Get({}, Key(i), &value))) << Key(i);
      EXPECT_EQ(value, "value of " + Key(i));
    }
  }
  void ExpectReported(const Status& status) {
    EXPECT_TRUE(IsCorruption(status, ".sst"));
    uint64_t errors = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve.background-errors", &errors));
    EXPECT_EQ(errors, 1u);
  }

  const std::unique_ptr<Env> memory_;
  LosesAppendsEnv losing_;
  Options options_;
  std::unique_ptr<DB> db_;
};

// The log is what the entries are read from then.
TEST_F(DbLostAppendsTest, AFlushThatIsNotInItsFileIsReported) {
  for (const int kept : {0, 1}) {
    SCOPED_TRACE(kept);
    db_.reset();
    ASSERT_TRUE(Ok(DestroyDB("/db/it", options_)));
    losing_.kept_appends = LosesAppendsEnv::kAll;
    ASSERT_NO_FATAL_FAILURE(Open());
    Put(0, 10);
    losing_.kept_appends = kept;
    ExpectReported(db_->Flush({}));
    ExpectAll(10);
    losing_.kept_appends = LosesAppendsEnv::kAll;
    if (kept == 0) {
      ASSERT_TRUE(Ok(db_->Resume()));
    }
    ASSERT_NO_FATAL_FAILURE(Open());
    ExpectAll(10);
    Put(10, 20);
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_NO_FATAL_FAILURE(Open());
    ExpectAll(20);
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  }
}

TEST_F(DbLostAppendsTest, ACompactionThatIsNotInItsFilesIsReported) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (int i = 0; i < 40; i += 10) {
    Put(i, i + 10);
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  // So that there is something to be merged.
  for (int i = 0; i < 40; ++i) Put(i, i + 1);
  ASSERT_TRUE(Ok(db_->Flush({})));
  losing_.kept_appends = 1;
  ExpectReported(db_->CompactRange({}, nullptr, nullptr));
  ExpectAll(40);
  losing_.kept_appends = LosesAppendsEnv::kAll;
  ASSERT_NO_FATAL_FAILURE(Open());
  ExpectAll(40);
  ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  ExpectAll(40);
}

TEST_F(DbLostAppendsTest, RepairChecksItsOutput) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Put(0, 10);
  db_.reset();
  ASSERT_TRUE(Ok(memory_->RemoveFile("/db/it/CURRENT")));
  losing_.kept_appends = 0;
  EXPECT_TRUE(IsCorruption(RepairDB("/db/it", options_)));
  losing_.kept_appends = LosesAppendsEnv::kAll;
  ASSERT_TRUE(Ok(RepairDB("/db/it", options_)));
  ASSERT_NO_FATAL_FAILURE(Open());
  ExpectAll(10);
}

}  // namespace
}  // namespace varve::test
