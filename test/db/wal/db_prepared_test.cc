// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a prepared transaction is invisible, survives flushes, opens, kills and
// errors, and is committed or rolled back once; its log is kept as long as it
// is needed and no longer. Method: single cases, on files in memory.

#include "test/testing/db/prepared_fixture.h"
#include "test/testing/env/pausing_env.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

using Names = std::vector<std::string>;

class DbPreparedTest : public PreparedTest {};

TEST_F(DbPreparedTest, IsInvisibleUntilItIsCommitted) {
  Open();
  Put("k", "old");
  Put("gone", "v");
  const uint64_t before = db_->GetLatestSequenceNumber();
  WriteBatch batch;
  batch.Put("k", "new");
  batch.Put(At("a"), "k", "in a");
  batch.Merge("list", "1");
  batch.Delete("gone");
  batch.PutLogData("a note");
  batch.DeleteRange(At("a"), "x", "z");
  ASSERT_TRUE(Ok(db_->Put({}, At("a"), "y", "deleted by the range")));
  ASSERT_TRUE(Ok(db_->WritePrepared({}, "t", &batch)));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before + 1);
  EXPECT_EQ(Get("k"), "old");
  EXPECT_EQ(Get("k", "a"), "-");
  EXPECT_EQ(Prepared(), Names{"t"});
  Put("list", "0");
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before + 2 + batch.Count());
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(Get("k"), "new");
    EXPECT_EQ(Get("gone"), "-");
    EXPECT_EQ(Get("list"), "0,1");
    EXPECT_EQ(Get("k", "a"), "in a");
    EXPECT_EQ(Get("y", "a"), "-");
    EXPECT_EQ(Prepared(), Names{});
    pass == 0 ? Kill() : Reopen();
  }
}

TEST_F(DbPreparedTest, AppliesTheUpdatesOfTheCommitFirst) {
  Open();
  WriteBatch batch;
  batch.Merge("list", "prepared");
  batch.Put("k", "prepared");
  ASSERT_TRUE(Ok(db_->WritePrepared({}, "t", &batch)));
  const uint64_t before = db_->GetLatestSequenceNumber();
  WriteBatch first;
  first.Merge("list", "first");
  first.Put("k", "first");
  first.Put(At("a"), "k", "first");
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t", &first)));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before + 5);
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(Get("list"), "first,prepared");
    EXPECT_EQ(Get("k"), "prepared");
    EXPECT_EQ(Get("k", "a"), "first");
    pass == 0 ? Kill() : Reopen();
  }
}

TEST_F(DbPreparedTest, StaysPreparedIfTheCommitCannotApplyItsOwnUpdates) {
  Open();
  PreparePut("t", "v");
  WriteBatch first;
  first.Put(At("a"), "k", "v");
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("a"))));
  EXPECT_TRUE(IsInvalidArgument(db_->CommitPrepared({}, "t", &first)));
  EXPECT_EQ(Get("t"), "-");
  EXPECT_EQ(Prepared(), Names{"t"});
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  EXPECT_EQ(Get("t"), "v");
}

TEST_F(DbPreparedTest, LeavesNothingWhenItIsRolledBack) {
  Open();
  PreparePut("t", "v");
  ASSERT_TRUE(Ok(db_->RollbackPrepared({}, "t")));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(Get("t"), "-");
    EXPECT_EQ(Prepared(), Names{});
    Kill();
  }
}

TEST_F(DbPreparedTest, NamesAreUniqueAmongPreparedOnes) {
  Open();
  const std::string odd("z\0\xff", 3);
  PreparePut(odd, "1");
  WriteBatch batch;
  batch.Put("k", "v");
  EXPECT_TRUE(IsInvalidArgument(db_->WritePrepared({}, odd, &batch)));
  EXPECT_TRUE(IsInvalidArgument(db_->WritePrepared({}, "", &batch)));
  EXPECT_TRUE(db_->CommitPrepared({}, "z").IsNotFound());
  EXPECT_TRUE(db_->RollbackPrepared({}, "z").IsNotFound());
  // A name may be used again.
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, odd)));
  EXPECT_TRUE(db_->CommitPrepared({}, odd).IsNotFound());
  PreparePut(odd, "2");
  ASSERT_TRUE(Ok(db_->RollbackPrepared({}, odd)));
  PreparePut(odd, "3");
  Kill();
  EXPECT_EQ(Get(odd), "1");
  EXPECT_EQ(Prepared(), Names{odd});
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, odd)));
  EXPECT_EQ(Get(odd), "3");
}

TEST_F(DbPreparedTest, MayHaveNoUpdates) {
  Open();
  WriteBatch none;
  ASSERT_TRUE(Ok(db_->WritePrepared({}, "empty", &none)));
  Kill();
  EXPECT_EQ(Prepared(), Names{"empty"});
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "empty")));
  Kill();
  EXPECT_EQ(Prepared(), Names{});
}

TEST_F(DbPreparedTest, SurvivesOpensAndFlushes) {
  Open();
  PreparePut("t", "v");
  for (int i = 0; i < 4; ++i) {
    Put("k" + std::to_string(i), "v");
    Flush();
    i % 2 == 0 ? Reopen() : Kill();
    EXPECT_EQ(Prepared(), Names{"t"});
    EXPECT_EQ(Get("t"), "-");
  }
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  Kill();
  EXPECT_EQ(Get("t"), "v");
  EXPECT_EQ(Get("k3"), "v");
}

TEST_F(DbPreparedTest, ItsLogIsKeptUntilTheCommitIsInTables) {
  Open();
  PreparePut("t", "v");
  for (int i = 0; i < 3; ++i) {
    Put("k" + std::to_string(i), "v");
    Flush();
  }
  EXPECT_EQ(LogCount(), 4u);
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  EXPECT_EQ(LogCount(), 4u);
  Kill();
  EXPECT_EQ(Get("t"), "v");
  EXPECT_EQ(LogCount(), 1u);

  PreparePut("u", "v");
  Put("k", "v");
  Flush();
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "u")));
  EXPECT_EQ(LogCount(), 2u);
  Flush();
  EXPECT_EQ(LogCount(), 1u);
  EXPECT_EQ(Get("u"), "v");

  PreparePut("w", "v");
  Put("k", "w");
  Flush();
  ASSERT_TRUE(Ok(db_->RollbackPrepared({}, "w")));
  Put("k", "x");
  Flush();
  EXPECT_EQ(LogCount(), 1u);
  Kill();
  EXPECT_EQ(Get("w"), "-");
}

// The commit's mark is in a log that the other family alone needs.
TEST_F(DbPreparedTest, ACommitIsNotFoundTwiceByFamilies) {
  Open();
  WriteBatch batch;
  batch.Merge("list", "x");
  batch.Merge(At("a"), "list", "x");
  ASSERT_TRUE(Ok(db_->WritePrepared({}, "t", &batch)));
  Put("k", "v");
  Flush();
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  Flush();
  EXPECT_EQ(Get("list"), "x");
  EXPECT_EQ(Get("list", "a"), "x");
  Kill();
  EXPECT_EQ(Get("list"), "x");
  EXPECT_EQ(Get("list", "a"), "x");
  EXPECT_EQ(Prepared(), Names{});
}

TEST_F(DbPreparedTest, UpdatesOfADroppedFamilyHaveNoEffect) {
  names_.emplace_back("b");
  Open();
  for (const char* name : {"t", "u"}) {
    WriteBatch batch;
    batch.Put(At("b"), "k", "v");
    batch.Put(name, "v");
    batch.Put(At("a"), name, "v");
    ASSERT_TRUE(Ok(db_->WritePrepared({}, name, &batch)));
  }
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("b"))));
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "t")));
  EXPECT_EQ(Get("t"), "v");
  EXPECT_EQ(Get("t", "a"), "v");
  handles_.erase("b");
  names_.pop_back();
  Kill();
  EXPECT_EQ(Get("t"), "v");
  EXPECT_EQ(Get("t", "a"), "v");
  EXPECT_EQ(Prepared(), Names{"u"});
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "u")));
  EXPECT_EQ(Get("u", "a"), "v");
}

TEST_F(DbPreparedTest, LogsStayBounded) {
  options_.max_total_wal_size = 512 << 10;
  Open();
  PreparePut("t", "v");
  PreparePut("u", "v");
  uint64_t most = 0;
  for (int i = 0; i < 600; ++i) {
    Put("k" + std::to_string(i), std::string(10 << 10, 'v'));
    if (i == 300) {
      ASSERT_TRUE(Ok(db_->CommitPrepared({}, "u")));
    }
    if (i % 20 == 0) most = std::max(most, LogBytes());
  }
  EXPECT_LE(most, options_.max_total_wal_size + options_.write_buffer_size * 2);
  Kill();
  EXPECT_EQ(Prepared(), Names{"t"});
  EXPECT_EQ(Get("u"), "v");
  EXPECT_EQ(Get("k599").size(), 10u << 10);
}

// A large section is not copied again and again.
TEST_F(DbPreparedTest, ALargeSectionIsCopiedSeldom) {
  options_.max_total_wal_size = 256 << 10;
  Open();
  PreparePut("t", std::string(1 << 20, 'v'));
  for (int i = 0; i < 400; ++i) {
    Put("k" + std::to_string(i), std::string(10 << 10, 'v'));
  }
  EXPECT_LE(LogBytes(), 5u << 20);
  Kill();
  EXPECT_EQ(Prepared(), Names{"t"});
}

// The drop of a family ends the need for the log of the transaction, while a
// flush has not yet ended the need for the log before its copy's.
TEST_F(DbPreparedTest, ACopyIsDurableWithTheLogsBeforeIt) {
  PausingEnv pausing(&env_);
  options_.env = &pausing;
  options_.max_total_wal_size = 128 << 10;
  Open();
  WriteBatch batch;
  batch.Put("t", "v");
  ASSERT_TRUE(Ok(db_->WritePrepared({.sync = true}, "t", &batch)));
  Put("k", "old");
  Flush();
  pausing.KeepBack(Env::Priority::kHigh);
  Put("k", "new");
  const auto first_log = [this] {
    uint64_t number = 0;
    EXPECT_TRUE(db_->GetIntProperty("varve.min-log-number-to-keep", &number));
    return number;
  };
  const uint64_t with_section = first_log();
  ASSERT_TRUE(Ok(db_->Flush({.wait = false})));
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("a"))));
  EXPECT_GT(first_log(), with_section);  // The section was copied.
  env_.SetFilesystemActive(false);
  pausing.LetGo();
  names_.pop_back();
  PowerCut({.lose_everything_unsynced = true});
  EXPECT_EQ(Prepared(), Names{"t"});
  EXPECT_EQ(Get("k"), "new");
  Drop();
}

TEST_F(DbPreparedTest, AnErrorOfTheLogPreparesNothing) {
  Open();
  PreparePut("before", "v");
  WriteBatch batch;
  batch.Put("k", "v");
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  EXPECT_FALSE(db_->WritePrepared({.sync = true}, "t", &batch).ok());
  env_.ClearFailure();
  EXPECT_FALSE(db_->CommitPrepared({}, "before").ok());
  ASSERT_TRUE(Ok(db_->Resume()));
  EXPECT_EQ(Prepared(), Names{"before"});
  // Also after a power cut at once.
  PowerCut({.lose_everything_unsynced = true});
  EXPECT_EQ(Prepared(), Names{"before"});
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "before")));
  EXPECT_EQ(Get("before"), "v");
}

TEST_F(DbPreparedTest, AfterAnErrorOfItsCommitItIsStillPrepared) {
  Open();
  PreparePut("t", "v");
  Put("k", "v");
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  EXPECT_FALSE(db_->CommitPrepared({.sync = true}, "t").ok());
  env_.ClearFailure();
  EXPECT_EQ(Get("t"), "-");
  ASSERT_TRUE(Ok(db_->Resume()));
  EXPECT_EQ(Prepared(), Names{"t"});
  Kill();
  EXPECT_EQ(Prepared(), Names{"t"});
  EXPECT_EQ(Get("k"), "v");
  ASSERT_TRUE(Ok(db_->CommitPrepared({.sync = true}, "t")));
  EXPECT_EQ(Get("t"), "v");
}

TEST_F(DbPreparedTest, AReadOnlyOpenShowsItAndEndsNothing) {
  Open();
  PreparePut("t", "v");
  Put("k", "v");
  Flush();
  ASSERT_TRUE(Ok(db_->Close()));
  const Files before = Save(&env_);
  ASSERT_TRUE(Ok(TryOpen(/*read_only=*/true)));
  EXPECT_EQ(Prepared(), Names{"t"});
  EXPECT_EQ(Get("t"), "-");
  EXPECT_EQ(Get("k"), "v");
  WriteBatch batch;
  EXPECT_FALSE(db_->WritePrepared({}, "u", &batch).ok());
  EXPECT_FALSE(db_->CommitPrepared({}, "t").ok());
  EXPECT_FALSE(db_->RollbackPrepared({}, "t").ok());
  Drop();
  EXPECT_TRUE(Save(&env_) == before);
}

TEST_F(DbPreparedTest, ACheckpointHasIt) {
  Open();
  PreparePut("t", "v");
  Put("k", "v");
  Flush();
  PreparePut("u", "v");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint("/copy")));
  ASSERT_TRUE(Ok(db_->RollbackPrepared({}, "t")));
  Drop();
  const Files copy = Save(&env_, "/copy");
  Replace(copy);
  Open();
  EXPECT_EQ(Prepared(), (Names{"t", "u"}));
  EXPECT_EQ(Get("k"), "v");
}

TEST_F(DbPreparedTest, ARepairKeepsIt) {
  Open();
  PreparePut("t", "v");
  PreparePut("committed", "v");
  WriteBatch batch;
  batch.Put(At("a"), "k", "v");
  batch.Merge("list", "1");
  ASSERT_TRUE(Ok(db_->WritePrepared({}, "u", &batch)));
  Put("k", "v");
  Flush();
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "committed")));
  ASSERT_TRUE(Ok(db_->RollbackPrepared({}, "t")));
  for (int pass = 0; pass < 2; ++pass) {
    Drop();
    ASSERT_TRUE(Ok(RepairDB(kPath, options_)));
    Open();
    EXPECT_EQ(Prepared(), Names{"u"});
    EXPECT_EQ(Get("committed"), "v");
    EXPECT_EQ(Get("k"), "v");
    EXPECT_EQ(Get("t"), "-");
  }
  ASSERT_TRUE(Ok(db_->CommitPrepared({}, "u")));
  EXPECT_EQ(Get("k", "a"), "v");
  EXPECT_EQ(Get("list"), "1");
}

// A process dies between the copies in the new log and the MANIFEST's edit.
TEST_F(DbPreparedTest, AnOpenThatDiesLeavesIt) {
  Open();
  PreparePut("t", "v");
  Put("k", "v");
  PreparePut("u", "v");
  Drop();
  const Files before = Save(&env_);
  for (uint64_t failing = 0;; ++failing) {
    SCOPED_TRACE(failing);
    const uint64_t failures = env_.FailureCount();
    env_.FailAfter(failing, FaultInjectionEnv::InjectedError(),
                   kAllOperations & ~kReadingOperations & ~kLockOperation,
                   {.once = false});
    TryOpen().IgnoreError();
    Drop();
    const Files after = Save(&env_);
    const bool failed = env_.FailureCount() > failures;
    env_.ClearFailure();
    Replace(after);
    ASSERT_NO_FATAL_FAILURE(Open());
    EXPECT_EQ(Prepared(), (Names{"t", "u"}));
    EXPECT_EQ(Get("k"), "v");
    Drop();
    Replace(before);
    if (!failed) break;
  }
}

}  // namespace
}  // namespace varve::test
