// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a DB that a failure has made read-only can be made writable again, by
// itself if the device was full, without losing what was acknowledged, also if
// the power fails right after; and nothing is ever synced again after its sync
// failed. Method: each kind of file failing in each way, Resume, a power cut
// that takes all that was not synced; a real device that is full.

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/holds_a_table_env.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/env/small_file_system.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

struct Failure {
  const char* part;  // A part of the path.
  OperationMask kinds;
  bool partial;
};

class DbResumeTest : public ::testing::Test {
 protected:
  DbResumeTest()
      : memory_(NewMemoryEnv(Env::Default())), faulty_(memory_.get()) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = &faulty_;
  }
  ~DbResumeTest() override { db_.reset(); }

  void Open() {
    db_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db_)));
  }
  Status Put(const std::string& key, bool sync) {
    Status s = db_->Put({.sync = sync}, key, "value of " + key);
    if (s.ok()) (sync ? synced_ : written_).push_back(key);
    return s;
  }
  bool IsReadOnly() {
    uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve.is-read-only", &value));
    return value != 0;
  }
  void ExpectAll(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      std::string value;
      EXPECT_TRUE(Ok(db_->Get({}, key, &value))) << key;
      EXPECT_EQ(value, "value of " + key);
    }
  }
  void FailFromNowOn(const Failure& failure) {
    faulty_.SetPathFilter(failure.part);
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), failure.kinds,
                      {.once = false, .partial_append = failure.partial});
  }
  // The tables have the same key, so that there is something to compact.
  void OpenWithTwoTables() {
    Open();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Ok(Put("a", true)));
      ASSERT_TRUE(Ok(db_->Flush({})));
    }
  }
  // Once, which makes the DB read-only.
  void FailToSyncALog() {
    faulty_.SetPathFilter(".log");
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
    EXPECT_FALSE(Put("failed", true).ok());
    EXPECT_TRUE(IsReadOnly());
    faulty_.SetPathFilter("");
  }
  void FailNextDirectorySync() {
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(),
                      kSyncDirectoryOperation);
  }
  void CutPower() {
    faulty_.SetFilesystemActive(false);
    db_.reset();
    ASSERT_TRUE(Ok(faulty_.CrashAndReset({.lose_everything_unsynced = true})));
    Open();
  }
  // Synced writes survive a power cut, and so does this one.
  void ResumeAndExpectAllAfterAPowerCut(const std::string& key) {
    ASSERT_TRUE(Ok(db_->Resume()));
    ASSERT_TRUE(Ok(Put(key, true)));
    CutPower();
    if (HasFatalFailure()) return;
    ExpectAll(synced_);
  }

  std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<std::string> written_;
  std::vector<std::string> synced_;
};

TEST_F(DbResumeTest, WithoutAnErrorThereIsNothingToDo) {
  Open();
  ASSERT_TRUE(Ok(Put("a", false)));
  EXPECT_TRUE(Ok(db_->Resume()));
  EXPECT_FALSE(IsReadOnly());
}

// After any failure, Resume lets the DB continue, with all acknowledged data.
TEST_F(DbResumeTest, GoesOnAfterAFailureOfAnyFile) {
  const Failure failures[] = {{".log", kWriteOperation, false},
                              {".log", kWriteOperation, true},
                              {".log", kSyncOperation, false},
                              {".sst", kWriteOperation, false},
                              {".sst", kSyncOperation, false},
                              {"MANIFEST", kWriteOperation, true},
                              {"MANIFEST", kSyncOperation, false},
                              {"", kSyncDirectoryOperation, false}};
  int round = 0;
  for (const Failure& failure : failures) {
    SCOPED_TRACE(std::string(failure.part) + " " +
                 std::to_string(failure.kinds));
    const auto key = [&round](const char* name) {
      return std::string(name) + std::to_string(round);
    };
    round++;
    Open();
    ASSERT_TRUE(Ok(Put(key("synced before"), true)));
    ASSERT_TRUE(Ok(Put(key("before"), false)));
    FailFromNowOn(failure);
    Status s = Put(key("failed"), true);
    if (s.ok()) s = db_->Flush({});
    ASSERT_FALSE(s.ok());
    EXPECT_TRUE(IsReadOnly());
    EXPECT_FALSE(Put(key("refused"), false).ok());
    // The cause still exists.
    EXPECT_FALSE(db_->Resume().ok());
    EXPECT_TRUE(IsReadOnly());
    EXPECT_FALSE(Put(key("refused"), false).ok());
    ExpectAll(written_);
    ExpectAll(synced_);

    faulty_.ClearFailure();
    faulty_.SetPathFilter("");
    ASSERT_TRUE(Ok(db_->Resume()));
    EXPECT_FALSE(IsReadOnly());
    uint64_t in_memory = 1;
    EXPECT_TRUE(
        db_->GetIntProperty("varve.num-entries-active-mem-table", &in_memory));
    EXPECT_EQ(in_memory, 0u);
    ExpectAll(written_);
    ASSERT_TRUE(Ok(Put(key("after"), false)));
    ASSERT_TRUE(Ok(Put(key("synced after"), true)));
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    // Resume has flushed the memtables, so their data is durable.
    CutPower();
    if (HasFatalFailure()) return;
    ExpectAll(synced_);
    ExpectAll(written_);
    if (HasFailure()) return;
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  }
}

// A failed sync, for example of the directory, is reported once only. The error
// that a Resume needs must not go to a concurrent compaction. And an error of
// the compaction must not make the DB read-only again.
TEST_F(DbResumeTest, WaitsForCompactions) {
  HoldsATableEnv holding(&faulty_);
  options_.env = &holding;
  options_.level0_file_num_compaction_trigger = 2;
  for (const bool manual : {false, true}) {
    SCOPED_TRACE(manual);
    options_.disable_auto_compactions = true;
    OpenWithTwoTables();
    if (HasFatalFailure()) return;
    holding.HoldNext();
    std::thread compacter;
    if (manual) {
      compacter = std::thread([&] {
        EXPECT_TRUE(IsIOError(db_->CompactRange({}, nullptr, nullptr)));
      });
    } else {
      ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
    }
    holding.AwaitHeld();

    FailToSyncALog();
    std::atomic<bool> resumed{false};
    std::thread resume([&] {
      EXPECT_TRUE(Ok(db_->Resume()));
      resumed = true;
    });
    // Writes are refused, and do not wait with it.
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) {
      EXPECT_FALSE(Put("refused", true).ok());
    }
    EXPECT_FALSE(resumed);

    holding.Release();
    if (manual) compacter.join();
    resume.join();
    EXPECT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_FALSE(IsReadOnly());
    EXPECT_TRUE(Ok(Put("b", true)));
    EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
    ExpectAll(synced_);
    db_.reset();
  }
}

// The error is reported once, but every job whose names it concerns must learn
// of it: here a flush or a compaction that was running when a write got the
// error,
TEST_F(DbResumeTest, FailedDirectorySyncOfAWriteIsReportedToJobs) {
  HoldsATableEnv holding(&faulty_);
  options_.env = &holding;
  options_.disable_auto_compactions = true;
  for (const bool flushes : {false, true}) {
    SCOPED_TRACE(flushes);
    OpenWithTwoTables();
    if (HasFatalFailure()) return;
    if (flushes) {
      ASSERT_TRUE(Ok(Put("b", true)));
    }
    holding.HoldNext(/*refuses=*/false);
    std::thread job([&] {
      const Status s =
          flushes ? db_->Flush({}) : db_->CompactRange({}, nullptr, nullptr);
      EXPECT_TRUE(IsIOError(s));
    });
    holding.AwaitHeld();
    // The name of the newest log, and of the job's table.
    FailNextDirectorySync();
    EXPECT_FALSE(Put("failed", true).ok());
    EXPECT_TRUE(IsReadOnly());
    holding.Release();
    job.join();
    ResumeAndExpectAllAfterAPowerCut("c");
    if (HasFatalFailure()) return;
  }
  db_.reset();
}

// and here a write while a flush that heard of it clears up.
TEST_F(DbResumeTest, FailedDirectorySyncOfAFlushIsReportedToWrites) {
  HookEnv holding(kRemoveOperation, ".sst", &faulty_);
  std::atomic<bool> holds_next{false}, holds{false};
  holding.hook = [&](const std::string&) {
    if (holds_next.exchange(false)) {
      holds = true;
      while (holds) std::this_thread::yield();
    }
    return Status::OK();
  };
  options_.env = &holding;
  options_.disable_auto_compactions = true;
  OpenWithTwoTables();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Ok(Put("b", true)));
  holds_next = true;
  FailNextDirectorySync();
  std::thread flusher([&] { EXPECT_TRUE(db_->Flush({}).IsIOError()); });
  while (!holds) std::this_thread::yield();
  EXPECT_FALSE(IsReadOnly());
  EXPECT_FALSE(Put("c", true).ok());
  holds = false;
  flusher.join();
  // The new log may have no durable name, even if it is empty.
  ResumeAndExpectAllAfterAPowerCut("d");
  db_.reset();
}

TEST_F(DbResumeTest, LogWithoutASafeNameIsNotUsedOn) {
  OpenWithTwoTables();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Ok(Put("b", true)));
  FailNextDirectorySync();
  EXPECT_FALSE(db_->Flush({}).ok());
  // Nothing was written to the log whose name is lost.
  ResumeAndExpectAllAfterAPowerCut("c");
}

// The sync after an unknown table is moved aside is reported to no caller.
// The name of the new log is not on the device when a drop, which is allowed on
// a full device, could say that no older log is needed.
TEST_F(DbResumeTest, NoEditNamesALogThatAPowerCutCanTake) {
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  Open();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "f", &family)));
  ASSERT_TRUE(Ok(Put("a", true)));
  ASSERT_TRUE(Ok(db_->Flush({})));
  const Status full = Status::FromErrno("injected", ENOSPC);
  faulty_.SetPathFilter(".log");
  faulty_.FailAfter(0, full, kWriteOperation);
  EXPECT_FALSE(Put("failed", true).ok());
  faulty_.SetPathFilter("");
  faulty_.FailAfter(0, full, kSyncDirectoryOperation, {.once = false});
  EXPECT_FALSE(db_->Resume().ok());
  ASSERT_TRUE(Ok(db_->DropColumnFamily(family)));
  delete family;
  CutPower();
  ExpectAll(synced_);
}

TEST_F(DbResumeTest, FailedDirectorySyncOfAnOpenIsCleared) {
  OpenWithTwoTables();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Ok(db_->Close()));
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(faulty_.GetChildren("/db/it", &names)));
  const auto table = std::find_if(
      names.begin(), names.end(),
      [](const std::string& name) { return name.ends_with(".sst"); });
  ASSERT_NE(table, names.end());
  std::string bytes;
  ASSERT_TRUE(Ok(ReadFileToString(&faulty_, "/db/it/" + *table, &bytes)));
  ASSERT_TRUE(Ok(
      WriteStringToFile(&faulty_, bytes, TableFileName("/db/it", 900), true)));
  // After the syncs for the new MANIFEST, CURRENT and lost/.
  faulty_.FailAfter(3, FaultInjectionEnv::InjectedError(),
                    kSyncDirectoryOperation);
  Open();
  if (HasFatalFailure()) return;
  EXPECT_EQ(faulty_.FailureCount(), 1u);
  EXPECT_TRUE(Ok(faulty_.FileExists(TableFileName("/db/it/lost", 900))));
  EXPECT_FALSE(IsReadOnly());
  ASSERT_TRUE(Ok(db_->Resume()));
  ASSERT_TRUE(Ok(Put("b", true)));
  ASSERT_TRUE(Ok(db_->Flush({})));
  CutPower();
  if (HasFatalFailure()) return;
  ExpectAll(synced_);
}

TEST_F(DbResumeTest, OneOfManyDoesNotRestoreAClearedError) {
  Open();
  for (int round = 0; round < 100; ++round) {
    FailNextDirectorySync();
    ASSERT_FALSE(db_->Put({}, "a", "b").ok() && db_->Flush({}).ok());
    std::atomic<int> forgiven{0};
    RunThreads(4, [&](int) {
      EXPECT_TRUE(Ok(db_->Resume()));
      ++forgiven;
      // It must not become read-only again.
      while (forgiven < 4) EXPECT_FALSE(IsReadOnly());
    });
    if (HasFailure()) return;
  }
}

TEST_F(DbResumeTest, CancellingEndsAResumeThatWaitsForACompaction) {
  HoldsATableEnv holding(&faulty_);
  options_.env = &holding;
  options_.disable_auto_compactions = true;
  OpenWithTwoTables();
  if (HasFatalFailure()) return;
  holding.HoldNext();
  std::thread compacter(
      [&] { EXPECT_FALSE(db_->CompactRange({}, nullptr, nullptr).ok()); });
  holding.AwaitHeld();
  FailToSyncALog();
  std::thread resume(
      [&] { EXPECT_TRUE(db_->Resume().IsShutdownInProgress()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  db_->CancelAllBackgroundWork(false);
  resume.join();
  holding.Release();
  compacter.join();
  db_.reset();
  Open();
  ExpectAll(synced_);
  db_.reset();
}

// Failed edits of the MANIFEST leave files. Such a file is removed at once if
// no Open can find it, and otherwise as soon as a MANIFEST does not name it.
TEST_F(DbResumeTest, FailedResumesDoNotFillTheDevice) {
  const auto count = [this](const char* part) {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(memory_->GetChildren("/db/it", &names)));
    return std::count_if(names.begin(), names.end(), [&](const auto& name) {
      return name.find(part) != std::string::npos;
    });
  };
  options_.disable_auto_compactions = true;
  const Failure failures[] = {{"MANIFEST", kWriteOperation, true},
                              {"MANIFEST", kSyncOperation, false},
                              {"MANIFEST", kWriteOperation, false},
                              {"", kSyncDirectoryOperation, false}};
  for (const Failure& failure : failures) {
    SCOPED_TRACE(std::string(failure.part) + " " +
                 std::to_string(failure.kinds));
    Open();
    const auto tables = count(".sst");
    ASSERT_EQ(count("MANIFEST"), 1);
    ASSERT_TRUE(Ok(Put("key", false)));
    FailFromNowOn(failure);
    ASSERT_FALSE(db_->Flush({}).ok());
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(db_->Resume().ok());
    EXPECT_LE(count(".sst"), tables + 1);
    EXPECT_LE(count("MANIFEST"), 2);
    faulty_.ClearFailure();
    faulty_.SetPathFilter("");
    ASSERT_TRUE(Ok(db_->Resume()));
    EXPECT_EQ(count(".sst"), tables + 1);
    EXPECT_EQ(count("MANIFEST"), 1);
    ExpectAll({"key"});
    CutPower();
    if (HasFatalFailure()) return;
    ExpectAll({"key"});
  }
}

TEST_F(DbResumeTest, LogThatFailedIsNotSyncedAgain) {
  Open();
  ASSERT_TRUE(Ok(Put("before", false)));
  faulty_.SetPathFilter(".log");
  faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  EXPECT_FALSE(Put("failed", true).ok());
  const uint64_t operations =
      faulty_.OperationCount(kSyncOperation | kWriteOperation);
  EXPECT_FALSE(Put("refused", true).ok());
  EXPECT_FALSE(db_->SyncWAL().ok());
  EXPECT_FALSE(db_->FlushWAL(true).ok());
  EXPECT_EQ(faulty_.OperationCount(kSyncOperation | kWriteOperation),
            operations);
  // The failed write is not seen, before or after.
  std::string value;
  EXPECT_TRUE(db_->Get({}, "failed", &value).IsNotFound());
  ASSERT_TRUE(Ok(db_->Resume()));
  EXPECT_TRUE(db_->Get({}, "failed", &value).IsNotFound());
  ASSERT_TRUE(Ok(Put("after", true)));
  CutPower();
  ExpectAll({"before", "after"});
  // Its log is not used any more: it would share its number with "after".
  EXPECT_TRUE(db_->Get({}, "failed", &value).IsNotFound());
}

// A Resume on a full device first writes what is in the log's buffer. If that
// fails, the next one needs a new log.
TEST_F(DbResumeTest, LogThatAResumeFailedToWriteIsReplaced) {
  options_.manual_wal_flush = true;
  Open();
  ASSERT_TRUE(Ok(Put("a", false)));
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::FromErrno("disk", ENOSPC), kWriteOperation,
                    {.once = false});
  EXPECT_TRUE(db_->Flush({}).IsNoSpace());
  faulty_.SetPathFilter("");
  EXPECT_FALSE(db_->Resume().ok());
  faulty_.ClearFailure();
  EXPECT_TRUE(Ok(db_->Resume()));
  ResumeAndExpectAllAfterAPowerCut("b");
}

TEST_F(DbResumeTest, CutDuringResumeLosesNothingSynced) {
  // The Resume itself fails at each of its operations, and then the power.
  for (uint64_t n = 0; n < 40; n++) {
    SCOPED_TRACE(n);
    synced_.clear();
    Open();
    ASSERT_TRUE(Ok(Put("synced" + std::to_string(n), true)));
    // Fails the write's own sync, not a concurrent compaction's.
    faulty_.SetPathFilter(".log");
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
    EXPECT_FALSE(Put("failed", true).ok());
    faulty_.SetPathFilter("");
    faulty_.FailAfter(n, FaultInjectionEnv::InjectedError(),
                      kAllOperations & ~kReadingOperations, {.once = false});
    if (db_->Resume().ok()) {
      Put("after" + std::to_string(n), true).IgnoreError();  // May fail too.
    }
    CutPower();
    if (HasFatalFailure()) return;
    ExpectAll(synced_);
    if (HasFailure()) return;
  }
}

TEST_F(DbResumeTest, ResumesByItselfWhenThereIsSpaceAgain) {
  for (const char* part : {".log", ".sst", "MANIFEST"}) {
    SCOPED_TRACE(part);
    Open();
    ASSERT_TRUE(Ok(Put(std::string("before ") + part, false)));
    faulty_.SetPathFilter(part);
    faulty_.FailAfter(0, Status::FromErrno("test", EDQUOT), kWriteOperation,
                      {.once = false, .partial_append = true});
    Status s = Put(std::string("at the end ") + part, false);
    if (s.ok()) s = db_->Flush({});
    EXPECT_TRUE(IsNoSpace(s));
    EXPECT_TRUE(IsReadOnly());
    EXPECT_TRUE(Put("refused", false).IsNoSpace());
    // Until it has tried once, in vain.
    const uint64_t failures = faulty_.FailureCount();
    while (faulty_.FailureCount() == failures) std::this_thread::yield();
    EXPECT_TRUE(Put("refused", false).IsNoSpace());
    faulty_.ClearFailure();
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (IsReadOnly() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    ASSERT_FALSE(IsReadOnly());
    ASSERT_TRUE(Ok(Put(std::string("after ") + part, true)));
    CutPower();
    ExpectAll(written_);
    ExpectAll(synced_);
  }
}

// The flush that a Resume waits for may still stand in the queue of threads
// that work for other databases, from where Close takes it.
TEST_F(DbResumeTest, CloseEndsAResumeThatWaitsForAQueuedFlush) {
  Open();
  // More threads than can exist, whatever other tests have requested.
  constexpr int kMostThreads = 64;
  std::atomic<int> busy{0};
  std::atomic<bool> release{false};
  for (int i = 0; i < kMostThreads; ++i) {
    ++busy;
    ASSERT_TRUE(Ok(faulty_.Schedule(
        [&] {
          while (!release) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          --busy;
        },
        Env::Priority::kHigh)));
  }
  ASSERT_TRUE(Ok(Put("a", false)));
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  faulty_.SetPathFilter(".log");
  faulty_.FailAfter(0, Status::FromErrno("disk", ENOSPC), kWriteOperation);
  EXPECT_TRUE(Put("b", false).IsNoSpace());
  // The Resume that comes by itself is as good; this one is sure to have begun.
  std::thread resume([&] { EXPECT_FALSE(db_->Resume().ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_TRUE(db_->Close().IsNoSpace());
  resume.join();
  release = true;
  while (busy > 0) std::this_thread::yield();
  faulty_.ClearFailure();
  db_.reset();
  Open();
  ExpectAll({"a"});
}

TEST_F(DbResumeTest, CloseReportsUnsavedUpdates) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "a", "1")));
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::IOError("injected"), kSyncOperation);
  EXPECT_FALSE(db_->Flush({}).ok());
  faulty_.ClearFailure();
  EXPECT_TRUE(IsIOError(db_->Close()));
}

// Its pages are lost, though the next sync of the file returns OK.
TEST_F(DbResumeTest, CloseDoesNotTrustALogWhoseSyncHasFailed) {
  Open();
  ASSERT_TRUE(Ok(Put("a", false)));
  faulty_.SetPathFilter(".log");
  faulty_.FailAfter(0, Status::IOError("injected"), kSyncOperation);
  EXPECT_FALSE(Put("b", true).ok());
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::IOError("injected"), kSyncOperation);
  EXPECT_FALSE(db_->Resume().ok());
  faulty_.ClearFailure();
  EXPECT_TRUE(IsIOError(db_->Close()));
}

// A later sync of the directory says OK, and does not bring its name back.
TEST_F(DbResumeTest, CloseDoesNotTrustALogWhoseNameIsLost) {
  HoldsATableEnv holding(&faulty_);
  options_.env = &holding;
  Open();
  ASSERT_TRUE(Ok(Put("a", true)));
  holding.HoldNext(/*refuses=*/false);
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  holding.AwaitHeld();
  ASSERT_TRUE(Ok(Put("b", false)));  // To the new log.
  FailNextDirectorySync();
  holding.Release();
  EXPECT_FALSE(db_->WaitForCompact().ok());
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::IOError("injected"), kSyncOperation);
  EXPECT_FALSE(db_->Resume().ok());
  faulty_.ClearFailure();
  EXPECT_TRUE(IsIOError(db_->Close()));
  CutPower();
  if (HasFatalFailure()) return;
  ExpectAll(synced_);
  db_.reset();
}

TEST_F(DbResumeTest, CloseSyncsTheLogAlthoughAFlushFailed) {
  Open();
  ASSERT_TRUE(Ok(Put("a", false)));
  faulty_.SetPathFilter(".sst");
  faulty_.FailAfter(0, Status::IOError("injected"), kSyncOperation);
  EXPECT_FALSE(db_->Flush({}).ok());
  faulty_.ClearFailure();
  EXPECT_TRUE(Ok(db_->Close()));
  CutPower();
  ExpectAll({"a"});
}

TEST_F(DbResumeTest, CloseDoesNotWaitForSpace) {
  Open();
  ASSERT_TRUE(Ok(Put("a", false)));
  faulty_.FailAfter(0, Status::FromErrno("test", ENOSPC), kWriteOperation,
                    {.once = false});
  EXPECT_TRUE(Put("b", false).IsNoSpace());
  db_->Close().IgnoreError();  // That it returns is the point.
  db_.reset();
  faulty_.ClearFailure();
  Open();
  ExpectAll(written_);
}

// A file system of 12 MiB.
class FullDeviceTest : public ::testing::TestWithParam<WriteMethod> {
 protected:
  // The tests above inject the errors that the database meets here.
  void SetUp() override {
    if (!small_.is_mounted()) GTEST_SKIP() << kMayNotMount;
  }

  TempDir dir_;
  const SmallFileSystem small_{dir_.path(), "12m"};
};

TEST_P(FullDeviceTest, KeepsAcknowledgedWritesAndContinues) {
  Options options = TinyOptions();
  options.wal_write = GetParam();
  options.write_buffer_size = 256 << 10;
  options.compression = CompressionType::kNone;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, dir_.Sub("db"), &db)));
  const std::string ballast = dir_.Sub("ballast");
  ASSERT_TRUE(Ok(WriteStringToFile(Env::Default(), std::string(6 << 20, 'b'),
                                   ballast, true)));
  int written = 0;
  Status s;
  const auto put = [&] {
    s = db->Put({}, Key(written), std::string(1000, 'v'));
    if (s.ok()) written++;
  };
  while (s.ok() && written < 10000) put();
  EXPECT_TRUE(IsNoSpace(s));
  const int when_full = written;
  for (int i = 0; i < 10; i++) put();
  ASSERT_TRUE(Ok(Env::Default()->RemoveFile(ballast)));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (written == when_full && std::chrono::steady_clock::now() < end) {
    put();
    std::this_thread::yield();
  }
  EXPECT_GT(written, when_full) << s.ToString();
  db.reset();
  ASSERT_TRUE(Ok(DB::Open(options, dir_.Sub("db"), &db)));
  for (int i = 0; i < written; i++) {
    std::string value;
    ASSERT_TRUE(Ok(db->Get({}, Key(i), &value))) << i << " of " << written;
  }
  ASSERT_TRUE(Ok(db->VerifyChecksum()));
}

INSTANTIATE_TEST_SUITE_P(All, FullDeviceTest,
                         ::testing::ValuesIn(kWriteMethods),
                         [](const auto& test) {
                           return WriteMethodName(test.param);
                         });

}  // namespace
}  // namespace varve::test
