// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Close costs one sync if the log has updates, and touches no file of a
// database that did not change; and all that was written before it survives a
// power cut after it. Method: an Env that counts operations and simulates power
// cuts, over files in memory. The info log is not counted.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr OperationMask kSyncs = kSyncOperation | kSyncDirectoryOperation;
constexpr OperationMask kChanges = kSyncs | kCreateOperation | kWriteOperation |
                                   kRenameOperation | kRemoveOperation |
                                   kLinkOperation | kTruncateOperation;

class DbCloseCostTest : public DbTestBase {
 protected:
  DbCloseCostTest() {
    path_ = "/db";
    options_.env = &env_;
    options_.statistics = NewTestStatistics();
  }
  void TearDown() override { db_.reset(); }

  // Closes the database. Returns the operations of these kinds in Close.
  uint64_t CountClose(OperationMask kinds) {
    EXPECT_TRUE(Ok(db_->WaitForCompact()));
    const uint64_t before = env_.OperationCount(kinds);
    EXPECT_TRUE(Ok(db_->Close()));
    const uint64_t count = env_.OperationCount(kinds) - before;
    db_.reset();
    // The destructor does nothing more.
    EXPECT_EQ(env_.OperationCount(kinds) - before, count);
    return count;
  }

  size_t FilesIn(const std::string& ending) {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env_.GetChildren(path_, &names)));
    return static_cast<size_t>(std::count_if(
        names.begin(), names.end(),
        [&](const auto& name) { return name.ends_with(ending); }));
  }

  // Cuts the power after a Close, and expects the keys with their own names as
  // values. Everything that was not synced is lost, or some of it is torn.
  void ExpectAfterPowerCuts(const std::vector<std::string>& keys) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(seed);
      env_.SetFilesystemActive(false);
      ASSERT_TRUE(Ok(env_.CrashAndReset(
          {.seed = seed, .lose_everything_unsynced = seed == 0})));
      options_.wal_recovery_mode = seed % 2 == 0
                                       ? WalRecoveryMode::kAbsoluteConsistency
                                       : WalRecoveryMode::kPointInTime;
      Open();
      for (const std::string& key : keys) EXPECT_EQ(Get(key), key);
      EXPECT_EQ(options_.statistics->getTickerCount(Ticker::kLogsIncomplete),
                0u);
      // For the next cut.
      Put("again", std::to_string(seed));
      Put("a", "a");
      Close();
    }
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env_{memory_.get()};
};

TEST_F(DbCloseCostTest, OfANewDatabaseNothing) {
  Open();
  EXPECT_EQ(CountClose(kChanges), 0u);
  // It is opened without a write of its files, too.
  Open();
  EXPECT_EQ(Get("a"), "NotFound");
  EXPECT_EQ(CountClose(kChanges), 0u);
}

TEST_F(DbCloseCostTest, OfAnUnchangedDatabaseNothing) {
  Open();
  Put("a", "a");
  Close();
  for (int i = 0; i < 3; ++i) {  // The first Open flushes the log.
    Open();
    EXPECT_EQ(Get("a"), "a");
    EXPECT_EQ(CountClose(kChanges), 0u) << i;
  }
  ExpectAfterPowerCuts({"a"});
}

TEST_F(DbCloseCostTest, AfterAWriteOneSyncOfTheLog) {
  for (const bool manual : {false, true}) {
    options_.manual_wal_flush = manual;
    OpenAnew();
    Put("a", "a");
    EXPECT_EQ(CountClose(kSyncs), 1u);
    Open();
    EXPECT_EQ(Get("a"), "a");
    Put("b", "b");
    EXPECT_EQ(CountClose(kSyncs | kCreateOperation | kRenameOperation), 1u);
    ExpectAfterPowerCuts({"a", "b"});
  }
}

// Such a database was opened without a MANIFEST of its own. Besides the log,
// the directory is synced, which has a new log of the old name.
TEST_F(DbCloseCostTest, AfterAWriteWhereNothingWasLeftToDoTwoSyncs) {
  Do("open, put a a, flush");
  Close();
  Do("open, put b b");
  EXPECT_EQ(CountClose(kSyncs | kRenameOperation), 2u);
  EXPECT_EQ(FilesIn(".dbtmp"), 1u);  // The note.
  Open();
  EXPECT_EQ(Get("b"), "b");
  EXPECT_EQ(FilesIn(".dbtmp"), 0u);
  Flush();
  Close();
  Do("open, put b b");
  Close();
  ExpectAfterPowerCuts({"a", "b"});
}

TEST_F(DbCloseCostTest, AfterASyncedWriteOneSync) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, "a", "a")));
  EXPECT_LE(CountClose(kSyncs), 1u);
  ExpectAfterPowerCuts({"a"});
}

TEST_F(DbCloseCostTest, AfterAFlushNothing) {
  Open();
  Put("a", "a");
  Flush();
  EXPECT_EQ(CountClose(kChanges), 0u);
  Open();
  EXPECT_EQ(Get("a"), "a");
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "b", "b")));
  Flush();
  EXPECT_EQ(CountClose(kChanges), 0u);
  ExpectAfterPowerCuts({"a", "b"});
}

TEST_F(DbCloseCostTest, UpdatesWithoutALogCostAFlushUnlessTheyMayBeLost) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "a", "a")));
  EXPECT_GT(CountClose(kSyncs), 0u);
  options_.avoid_flush_during_shutdown = true;
  Open();
  EXPECT_EQ(Get("a"), "a");
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "b", "b")));
  EXPECT_EQ(CountClose(kChanges), 0u);
  // Logged ones may not.
  Open();
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "b", "b")));
  Put("c", "c");
  EXPECT_GT(CountClose(kSyncs), 0u);
  ExpectAfterPowerCuts({"a", "c"});
}

TEST_F(DbCloseCostTest, LogDataAndEmptyRangesCountAsUpdates) {
  Open();
  WriteBatch note;
  note.PutLogData("note");
  ASSERT_TRUE(Ok(db_->Write({}, &note)));
  EXPECT_EQ(CountClose(kSyncs), 1u);
}

// The memtable of one family keeps the log, while another is flushed.
TEST_F(DbCloseCostTest, AFamilyThatIsNotFlushedKeepsTheLog) {
  Open();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "f", &family)));
  Put("a", "a");
  ASSERT_TRUE(Ok(db_->Put({}, family, "b", "b")));
  Flush();
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
  EXPECT_GT(CountClose(kSyncs), 0u);
  env_.SetFilesystemActive(false);
  ASSERT_TRUE(Ok(env_.CrashAndReset({.lose_everything_unsynced = true})));
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Ok(DB::Open(
      options_, path_, {{kDefaultColumnFamilyName, options_}, {"f", options_}},
      &handles, &db_)));
  std::string value;
  EXPECT_TRUE(Ok(db_->Get({}, handles[1], "b", &value)));
  EXPECT_EQ(value, "b");
  for (ColumnFamilyHandle* const handle : handles) {
    ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handle)));
  }
}

}  // namespace
}  // namespace varve::test
