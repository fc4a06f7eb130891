// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions of a TransactionDB lock, wait and end as their header
// says, and so do writes outside of transactions. Method: one case for each
// rule. Timeouts are 0, except where a thread waits until another one has
// ended; expiry is by a clock that the test moves.

#include "varve/transaction_db.h"

#include <thread>

#include "test/testing/db_helpers.h"
#include "test/testing/env/set_clock.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class TransactionDbTest : public ::testing::Test {
 protected:
  TransactionDbTest() : path_(dir_.Sub("db")), options_(TinyOptions()) {
    options_.merge_operator = NewStringAppendOperator();
    options_.env = &clock_;
    transaction_options_.transaction_lock_timeout = 0;
    transaction_options_.default_lock_timeout = 0;
  }
  void SetUp() override { Open(); }
  void TearDown() override { Close(); }

  void Open() {
    ASSERT_TRUE(
        Ok(TransactionDB::Open(options_, transaction_options_, path_, &db_)));
  }
  void Close() {
    first_.reset();
    second_.reset();
    if (db_ == nullptr) return;
    ExpectNoLocks();
    db_.reset();
  }
  void ExpectNoLocks() { EXPECT_TRUE(db_->GetLockStatusData().empty()); }
  std::unique_ptr<Transaction> Begin(const TransactionOptions& options = {}) {
    return std::unique_ptr<Transaction>(db_->BeginTransaction({}, options));
  }
  void BeginBoth(const TransactionOptions& options = {}) {
    first_ = Begin(options);
    second_ = Begin(options);
  }
  static void ExpectTimeout(const Status& status) {
    EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
    EXPECT_TRUE(status.IsLockTimeout());
  }
  std::string Outside(const std::string& key) {
    std::string value;
    const Status status = db_->Get({}, key, &value);
    if (status.ok()) return value;
    return status.IsNotFound() ? "NotFound" : status.ToString();
  }
  static std::string Lock(Transaction* transaction, const std::string& key,
                          bool exclusive = true) {
    std::string value;
    const Status status = transaction->GetForUpdate({}, key, &value, exclusive);
    if (status.ok()) return value;
    return status.IsNotFound() ? "NotFound" : status.ToString();
  }
  // Waits until the transaction waits for a lock.
  static void AwaitWait(const Transaction& transaction) {
    while (transaction.GetWaitingTxns(nullptr, nullptr).empty()) {
      std::this_thread::yield();
    }
  }

  SetClock clock_;
  TempDir dir_;
  const std::string path_;
  Options options_;
  TransactionDBOptions transaction_options_;
  std::unique_ptr<TransactionDB> db_;
  std::unique_ptr<Transaction> first_;
  std::unique_ptr<Transaction> second_;
};

TEST_F(TransactionDbTest, LocksKeysUntilTheEnd) {
  BeginBoth();
  EXPECT_NE(first_->GetID(), second_->GetID());
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  ExpectTimeout(second_->Put("a", "2"));
  ExpectTimeout(second_->Delete("a"));
  ExpectTimeout(
      second_->GetForUpdate({}, "a", static_cast<std::string*>(nullptr)));
  ExpectTimeout(second_->PutUntracked("a", "2"));
  EXPECT_TRUE(Ok(second_->Put("b", "2")));
  const auto locks = db_->GetLockStatusData();
  ASSERT_EQ(locks.size(), 2u);
  for (const auto& [family, info] : locks) {
    EXPECT_EQ(family, 0u);
    EXPECT_TRUE(info.exclusive);
    EXPECT_EQ(info.ids,
              std::vector<TransactionID>{info.key == "a" ? first_->GetID()
                                                         : second_->GetID()});
  }
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(first_->GetState(), Transaction::COMMITTED);
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_TRUE(Ok(second_->Put("a", "2")));
  EXPECT_TRUE(Ok(second_->Rollback()));
  ExpectNoLocks();
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_EQ(Outside("b"), "NotFound");
}

TEST_F(TransactionDbTest, EndsWithTheCommit) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_TRUE(first_->Put("a", "2").IsInvalidArgument());
  EXPECT_TRUE(first_->Commit().IsInvalidArgument());
  EXPECT_TRUE(first_->Rollback().IsInvalidArgument());
  EXPECT_TRUE(first_->SetName("x").IsInvalidArgument());
}

TEST_F(TransactionDbTest, IsUsableAfterRollback) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Rollback()));
  EXPECT_TRUE(Ok(first_->Put("b", "1")));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("a"), "NotFound");
  EXPECT_EQ(Outside("b"), "1");
}

TEST_F(TransactionDbTest, SharesLocks) {
  BeginBoth();
  EXPECT_EQ(Lock(first_.get(), "a", false), "NotFound");
  EXPECT_EQ(Lock(second_.get(), "a", false), "NotFound");
  ExpectTimeout(first_->Put("a", "1"));
  EXPECT_TRUE(Ok(second_->Rollback()));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Commit()));
}

TEST_F(TransactionDbTest, LocksKeysOfPlainWrites) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  ExpectTimeout(db_->Put({}, "a", "2"));
  ExpectTimeout(db_->Delete({}, "a"));
  ExpectTimeout(db_->SingleDelete({}, "a"));
  ExpectTimeout(db_->Merge({}, "a", "2"));
  WriteBatch batch;
  batch.Put("b", "2");
  batch.Put("a", "2");
  batch.Put("b", "3");
  ExpectTimeout(db_->Write({}, &batch));
  EXPECT_EQ(Outside("b"), "NotFound");
  EXPECT_EQ(db_->GetLockStatusData().size(), 1u);
  EXPECT_TRUE(Ok(db_->Write({}, {.skip_concurrency_control = true}, &batch)));
  EXPECT_EQ(Outside("b"), "3");
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_TRUE(Ok(db_->Merge({}, "a", "2")));
  EXPECT_EQ(Outside("a"), "1,2");
  EXPECT_TRUE(Ok(db_->Write({}, &batch)));
  ExpectNoLocks();
}

TEST_F(TransactionDbTest, RefusesRangeDeletions) {
  EXPECT_TRUE(db_->DeleteRange({}, "a", "b").IsNotSupported());
  WriteBatch batch;
  batch.DeleteRange("a", "b");
  EXPECT_TRUE(db_->Write({}, &batch).IsNotSupported());
  first_ = Begin();
  EXPECT_TRUE(first_->DeleteRange("a", "b").IsNotSupported());
  TransactionOptions options;
  options.skip_concurrency_control = true;
  first_ = Begin(options);
  EXPECT_TRUE(Ok(first_->DeleteRange("a", "b")));
  EXPECT_TRUE(Ok(first_->Put("c", "1")));
  EXPECT_EQ(first_->GetNumKeys(), 0u);
  EXPECT_TRUE(Ok(first_->Commit()));
}

TEST_F(TransactionDbTest, ValidatesKeysAgainstTheSnapshot) {
  ASSERT_TRUE(Ok(db_->Put({}, "a", "0")));
  TransactionOptions options;
  options.set_snapshot = true;
  first_ = Begin(options);
  ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
  const Status status = first_->Put("a", "2");
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_FALSE(status.IsDeadlock());
  ExpectNoLocks();
  EXPECT_TRUE(Ok(first_->PutUntracked("a", "2")));
  std::string value;
  EXPECT_TRUE(Ok(first_->GetForUpdate({}, "a", &value, true, false)));
  EXPECT_TRUE(first_->GetForUpdate({}, "a", &value).IsBusy());
  EXPECT_EQ(first_->GetNumKeys(), 1u);
  ReadOptions at;
  at.snapshot = first_->GetSnapshot();
  EXPECT_TRUE(
      first_->GetForUpdate(at, "a", &value, true, false).IsInvalidArgument());
  first_->SetSnapshot();
  EXPECT_TRUE(Ok(first_->Put("a", "3")));
  EXPECT_TRUE(Ok(first_->Commit()));
}

TEST_F(TransactionDbTest, ReleasesLocksSinceTheSavePoint) {
  BeginBoth();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  first_->SetSavePoint();
  EXPECT_TRUE(Ok(first_->Put("a", "2")));
  EXPECT_TRUE(Ok(first_->Put("b", "2")));
  EXPECT_TRUE(Ok(first_->RollbackToSavePoint()));
  EXPECT_TRUE(Ok(second_->Put("b", "3")));
  ExpectTimeout(second_->Put("a", "3"));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_TRUE(Ok(second_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_EQ(Outside("b"), "3");
}

TEST_F(TransactionDbTest, UndoesGetForUpdate) {
  first_ = Begin();
  EXPECT_EQ(Lock(first_.get(), "a"), "NotFound");
  EXPECT_EQ(Lock(first_.get(), "a"), "NotFound");
  first_->UndoGetForUpdate("a");
  EXPECT_EQ(first_->GetNumKeys(), 1u);
  first_->SetSavePoint();
  first_->UndoGetForUpdate("a");
  EXPECT_EQ(first_->GetNumKeys(), 1u);
  EXPECT_EQ(Lock(first_.get(), "a"), "NotFound");
  EXPECT_TRUE(Ok(first_->RollbackToSavePoint()));
  first_->UndoGetForUpdate("a");
  EXPECT_EQ(first_->GetNumKeys(), 0u);
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_EQ(Lock(first_.get(), "a"), "1");
  first_->UndoGetForUpdate("a");
  EXPECT_EQ(first_->GetNumKeys(), 1u);
}

TEST_F(TransactionDbTest, WaitsUntilTheLockIsReleased) {
  TransactionOptions options;
  options.lock_timeout = 1000000;
  BeginBoth(options);
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  std::thread other([this] {
    EXPECT_TRUE(Ok(second_->Merge("a", "2")));
    EXPECT_TRUE(Ok(second_->Commit()));
  });
  AwaitWait(*second_);
  uint32_t family = 7;
  std::string key;
  EXPECT_EQ(second_->GetWaitingTxns(&family, &key),
            std::vector<TransactionID>{first_->GetID()});
  EXPECT_EQ(family, 0u);
  EXPECT_EQ(key, "a");
  EXPECT_TRUE(Ok(first_->Commit()));
  other.join();
  EXPECT_EQ(Outside("a"), "1,2");
}

TEST_F(TransactionDbTest, FindsDeadlocks) {
  TransactionOptions options;
  options.lock_timeout = 1000000;
  options.deadlock_detect = true;
  BeginBoth(options);
  EXPECT_TRUE(first_->IsDeadlockDetect());
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(second_->Put("b", "2")));
  std::thread other([this] {
    EXPECT_TRUE(Ok(second_->Put("a", "2")));
    EXPECT_TRUE(Ok(second_->Commit()));
  });
  AwaitWait(*second_);
  const Status status = first_->Put("b", "1");
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_TRUE(status.IsDeadlock());
  const std::vector<DeadlockPath> paths = db_->GetDeadlockInfoBuffer();
  ASSERT_EQ(paths.size(), 1u);
  ASSERT_EQ(paths[0].path.size(), 2u);
  EXPECT_EQ(paths[0].path[1].m_txn_id, first_->GetID());
  EXPECT_EQ(paths[0].path[1].m_waiting_key, "b");
  EXPECT_TRUE(Ok(first_->Rollback()));
  other.join();
  EXPECT_EQ(Outside("a"), "2");
  db_->SetDeadlockInfoBufferSize(0);
  EXPECT_TRUE(db_->GetDeadlockInfoBuffer().empty());
}

TEST_F(TransactionDbTest, ExpiresTransactions) {
  TransactionOptions options;
  options.expiration = 1000;
  BeginBoth(options);
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  clock_.Advance(999 * 1000);
  ExpectTimeout(second_->Put("a", "2"));
  clock_.Advance(1000 * 1000);
  EXPECT_GE(first_->GetElapsedTime(), 1999u);
  EXPECT_TRUE(first_->Commit().IsExpired());
  second_.reset(db_->BeginTransaction({}, options, second_.release()));
  EXPECT_TRUE(Ok(second_->Put("a", "2")));
  EXPECT_TRUE(first_->Commit().IsExpired());
  EXPECT_EQ(first_->GetState(), Transaction::LOCKS_STOLEN);
  EXPECT_TRUE(first_->Put("c", "1").IsExpired());
  EXPECT_TRUE(Ok(first_->Rollback()));
  EXPECT_TRUE(Ok(second_->Commit()));
  EXPECT_EQ(Outside("a"), "2");
}

TEST_F(TransactionDbTest, CountsOutcomes) {
  Close();
  options_.statistics = CreateDBStatistics();
  Open();
  const auto count = [this](Ticker ticker) {
    return options_.statistics->getTickerCount(ticker);
  };
  BeginBoth();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  ExpectTimeout(second_->Put("a", "1"));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_TRUE(Ok(second_->Rollback()));
  EXPECT_EQ(count(Ticker::kLockTimeouts), 1u);
  EXPECT_EQ(count(Ticker::kTransactionCommits), 1u);
  EXPECT_EQ(count(Ticker::kTransactionRollbacks), 1u);
  EXPECT_EQ(count(Ticker::kTransactionConflicts), 0u);
}

TEST_F(TransactionDbTest, OutlivesClose) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Prepare()));
  second_ = Begin();
  EXPECT_TRUE(Ok(second_->Put("b", "1")));
  ASSERT_TRUE(Ok(db_->Close()));
  EXPECT_TRUE(first_->Commit().IsShutdownInProgress());
  EXPECT_TRUE(second_->Commit().IsShutdownInProgress());
  EXPECT_TRUE(Ok(second_->Rollback()));
  EXPECT_TRUE(db_->Put({}, "c", "1").IsShutdownInProgress());
  const auto later = Begin();
  EXPECT_TRUE(Ok(later->Put("c", "1")));
  EXPECT_TRUE(later->Commit().IsShutdownInProgress());
}

TEST_F(TransactionDbTest, LimitsLocksAndBytes) {
  Close();
  transaction_options_.max_num_locks = 1;
  Open();
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(first_->Put("b", "1").IsLockLimit());
  EXPECT_TRUE(Ok(first_->Rollback()));
  TransactionOptions options;
  options.max_write_batch_size = 50;
  first_ = Begin(options);
  EXPECT_TRUE(first_->Put("a", std::string(50, 'x')).IsAborted());
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Commit()));
}

TEST_F(TransactionDbTest, SkipsConcurrencyControlForAll) {
  Close();
  transaction_options_.skip_concurrency_control = true;
  Open();
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(db_->Put({}, "a", "2")));
  EXPECT_TRUE(Ok(db_->DeleteRange({}, "a", "b")));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
}

TEST_F(TransactionDbTest, RefusesOtherWritePolicies) {
  std::unique_ptr<TransactionDB> db;
  transaction_options_.write_policy = WRITE_PREPARED;
  EXPECT_TRUE(TransactionDB::Open(options_, transaction_options_,
                                  dir_.Sub("other"), &db)
                  .IsNotSupported());
}

TEST_F(TransactionDbTest, ReleasesLocksOfDroppedFamilies) {
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "f", &family)));
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put(family, "a", "1")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(db_->DropColumnFamily(family)));
  EXPECT_EQ(db_->GetLockStatusData().size(), 1u);
  EXPECT_TRUE(first_->Commit().IsInvalidArgument());
  EXPECT_TRUE(Ok(first_->Rollback()));
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

TEST_F(TransactionDbTest, FoldsKeys) {
  Close();
  options_.key_case = KeyCase::kInsensitive;
  std::filesystem::remove_all(path_);
  Open();
  BeginBoth();
  EXPECT_TRUE(Ok(first_->Put("Key", "1")));
  ExpectTimeout(second_->Put("KEY", "1"));
  ExpectTimeout(db_->Put({}, "kEY", "1"));
  WriteBatch batch;
  batch.Put("kEY", "1");
  ExpectTimeout(db_->Write({}, &batch));
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("KEY"), "1");
}

// ---- Two-phase commit -------------------------------------------------------

TEST_F(TransactionDbTest, PreparesAndCommits) {
  first_ = Begin();
  EXPECT_TRUE(first_->Prepare().IsInvalidArgument());
  EXPECT_TRUE(first_->SetName("").IsInvalidArgument());
  EXPECT_TRUE(first_->SetName(std::string(513, 'x')).IsInvalidArgument());
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(first_->SetName("two").IsInvalidArgument());
  EXPECT_EQ(first_->GetName(), "one");
  EXPECT_EQ(db_->GetTransactionByName("one"), first_.get());
  second_ = Begin();
  EXPECT_TRUE(second_->SetName("one").IsInvalidArgument());
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Prepare()));
  EXPECT_EQ(first_->GetState(), Transaction::PREPARED);
  EXPECT_TRUE(first_->Put("b", "1").IsInvalidArgument());
  EXPECT_TRUE(first_->Prepare().IsInvalidArgument());
  EXPECT_EQ(Outside("a"), "NotFound");
  ExpectTimeout(second_->Put("a", "2"));
  std::vector<Transaction*> prepared;
  db_->GetAllPreparedTransactions(&prepared);
  EXPECT_EQ(prepared, std::vector<Transaction*>{first_.get()});
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_EQ(db_->GetTransactionByName("one"), nullptr);
  EXPECT_TRUE(Ok(second_->SetName("one")));
}

TEST_F(TransactionDbTest, RollsBackPreparedTransactions) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Prepare()));
  EXPECT_TRUE(Ok(first_->Rollback()));
  EXPECT_EQ(first_->GetState(), Transaction::ROLLEDBACK);
  EXPECT_TRUE(first_->Put("b", "1").IsInvalidArgument());
  EXPECT_EQ(Outside("a"), "NotFound");
  ExpectNoLocks();
  Close();
  Open();
  EXPECT_EQ(Outside("a"), "NotFound");
}

TEST_F(TransactionDbTest, RequiresPrepareIfRequested) {
  TransactionOptions options;
  options.skip_prepare = false;
  first_ = Begin(options);
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(first_->Commit().IsInvalidArgument());
  EXPECT_TRUE(Ok(first_->Prepare()));
  EXPECT_TRUE(Ok(first_->Commit()));
}

TEST_F(TransactionDbTest, FindsPreparedTransactionsAfterOpen) {
  for (const std::string name : {"commit", "roll back", "leave"}) {
    const auto transaction = Begin();
    EXPECT_TRUE(Ok(transaction->SetName(name)));
    EXPECT_TRUE(Ok(transaction->Put(name, "1")));
    EXPECT_TRUE(Ok(transaction->Prepare()));
  }
  for (int i = 0; i < 2; ++i) {
    Close();
    Open();
    std::vector<Transaction*> prepared;
    db_->GetAllPreparedTransactions(&prepared);
    ASSERT_EQ(prepared.size(), 3u);
    EXPECT_EQ(db_->GetLockStatusData().size(), 3u);
    for (Transaction* const transaction : prepared) {
      EXPECT_EQ(transaction->GetState(), Transaction::PREPARED);
      ExpectTimeout(db_->Put({}, transaction->GetName(), "2"));
    }
    if (i == 0) db_.reset();
  }
  const std::unique_ptr<Transaction> committed(
      db_->GetTransactionByName("commit"));
  EXPECT_TRUE(Ok(committed->Commit()));
  const std::unique_ptr<Transaction> rolled_back(
      db_->GetTransactionByName("roll back"));
  EXPECT_TRUE(Ok(rolled_back->Rollback()));
  EXPECT_EQ(Outside("commit"), "1");
  EXPECT_EQ(Outside("roll back"), "NotFound");
  EXPECT_EQ(Outside("leave"), "NotFound");
  EXPECT_EQ(db_->GetLockStatusData().size(), 1u);
  std::unique_ptr<Transaction>(db_->GetTransactionByName("leave"))
      ->Rollback()
      .IgnoreError();
}

TEST_F(TransactionDbTest, OpensWithPreparedUpdatesOfDroppedFamilies) {
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "f", &family)));
  TransactionOptions options;
  options.skip_concurrency_control = true;
  first_ = Begin(options);
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(Ok(first_->Put(family, "a", "1")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->DeleteRange("x", "y")));
  EXPECT_TRUE(Ok(first_->Prepare()));
  EXPECT_TRUE(Ok(db_->DropColumnFamily(family)));
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
  Close();
  Open();
  first_.reset(db_->GetTransactionByName("one"));
  ASSERT_NE(first_, nullptr);
  EXPECT_EQ(first_->GetNumKeys(), 1u);
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
}

// ---- Wrapping a DB ----------------------------------------------------------

class WrapDbTest : public TransactionDbTest {
 protected:
  void TearDown() override {
    Close();
    plain_.reset();
  }
  void OpenPlain() {
    std::unique_ptr<DB> opened;
    ASSERT_TRUE(Ok(DB::Open(options_, path_, &opened)));
    plain_ = std::move(opened);
  }
  Status Wrap(std::shared_ptr<DB> db) {
    return TransactionDB::WrapDB(std::move(db), transaction_options_, &db_);
  }

  std::shared_ptr<DB> plain_;
};

TEST_F(WrapDbTest, FindsPreparedTransactions) {
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->SetName("one")));
  EXPECT_TRUE(Ok(first_->Put("a", "1")));
  EXPECT_TRUE(Ok(first_->Prepare()));
  Close();
  OpenPlain();
  EXPECT_TRUE(Ok(plain_->Put({}, "b", "1")));
  ASSERT_TRUE(Ok(Wrap(std::move(plain_))));
  ExpectTimeout(db_->Put({}, "a", "2"));
  EXPECT_TRUE(Ok(db_->Put({}, "b", "2")));
  first_.reset(db_->GetTransactionByName("one"));
  ASSERT_NE(first_, nullptr);
  EXPECT_TRUE(Ok(first_->Commit()));
  EXPECT_EQ(Outside("a"), "1");
  EXPECT_EQ(Outside("b"), "2");
  // The DB was not shared, so it ends with its owner.
  Close();
  Open();
  EXPECT_EQ(Outside("a"), "1");
}

TEST_F(WrapDbTest, LocksNoKeysOfTheBase) {
  Close();
  OpenPlain();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(plain_->CreateColumnFamily({}, "f", &family)));
  ASSERT_TRUE(Ok(Wrap(plain_)));
  EXPECT_EQ(db_->GetBaseDB(), plain_.get());
  EXPECT_EQ(db_->GetRootDB(), plain_.get());
  EXPECT_EQ(plain_->GetRootDB(), plain_.get());
  first_ = Begin();
  EXPECT_TRUE(Ok(first_->Put(family, "a", "1")));
  ExpectTimeout(db_->Put({}, family, "a", "2"));
  EXPECT_TRUE(Ok(db_->GetBaseDB()->Put({}, family, "a", "3")));
  EXPECT_TRUE(Ok(first_->Commit()));
  std::string value;
  EXPECT_TRUE(Ok(plain_->Get({}, family, "a", &value)));
  EXPECT_EQ(value, "1");
  Close();
  // The other share keeps the DB open.
  EXPECT_TRUE(Ok(plain_->Get({}, family, "a", &value)));
  ASSERT_TRUE(Ok(Wrap(plain_)));
  EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
}

TEST_F(WrapDbTest, ReadsByAStackableDb) {
  class Counting final : public StackableDB {
   public:
    using StackableDB::Get;
    using StackableDB::StackableDB;
    Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
               const Slice& key, std::string* value) override {
      ++gets;
      return StackableDB::Get(options, family, key, value);
    }
    int gets = 0;
  };
  Close();
  options_.key_case = KeyCase::kInsensitive;
  std::filesystem::remove_all(path_);
  OpenPlain();
  DB* const root = plain_.get();
  const auto counting = std::make_shared<Counting>(std::move(plain_));
  ASSERT_TRUE(Ok(Wrap(counting)));
  EXPECT_EQ(db_->GetBaseDB(), counting.get());
  EXPECT_EQ(db_->GetRootDB(), root);
  BeginBoth();
  EXPECT_TRUE(Ok(first_->Put("Key", "1")));
  ExpectTimeout(second_->Put("KEY", "1"));
  EXPECT_TRUE(Ok(first_->Commit()));
  counting->gets = 0;
  EXPECT_EQ(Lock(second_.get(), "key"), "1");
  EXPECT_EQ(counting->gets, 1);
}

TEST_F(WrapDbTest, RefusesWhatItCannotWrap) {
  class Foreign final : public StackableDB {
   public:
    using StackableDB::StackableDB;
    ColumnFamilyHandle* DefaultColumnFamily() const override { return nullptr; }
  };
  Close();
  EXPECT_TRUE(Wrap(nullptr).IsInvalidArgument());
  OpenPlain();
  EXPECT_TRUE(Wrap(std::make_shared<Foreign>(plain_)).IsInvalidArgument());
  transaction_options_.write_policy = WRITE_PREPARED;
  EXPECT_TRUE(Wrap(plain_).IsNotSupported());
  EXPECT_EQ(db_, nullptr);
  // It is as it was.
  EXPECT_TRUE(Ok(plain_->Put({}, "a", "1")));
  transaction_options_.write_policy = WRITE_COMMITTED;
  ASSERT_TRUE(Ok(Wrap(plain_)));
  EXPECT_EQ(Outside("a"), "1");
}

}  // namespace
}  // namespace varve::test
