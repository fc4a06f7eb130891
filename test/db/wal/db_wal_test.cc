// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the log holds what its options promise, in each of its forms: handed
// over at once, by hand, through a mapping; with and without a sync. Method: a
// copy of the files while the DB is open is what a killed process leaves; the
// copy is opened.

#include <sys/stat.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/pausing_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbWalTest : public DbTestBase {
 protected:
  DbWalTest() { options_.env = &env_; }
  ~DbWalTest() override {
    env_.LetGo();
    db_.reset();
  }

  // A new database in place of the last one, with many write buffers.
  void Renew(WriteMethod method) {
    env_.LetGo();
    db_.reset();
    options_.wal_write = method;
    options_.max_write_buffer_number = 10;
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
    Open();
    env_.KeepBack(Env::Priority::kHigh);
  }
  // The entries that a process killed now would leave.
  EntryList AfterKill(
      WalRecoveryMode mode = WalRecoveryMode::kAbsoluteConsistency) {
    const std::string copy = dir_.Sub("copy" + std::to_string(copies_++));
    CopyDirectory(path_, copy);
    std::unique_ptr<DB> db;
    EntryList entries;
    Options options = options_;
    options.env = Env::Default();
    options.wal_recovery_mode = mode;
    EXPECT_TRUE(Ok(DB::Open(options, copy, &db)));
    EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    return entries;
  }
  std::vector<std::string> Logs() {
    std::vector<std::string> logs;
    for (const auto& [name, bytes] : ReadDirectory(path_)) {
      if (name.ends_with(".log")) logs.push_back(bytes);
    }
    return logs;
  }

  PausingEnv env_;
  int copies_ = 0;
};

TEST_F(DbWalTest, WritesAreInTheLogWhenTheyReturn) {
  for (const WriteMethod method : kWriteMethods) {
    Renew(method);
    EntryList expected;
    for (int i = 0; i < 300; i++) {
      expected.emplace_back(Key(i), std::string(static_cast<size_t>(i), 'v'));
      Put(expected.back().first, expected.back().second);
      if (i % 100 == 0) {
        EXPECT_TRUE(SameEntries(expected, AfterKill()));
      }
    }
    EXPECT_TRUE(SameEntries(expected, AfterKill()));
  }
}

TEST_F(DbWalTest, MappedLogEndsInZerosUntilItIsClosed) {
  options_.wal_write = WriteMethod::kMap;
  Open();
  Put("a", "1");
  ASSERT_EQ(Logs().size(), 1u);
  EXPECT_GE(Logs()[0].size(), 64u << 10);
  EXPECT_EQ(Logs()[0].back(), '\0');
  Close();
  ASSERT_EQ(Logs().size(), 1u);
  EXPECT_LT(Logs()[0].size(), 100u);
  Open();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DbWalTest, LogThatIsSyncedOftenEndsInZerosUntilItIsClosed) {
  Open();
  WriteOptions sync{.sync = true};
  EntryList expected;
  for (int i = 0; i < 100; ++i) {
    expected.emplace_back(Key(i), "value");
    ASSERT_TRUE(Ok(db_->Put(sync, expected.back().first, "value")));
  }
  ASSERT_EQ(Logs().size(), 1u);
  const size_t size = Logs()[0].size();
  EXPECT_EQ(Logs()[0].back(), '\0');
  EXPECT_TRUE(SameEntries(expected, AfterKill()));
  Close();
  ASSERT_EQ(Logs().size(), 1u);
  EXPECT_LT(Logs()[0].size(), size);
  EXPECT_NE(Logs()[0].back(), '\0');
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

TEST_F(DbWalTest, MappedLogsAreReplayedOneAfterTheOther) {
  Renew(WriteMethod::kMap);
  EntryList expected;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 400; i++) {
      expected.emplace_back(Key(round * 1000 + i), std::string(200, 'v'));
      Put(expected.back().first, expected.back().second);
    }
    EXPECT_TRUE(SameEntries(expected, AfterKill()));
    ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
    EXPECT_TRUE(SameEntries(expected, AfterKill()));
  }
}

TEST_F(DbWalTest, RecordsLargerThanEverythingAreWhole) {
  for (const WriteMethod method : kWriteMethods) {
    Renew(method);
    Rng rng(17);
    EntryList expected;
    // Beyond the write buffer, the file's buffer and the mapping's window.
    for (const size_t size : {64u << 10, 3u << 20, 100u, 1u << 20}) {
      expected.emplace_back(Key(static_cast<int>(expected.size())),
                            rng.Bytes(size));
      Put(expected.back().first, expected.back().second);
      EXPECT_TRUE(SameEntries(expected, AfterKill()));
    }
    EXPECT_TRUE(HasEntries(db_.get(), expected));
  }
}

TEST_F(DbWalTest, ManualFlushKeepsWritesUntilFlushWal) {
  options_.manual_wal_flush = true;
  Open();
  Put("a", "1");
  EXPECT_TRUE(SameEntries({}, AfterKill()));
  ASSERT_TRUE(Ok(db_->FlushWAL(false)));
  EXPECT_TRUE(SameEntries({{"a", "1"}}, AfterKill()));
  Put("b", "2");
  EXPECT_TRUE(SameEntries({{"a", "1"}}, AfterKill()));
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, "c", "3")));
  EXPECT_TRUE(SameEntries({{"a", "1"}, {"b", "2"}, {"c", "3"}}, AfterKill()));
  Put("d", "4");
  ASSERT_TRUE(Ok(db_->SyncWAL()));
  EXPECT_EQ(AfterKill().size(), 4u);
  Put("e", "5");
  Reopen();
  EXPECT_EQ(Get("e"), "5");
}

TEST_F(DbWalTest, ManualFlushHandsLargeWritesOver) {
  options_.manual_wal_flush = true;
  options_.write_buffer_size = 16 << 20;
  Open();
  Put("a", "1");
  for (const size_t size : {64 << 10, 100 << 10, 3 << 20}) {
    Put("large", std::string(size, 'v'));
    const EntryList left = AfterKill();
    ASSERT_EQ(left.size(), 2u) << size;
    EXPECT_EQ(left.back().second.size(), static_cast<size_t>(size));
  }
  // Smaller writes lose less than 128 KiB.
  constexpr int kWrites = 1000;
  constexpr size_t kBytes = 1000;
  for (int i = 0; i < kWrites; ++i) Put(Key(i), std::string(kBytes, 'v'));
  EXPECT_GE(AfterKill(WalRecoveryMode::kPointInTime).size(),
            2 + kWrites - (128 << 10) / kBytes);
}

TEST_F(DbWalTest, ManualFlushLeavesNoHoleBetweenLogs) {
  options_.manual_wal_flush = true;
  Renew(WriteMethod::kCall);
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  Put("b", "2");
  ASSERT_TRUE(Ok(db_->FlushWAL(false)));
  EXPECT_TRUE(SameEntries({{"a", "1"}, {"b", "2"}}, AfterKill()));
}

TEST_F(DbWalTest, PutMakesOneWriteOfTheRightBytes) {
  const auto memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv counting(memory.get());
  ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
  options_.env = &counting;
  path_ = "/db/it";
  Open();
  counting.SetPathFilter(".log");
  const uint64_t before = counting.OperationCount(kWriteOperation);
  Put("key", "value");
  // Header, batch, and the one that hands them over.
  EXPECT_EQ(counting.OperationCount(kWriteOperation) - before, 3u);
  const uint64_t syncs = counting.OperationCount(kSyncOperation);
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, "key", "value")));
  EXPECT_EQ(counting.OperationCount(kSyncOperation) - syncs, 1u);
  db_.reset();
  options_.env = &env_;
}

TEST_F(DbWalTest, LogFilesReleaseAllocatedSpace) {
  Open();
  Put("a", "1");
  Close();
  uint64_t blocks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() != ".log") continue;
    struct stat info = {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    blocks += static_cast<uint64_t>(info.st_blocks);
  }
  EXPECT_LE(blocks * 512, 16u << 10);
}

TEST_F(DbWalTest, ReadOnlyRefuses) {
  Open();
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(db_->FlushWAL(false).IsNotSupported());
  EXPECT_TRUE(db_->FlushWAL(true).IsNotSupported());
  EXPECT_TRUE(db_->Resume().IsNotSupported());
}

}  // namespace
}  // namespace varve::test
