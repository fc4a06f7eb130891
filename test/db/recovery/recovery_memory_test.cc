// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: recovery writes tables while it reads the logs, in the memory of one
// memtable, and is still all or nothing. Method: logs that are many times as
// large as the write buffer; the memory account at each table that is begun;
// copies of the directory as it is at some moment of recovery, damage at the
// end of the log, and an Env that refuses one call after the other.

#include "env/file_names.h"
#include "monitoring/memory_accounting.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"
#include "varve/listener.h"

namespace varve::test {
namespace {

constexpr int kEntries = 4000;
constexpr size_t kValueBytes = 8 << 10;  // 32 MB in total.
// The memory that recovery may use for memtables with a small write buffer.
constexpr uint64_t kBoundBytes = 4 << 20;

std::string ValueOf(int i) {
  std::string value(kValueBytes, 'v');
  const std::string number = std::to_string(i);
  std::copy(number.begin(), number.end(), value.begin());
  return value;
}

uint64_t LiveMemTableBytes() {
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  return kinds[static_cast<int>(MemoryKind::kMemTable)].live();
}

bool IsRecoveryTable(const std::string& path) {
  return path.ends_with(".dbtmp") && path.find("/000000.") == std::string::npos;
}

class RecoveryMemoryTest : public DbTestBase {
 protected:
  RecoveryMemoryTest() {
    options_.env = &env_;
    options_.compression = CompressionType::kNone;
    options_.disable_auto_compactions = true;
  }

  // Creates a closed database with all entries in one log.
  void MakeLog() {
    options_.write_buffer_size = 512 << 20;
    options_.avoid_flush_during_shutdown = true;
    Open();
    for (int i = 0; i < kEntries; ++i) {
      ASSERT_TRUE(Ok(db_->Put({}, Key(i), ValueOf(i))));
    }
    Close();
    options_.write_buffer_size = 64 << 10;
    TEST_DrainRetired();
  }

  void ExpectAll() {
    for (int i = 0; i < kEntries; ++i) ASSERT_EQ(Get(Key(i)), ValueOf(i));
  }

  // Names and bytes of what is the database's.
  std::map<std::string, std::string> Contents() {
    auto files = ReadDirectory(path_);
    files.erase("LOCK");
    std::erase_if(
        files, [](const auto& file) { return file.first.starts_with("LOG"); });
    return files;
  }

  HookEnv env_{kCreateOperation | kRenameOperation};
};

TEST_F(RecoveryMemoryTest, OneMemTableIsInMemoryAtATime) {
  MakeLog();
  const uint64_t before = LiveMemTableBytes();
  uint64_t peak = 0;
  env_.hook = [&](const std::string&) {
    peak = std::max(peak, LiveMemTableBytes() - before);
    return Status::OK();
  };
  options_.statistics = NewTestStatistics();
  Open();
  EXPECT_LT(peak, kBoundBytes);
  EXPECT_GE(TablesAt(0), 20U);
  EXPECT_LT(TablesAt(0), 100U);
  EXPECT_EQ(db_->GetLatestSequenceNumber(), uint64_t{kEntries});
  const uint64_t flushed =
      options_.statistics->getTickerCount(Ticker::kFlushWriteBytes);
  EXPECT_EQ(flushed, Number("varve.total-sst-files-size"));
  ExpectAll();
  // All is in tables then.
  const auto tables_made = FilesEndingIn(path_, ".sst");
  Reopen();
  EXPECT_EQ(FilesEndingIn(path_, ".sst"), tables_made);
  ExpectAll();
}

TEST_F(RecoveryMemoryTest, LeftoversOfACrashAreRemovedAndNothingIsLost) {
  MakeLog();
  const std::string copy = dir_.Sub("copy");
  int tables = 0;
  env_.hook = [&](const std::string& path) {
    if (IsRecoveryTable(path) && ++tables == 3) CopyDirectory(path_, copy);
    return Status::OK();
  };
  Open();
  Close();
  EXPECT_GE(FilesEndingIn(copy, ".dbtmp").size(), 2U);
  // The first table that is begun finds that the space is free again.
  size_t leftovers = 100;
  env_.hook = [&](const std::string& path) {
    if (IsRecoveryTable(path) && leftovers == 100) {
      leftovers = FilesEndingIn(copy, ".dbtmp").size();
    }
    return Status::OK();
  };
  path_ = copy;
  Open();
  EXPECT_EQ(leftovers, 0U);
  ExpectAll();
  EXPECT_TRUE(FilesEndingIn(copy, ".dbtmp").empty());
  EXPECT_EQ(FilesEndingIn(copy, ".sst").size(), Tables());
  EXPECT_FALSE(std::filesystem::exists(copy + "/lost"));
}

TEST_F(RecoveryMemoryTest, ARecoveryThatFailsLeavesTheDatabaseAsItWas) {
  MakeLog();
  const std::string log = FilesEndingIn(path_, ".log").at(0);
  FlipByte(log, std::filesystem::file_size(log) - kValueBytes / 2);
  const auto before = Contents();
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  int tables = 0;
  env_.hook = [&](const std::string& path) {
    if (IsRecoveryTable(path)) ++tables;
    return Status::OK();
  };
  EXPECT_TRUE(TryOpen().IsCorruption());
  EXPECT_GE(tables, 2);
  EXPECT_EQ(Contents(), before);
  // All but the last is there in the other mode.
  options_.wal_recovery_mode = WalRecoveryMode::kPointInTime;
  Open();
  EXPECT_EQ(Get(Key(kEntries - 2)), ValueOf(kEntries - 2));
  EXPECT_EQ(Get(Key(kEntries - 1)), "NotFound");
}

TEST_F(RecoveryMemoryTest, ErrorsAtAnyStepLoseNothingAndLeaveNoTables) {
  MakeLog();
  options_.write_buffer_size = 8 << 20;
  for (int refused = 1;; ++refused) {
    SCOPED_TRACE(refused);
    int calls = 0;
    bool manifest_begun = false;
    bool current_refused = false;
    env_.hook = [&](const std::string& path) {
      if (path.find("/LOG") != std::string::npos) return Status::OK();
      if (path.find("/MANIFEST-") != std::string::npos) manifest_begun = true;
      if (++calls != refused) return Status::OK();
      current_refused = manifest_begun && path.ends_with(".dbtmp");
      return Status::IOError(path, "refused");
    };
    const Status status = TryOpen();
    if (status.ok()) {
      EXPECT_LT(calls, refused);
      break;
    }
    // Whether CURRENT was changed is not known then: the tables must stay.
    if (current_refused) break;
    EXPECT_TRUE(IsIOError(status));
    for (const std::string& name : FilesEndingIn(path_, ".dbtmp")) {
      EXPECT_FALSE(IsRecoveryTable(name)) << name;
    }
    EXPECT_TRUE(FilesEndingIn(path_, ".sst").empty());
  }
  env_.hook = nullptr;
  Open();
  ExpectAll();
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
}

TEST_F(RecoveryMemoryTest, AReadOnlyOpenReadsALongLogToo) {
  MakeLog();
  const auto before = Contents();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  ExpectAll();
  db_.reset();
  EXPECT_EQ(Contents(), before);
}

}  // namespace
}  // namespace varve::test
