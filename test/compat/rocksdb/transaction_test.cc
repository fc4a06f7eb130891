// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions behave as RocksDB's do to a program of its C interface.
// Method: the calls of both kinds of transactions, and wrong ones.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/compat/rocksdb/database.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using TransactionPtr =
    Owned<rocksdb_transaction_t, rocksdb_transaction_destroy>;
using DbOptionsPtr = Owned<rocksdb_transactiondb_options_t,
                           rocksdb_transactiondb_options_destroy>;
using TransactionOptionsPtr =
    Owned<rocksdb_transaction_options_t, rocksdb_transaction_options_destroy>;
using OptimisticOptionsPtr =
    Owned<rocksdb_optimistictransaction_options_t,
          rocksdb_optimistictransaction_options_destroy>;
using LockingDbPtr =
    Owned<rocksdb_transactiondb_t, rocksdb_transactiondb_close>;
using OptimisticDbPtr = Owned<rocksdb_optimistictransactiondb_t,
                              rocksdb_optimistictransactiondb_close>;

constexpr char kTimedOut[] = "Operation timed out: Timeout waiting to lock key";

// A program's calls of transactions.
class TransactionTest : public ProgramTest {
 protected:
  std::string PutIn(const TransactionPtr& txn, const std::string& key,
                    const std::string& value) {
    rocksdb_transaction_put(txn.get(), key.data(), key.size(), value.data(),
                            value.size(), error_);
    return error_.Take();
  }
  std::string DeleteIn(const TransactionPtr& txn, const std::string& key) {
    rocksdb_transaction_delete(txn.get(), key.data(), key.size(), error_);
    return error_.Take();
  }
  std::string GetIn(const TransactionPtr& txn, const std::string& key,
                    const rocksdb_readoptions_t* options = nullptr) {
    size_t size = 1;
    char* const value = rocksdb_transaction_get(
        txn.get(), options != nullptr ? options : read_.get(), key.data(),
        key.size(), &size, error_);
    return Result(value, size);
  }
  std::string GetForUpdate(const TransactionPtr& txn, const std::string& key,
                           bool exclusive = true) {
    size_t size = 1;
    char* const value = rocksdb_transaction_get_for_update(
        txn.get(), read_.get(), key.data(), key.size(), &size,
        exclusive ? 1 : 0, error_);
    return Result(value, size);
  }
  std::string Commit(const TransactionPtr& txn) {
    rocksdb_transaction_commit(txn.get(), error_);
    return error_.Take();
  }
  std::string Rollback(const TransactionPtr& txn) {
    rocksdb_transaction_rollback(txn.get(), error_);
    return error_.Take();
  }
  // Returns the values of the default family's keys, read by `get`, which is
  // the call of a transaction.
  template <typename Get>
  std::vector<std::string> MultiGet(Get get, const TransactionPtr& txn,
                                    const std::vector<const char*>& keys) {
    const std::vector<size_t> sizes(keys.size(), 1);
    std::vector<char*> values(keys.size());
    std::vector<size_t> value_sizes(keys.size());
    std::vector<char*> errors(keys.size());
    get(txn.get(), read_.get(), keys.size(), keys.data(), sizes.data(),
        values.data(), value_sizes.data(), errors.data());
    std::vector<std::string> results;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string error = TakeText(errors[i]);
      const std::string value = TakeBytes(values[i], value_sizes[i]);
      results.push_back(error == "null" ? value : error);
    }
    return results;
  }
  IteratorPtr Iterate(const TransactionPtr& txn) {
    return IteratorPtr(
        rocksdb_transaction_create_iterator(txn.get(), read_.get()));
  }
  std::string Name(const TransactionPtr& txn) {
    size_t size = 0;
    char* const name = rocksdb_transaction_get_name(txn.get(), &size);
    return TakeBytes(name, size);
  }
  std::string Result(char* value, size_t size) {
    const std::string error = error_.Take();
    const std::string taken = TakeBytes(value, size);
    return error == "OK" ? taken : error;
  }
  void ExpectInvalid(const std::string& problem) {
    EXPECT_EQ(error_.Take(), "Invalid argument: " + problem);
  }
};

// ---- Transactions that find conflicts when they commit ----

class RocksDbOptimisticTest : public TransactionTest {
 protected:
  RocksDbOptimisticTest() { OpenDb(); }
  void OpenDb() {
    otxn_db_.reset(rocksdb_optimistictransactiondb_open(options_.get(),
                                                        path_.c_str(), error_));
    EXPECT_EQ(error_.Take(), "OK");
    base_ = rocksdb_optimistictransactiondb_get_base_db(otxn_db_.get());
  }
  TransactionPtr Begin() {
    return TransactionPtr(rocksdb_optimistictransaction_begin(
        otxn_db_.get(), write_.get(), begin_.get(), nullptr));
  }
  std::string PutBase(const std::string& key, const std::string& value) {
    rocksdb_put(base_, write_.get(), key.data(), key.size(), value.data(),
                value.size(), error_);
    return error_.Take();
  }
  std::string GetBase(const std::string& key) {
    size_t size = 1;
    char* const value =
        rocksdb_get(base_, read_.get(), key.data(), key.size(), &size, error_);
    return Result(value, size);
  }

  const OptimisticOptionsPtr begin_{
      rocksdb_optimistictransaction_options_create()};
  OptimisticDbPtr otxn_db_;
  rocksdb_t* base_ = nullptr;
};

TEST_F(RocksDbOptimisticTest, CommitsAndFindsConflicts) {
  ASSERT_EQ(PutBase("a", "1"), "OK");
  TransactionPtr one = Begin();
  TransactionPtr two = Begin();
  EXPECT_EQ(PutIn(one, "a", "2"), "OK");
  EXPECT_EQ(GetIn(one, "a"), "2");
  EXPECT_EQ(GetIn(two, "a"), "1");
  EXPECT_EQ(PutIn(two, "a", "3"), "OK");
  EXPECT_EQ(Commit(one), "OK");
  EXPECT_EQ(GetBase("a"), "2");
  EXPECT_EQ(Commit(two), "Resource busy: ");
  EXPECT_EQ(GetBase("a"), "2");

  // A plain write is a conflict, too, also of a key that was only read.
  one = Begin();
  EXPECT_EQ(GetForUpdate(one, "b"), "null");
  EXPECT_EQ(PutIn(one, "c", "1"), "OK");
  EXPECT_EQ(PutBase("b", "1"), "OK");
  EXPECT_EQ(Commit(one), "Resource busy: ");
  EXPECT_EQ(Rollback(one), "OK");
  EXPECT_EQ(GetBase("c"), "null");
}

TEST_F(RocksDbOptimisticTest, UsesATransactionAgain) {
  rocksdb_transaction_t* txn = rocksdb_optimistictransaction_begin(
      otxn_db_.get(), write_.get(), begin_.get(), nullptr);
  rocksdb_transaction_put(txn, "a", 1, "1", 1, error_);
  EXPECT_EQ(rocksdb_optimistictransaction_begin(otxn_db_.get(), write_.get(),
                                                begin_.get(), txn),
            txn);
  const TransactionPtr owned(txn);
  EXPECT_EQ(GetIn(owned, "a"), "null");
  EXPECT_EQ(PutIn(owned, "b", "1"), "OK");
  EXPECT_EQ(Commit(owned), "OK");
  EXPECT_EQ(GetBase("a"), "null");
  EXPECT_EQ(GetBase("b"), "1");
}

TEST_F(RocksDbOptimisticTest, HasSnapshots) {
  ASSERT_EQ(PutBase("a", "1"), "OK");
  const TransactionPtr without = Begin();
  const auto* none = rocksdb_transaction_get_snapshot(without.get());
  EXPECT_EQ(rocksdb_snapshot_get_sequence_number(none), 0u);
  rocksdb_free(const_cast<rocksdb_snapshot_t*>(none));

  rocksdb_optimistictransaction_options_set_set_snapshot(begin_.get(), 1);
  const TransactionPtr txn = Begin();
  ASSERT_EQ(PutBase("a", "2"), "OK");
  const ReadOptionsPtr at(rocksdb_readoptions_create());
  const auto* snapshot = rocksdb_transaction_get_snapshot(txn.get());
  rocksdb_readoptions_set_snapshot(at.get(), snapshot);
  EXPECT_EQ(GetIn(txn, "a", at.get()), "1");
  EXPECT_EQ(GetIn(txn, "a"), "2");
  rocksdb_free(const_cast<rocksdb_snapshot_t*>(snapshot));
  EXPECT_EQ(PutIn(txn, "a", "3"), "OK");
  EXPECT_EQ(Commit(txn), "Resource busy: ");
}

TEST_F(RocksDbOptimisticTest, IteratesAndReadsMany) {
  for (const char* key : {"a", "b"}) ASSERT_EQ(PutBase(key, "old"), "OK");
  const TransactionPtr txn = Begin();
  EXPECT_EQ(PutIn(txn, "b", "new"), "OK");
  EXPECT_EQ(PutIn(txn, "c", "new"), "OK");
  EXPECT_EQ(DeleteIn(txn, "a"), "OK");
  EXPECT_EQ(Scan(Iterate(txn).get()), "b=new c=new ");
  EXPECT_THAT(MultiGet(rocksdb_transaction_multi_get, txn, {"a", "b", "x"}),
              ElementsAre("null", "new", "null"));
  EXPECT_THAT(
      MultiGet(rocksdb_transaction_multi_get_for_update, txn,
               {"c", nullptr, "x"}),
      ElementsAre("new", "Invalid argument: key is NULL and has a length",
                  "null"));
  ASSERT_EQ(PutBase("x", "1"), "OK");
  EXPECT_EQ(Commit(txn), "Resource busy: ");
}

TEST_F(RocksDbOptimisticTest, AnIteratorPastAllUpdatesSeesNoLaterOnes) {
  for (const char* key : {"a", "b"}) ASSERT_EQ(PutBase(key, "old"), "OK");
  const TransactionPtr txn = Begin();
  const IteratorPtr iterator = Iterate(txn);
  rocksdb_iter_seek_to_first(iterator.get());
  int visited = 0;
  for (; rocksdb_iter_valid(iterator.get()) != 0; ++visited) {
    const std::string key = Entry(iterator.get()).substr(0, 1);
    ASSERT_EQ(PutIn(txn, key + "x", "new"), "OK");
    rocksdb_iter_next(iterator.get());
  }
  EXPECT_EQ(visited, 2);
  EXPECT_EQ(Scan(iterator.get()), "a=old ax=new b=old bx=new ");
}

TEST_F(RocksDbOptimisticTest, ChangesFamilies) {
  otxn_db_.reset();
  rocksdb_options_set_create_missing_column_families(options_.get(), 1);
  rocksdb_options_set_uint64add_merge_operator(options_.get());
  const std::array<const char*, 2> names = {"default", "other"};
  const std::array<const rocksdb_options_t*, 2> options = {options_.get(),
                                                           options_.get()};
  std::array<rocksdb_column_family_handle_t*, 2> handles = {};
  otxn_db_.reset(rocksdb_optimistictransactiondb_open_column_families(
      options_.get(), path_.c_str(), 2, names.data(), options.data(),
      handles.data(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  base_ = rocksdb_optimistictransactiondb_get_base_db(otxn_db_.get());
  const FamilyPtr default_family(handles[0]);
  const FamilyPtr family(handles[1]);
  const FamilyPtr third(
      rocksdb_create_column_family(base_, options_.get(), "third", error_));
  ASSERT_EQ(error_.Take(), "OK");
  const TransactionPtr txn = Begin();
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  rocksdb_transaction_put_cf(txn.get(), family.get(), "a", 1, "1", 1, error_);
  rocksdb_transaction_put_cf(txn.get(), third.get(), "b", 1, "2", 1, error_);
  rocksdb_transaction_delete_cf(txn.get(), family.get(), "b", 1, error_);
  rocksdb_transaction_merge_cf(txn.get(), family.get(), "n", 1, one.data(), 8,
                               error_);
  rocksdb_transaction_merge(txn.get(), "n", 1, one.data(), 8, error_);
  EXPECT_EQ(error_.Take(), "OK");
  size_t size = 0;
  char* value = rocksdb_transaction_get_cf(txn.get(), read_.get(), family.get(),
                                           "a", 1, &size, error_);
  EXPECT_EQ(Result(value, size), "1");
  value = rocksdb_transaction_get_for_update_cf(
      txn.get(), read_.get(), family.get(), "n", 1, &size, 1, error_);
  EXPECT_EQ(Result(value, size), one);
  rocksdb_pinnableslice_t* const pinned = rocksdb_transaction_get_pinned_cf(
      txn.get(), read_.get(), third.get(), "b", 1, error_);
  EXPECT_EQ(std::string(rocksdb_pinnableslice_value(pinned, &size), 1), "2");
  rocksdb_pinnableslice_destroy(pinned);
  {
    const IteratorPtr iterator(rocksdb_transaction_create_iterator_cf(
        txn.get(), read_.get(), family.get()));
    EXPECT_EQ(Scan(iterator.get()), "a=1 n=" + one + " ");
  }
  EXPECT_EQ(Commit(txn), "OK");
  value =
      rocksdb_get_cf(base_, read_.get(), third.get(), "b", 1, &size, error_);
  EXPECT_EQ(Result(value, size), "2");
  EXPECT_EQ(GetBase("n"), one);
}

TEST_F(RocksDbOptimisticTest, ReturnsAndTakesBatches) {
  const TransactionPtr txn = Begin();
  EXPECT_EQ(PutIn(txn, "a", "1"), "OK");
  rocksdb_transaction_put_log_data(txn.get(), "blob", 4);
  rocksdb_writebatch_wi_t* const batch =
      rocksdb_transaction_get_writebatch_wi(txn.get());
  EXPECT_EQ(rocksdb_writebatch_wi_count(batch), 1);
  const TransactionPtr copy = Begin();
  rocksdb_transaction_rebuild_from_writebatch_wi(copy.get(), batch, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetIn(copy, "a"), "1");
  rocksdb_free(batch);
  rocksdb_writebatch_t* const plain = rocksdb_writebatch_create();
  rocksdb_writebatch_put(plain, "b", 1, "2", 1);
  rocksdb_transaction_rebuild_from_writebatch(copy.get(), plain, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_optimistictransactiondb_write(otxn_db_.get(), write_.get(), plain,
                                        error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_writebatch_destroy(plain);
  EXPECT_EQ(GetBase("b"), "2");
  EXPECT_EQ(Commit(copy), "Resource busy: ");
}

TEST_F(RocksDbOptimisticTest, RollsBackToSavePoints) {
  const TransactionPtr txn = Begin();
  EXPECT_EQ(Rollback(txn), "OK");
  EXPECT_EQ(PutIn(txn, "a", "1"), "OK");
  rocksdb_transaction_set_savepoint(txn.get());
  EXPECT_EQ(PutIn(txn, "b", "2"), "OK");
  rocksdb_transaction_rollback_to_savepoint(txn.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_transaction_rollback_to_savepoint(txn.get(), error_);
  EXPECT_EQ(error_.Take(), "NotFound: ");
  // Neither is the key a conflict any more.
  EXPECT_EQ(PutBase("b", "3"), "OK");
  EXPECT_EQ(Commit(txn), "OK");
  EXPECT_EQ(GetBase("a"), "1");
  EXPECT_EQ(GetBase("b"), "3");
}

TEST_F(RocksDbOptimisticTest, HasTheFactsOfADatabase) {
  ASSERT_EQ(PutBase("a", "1"), "OK");
  uint64_t keys = 0;
  EXPECT_EQ(rocksdb_optimistictransactiondb_property_int(
                otxn_db_.get(), "rocksdb.estimate-num-keys", &keys),
            0);
  EXPECT_EQ(keys, 1u);
  EXPECT_EQ(TakeText(rocksdb_optimistictransactiondb_property_value(
                otxn_db_.get(), "rocksdb.estimate-num-keys")),
            "1");
  rocksdb_checkpoint_t* const checkpoint =
      rocksdb_optimistictransactiondb_checkpoint_object_create(otxn_db_.get(),
                                                               error_);
  const std::string path = directory_.Sub("checkpoint");
  rocksdb_checkpoint_create(checkpoint, path.c_str(), 0, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_checkpoint_object_destroy(checkpoint);
  const DbPtr copy(rocksdb_open(options_.get(), path.c_str(), error_));
  size_t size = 0;
  char* const value =
      rocksdb_get(copy.get(), read_.get(), "a", 1, &size, error_);
  EXPECT_EQ(Result(value, size), "1");
  // Options of RocksDB's speed, which it shares.
  auto* const options = rocksdb_optimistictransactiondb_options_create();
  auto* const buckets =
      rocksdb_optimistictransactiondb_lock_buckets_create(16, 1);
  rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(options,
                                                                  buckets);
  const std::string second = directory_.Sub("second");
  const OptimisticDbPtr with(
      rocksdb_optimistictransactiondb_open_with_otxn_db_options(
          options_.get(), options, second.c_str(), error_));
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_optimistictransactiondb_lock_buckets_destroy(buckets);
  rocksdb_optimistictransactiondb_options_destroy(options);
}

// ---- Transactions that lock keys ----

class RocksDbLockingTest : public TransactionTest {
 protected:
  RocksDbLockingTest() {
    // Calls never wait.
    rocksdb_transactiondb_options_set_transaction_lock_timeout(
        db_options_.get(), 0);
    rocksdb_transactiondb_options_set_default_lock_timeout(db_options_.get(),
                                                           0);
    OpenDb();
  }
  void OpenDb() {
    txn_db_.reset(rocksdb_transactiondb_open(options_.get(), db_options_.get(),
                                             path_.c_str(), error_));
    ASSERT_EQ(error_.Take(), "OK");
  }
  TransactionPtr Begin() {
    return TransactionPtr(rocksdb_transaction_begin(txn_db_.get(), write_.get(),
                                                    begin_.get(), nullptr));
  }
  std::string PutDb(const std::string& key, const std::string& value) {
    rocksdb_transactiondb_put(txn_db_.get(), write_.get(), key.data(),
                              key.size(), value.data(), value.size(), error_);
    return error_.Take();
  }
  std::string GetDb(const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_transactiondb_get(
        txn_db_.get(), read_.get(), key.data(), key.size(), &size, error_);
    return Result(value, size);
  }
  // Returns the prepared transactions.
  std::vector<TransactionPtr> Prepared() {
    size_t count = 7;
    rocksdb_transaction_t** const list =
        rocksdb_transactiondb_get_prepared_transactions(txn_db_.get(), &count);
    std::vector<TransactionPtr> transactions;
    for (size_t i = 0; i < count; ++i) transactions.emplace_back(list[i]);
    rocksdb_free(list);
    return transactions;
  }
  std::string Prepare(const TransactionPtr& txn, const std::string& name) {
    rocksdb_transaction_set_name(txn.get(), name.data(), name.size(), error_);
    const std::string named = error_.Take();
    if (named != "OK") return named;
    rocksdb_transaction_prepare(txn.get(), error_);
    return error_.Take();
  }

  const DbOptionsPtr db_options_{rocksdb_transactiondb_options_create()};
  const TransactionOptionsPtr begin_{rocksdb_transaction_options_create()};
  LockingDbPtr txn_db_;
};

TEST_F(RocksDbLockingTest, LocksKeys) {
  ASSERT_EQ(PutDb("a", "1"), "OK");
  const TransactionPtr one = Begin();
  const TransactionPtr two = Begin();
  EXPECT_EQ(PutIn(one, "a", "2"), "OK");
  EXPECT_EQ(PutIn(two, "a", "3"), kTimedOut);
  EXPECT_EQ(GetForUpdate(two, "a", false), kTimedOut);
  EXPECT_EQ(PutDb("a", "4"), kTimedOut);
  EXPECT_EQ(GetIn(two, "a"), "1");
  // The base database takes no locks.
  rocksdb_t* const base = rocksdb_transactiondb_get_base_db(txn_db_.get());
  rocksdb_put(base, write_.get(), "a", 1, "5", 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_transactiondb_close_base_db(base);
  EXPECT_EQ(GetDb("a"), "5");
  EXPECT_EQ(Commit(one), "OK");
  EXPECT_EQ(GetDb("a"), "2");
  EXPECT_EQ(PutIn(two, "a", "3"), "OK");
  EXPECT_EQ(Rollback(two), "OK");
  EXPECT_EQ(PutDb("a", "4"), "OK");

  // Readers share a lock.
  const TransactionPtr three = Begin();
  const TransactionPtr four = Begin();
  EXPECT_EQ(GetForUpdate(three, "a", false), "4");
  EXPECT_EQ(GetForUpdate(four, "a", false), "4");
  EXPECT_EQ(PutIn(four, "a", "5"), kTimedOut);
}

TEST_F(RocksDbLockingTest, ChecksItsSnapshot) {
  ASSERT_EQ(PutDb("a", "1"), "OK");
  rocksdb_transaction_options_set_set_snapshot(begin_.get(), 1);
  const TransactionPtr txn = Begin();
  ASSERT_EQ(PutDb("a", "2"), "OK");
  EXPECT_EQ(PutIn(txn, "a", "3"), "Resource busy: ");
  EXPECT_EQ(GetForUpdate(txn, "a"), "Resource busy: ");
}

TEST_F(RocksDbLockingTest, LimitsLocksAndBytes) {
  txn_db_.reset();
  rocksdb_transactiondb_options_set_max_num_locks(db_options_.get(), 1);
  OpenDb();
  rocksdb_transaction_options_set_max_write_batch_size(begin_.get(), 40);
  const TransactionPtr txn = Begin();
  EXPECT_THAT(PutIn(txn, "a", std::string(100, 'x')),
              StartsWith("Operation aborted: "));
  EXPECT_EQ(PutIn(txn, "a", "1"), "OK");
  EXPECT_EQ(PutIn(txn, "b", "1"),
            "Resource busy: Failed to acquire lock due to max_num_locks limit");
}

TEST_F(RocksDbLockingTest, FindsDeadlocks) {
  txn_db_.reset();
  rocksdb_transactiondb_options_set_transaction_lock_timeout(db_options_.get(),
                                                             -1);
  OpenDb();
  rocksdb_transaction_options_set_deadlock_detect(begin_.get(), 1);
  const TransactionPtr one = Begin();
  const TransactionPtr two = Begin();
  ASSERT_EQ(PutIn(one, "a", "1"), "OK");
  ASSERT_EQ(PutIn(two, "b", "2"), "OK");
  // Whichever waits second gets the error.
  std::string other;
  std::thread thread([&] {
    Error error;
    rocksdb_transaction_put(two.get(), "a", 1, "2", 1, error);
    other = error.Take();
    if (other != "OK") rocksdb_transaction_rollback(two.get(), error);
  });
  const std::string mine = PutIn(one, "b", "1");
  if (mine != "OK") {
    EXPECT_EQ(Rollback(one), "OK");
  }
  thread.join();
  EXPECT_THAT(mine == "OK" ? other : mine,
              StartsWith("Resource busy: Deadlock"));
  EXPECT_EQ(mine == "OK" ? mine : other, "OK");
}

TEST_F(RocksDbLockingTest, PreparesTransactions) {
  const TransactionPtr unnamed = Begin();
  EXPECT_EQ(PutIn(unnamed, "x", "1"), "OK");
  rocksdb_transaction_prepare(unnamed.get(), error_);
  EXPECT_THAT(error_.Take(), StartsWith("Invalid argument: "));
  TransactionPtr one = Begin();
  TransactionPtr two = Begin();
  EXPECT_EQ(PutIn(one, "a", "1"), "OK");
  EXPECT_EQ(PutIn(two, "b", "2"), "OK");
  EXPECT_EQ(Prepare(one, "one"), "OK");
  EXPECT_EQ(Name(one), "one");
  EXPECT_EQ(Prepare(Begin(), "one").substr(0, 18), "Invalid argument: ");
  EXPECT_EQ(Prepare(two, "two"), "OK");
  EXPECT_EQ(GetDb("a"), "null");
  // Handles of the same transactions.
  std::vector<TransactionPtr> prepared = Prepared();
  ASSERT_EQ(prepared.size(), 2u);
  EXPECT_THAT((std::vector{Name(prepared[0]), Name(prepared[1])}),
              UnorderedElementsAre("one", "two"));
  prepared.clear();
  EXPECT_EQ(Commit(one), "OK");
  EXPECT_EQ(GetDb("a"), "1");
  EXPECT_EQ(Prepared().size(), 1u);
  EXPECT_EQ(Rollback(two), "OK");
  EXPECT_EQ(Prepared().size(), 0u);
  EXPECT_EQ(GetDb("b"), "null");
}

// A transaction has one owner, whoever asks for it while it is being prepared,
// committed or destroyed.
TEST_F(RocksDbLockingTest, PreparesBesideOthersWhoAskForThem) {
  constexpr int kTransactions = 1000;
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    for (int i = 0; i < kTransactions; ++i) {
      const std::string name = "transaction" + std::to_string(i);
      const TransactionPtr txn = Begin();
      char* error = nullptr;
      rocksdb_transaction_set_name(txn.get(), name.data(), name.size(), &error);
      rocksdb_transaction_put(txn.get(), "k", 1, "v", 1, &error);
      rocksdb_transaction_prepare(txn.get(), &error);
      rocksdb_transaction_commit(txn.get(), &error);
      EXPECT_EQ(error, nullptr) << error;
    }
    is_done = true;
  });
  while (!is_done) {
    for (const TransactionPtr& txn : Prepared()) {
      EXPECT_THAT(Name(txn), StartsWith("transaction"));
    }
  }
  other.join();
  EXPECT_EQ(Prepared().size(), 0u);
}

TEST_F(RocksDbLockingTest, RecoversPreparedTransactions) {
  for (const char* name : {"one", "two", "three"}) {
    const TransactionPtr txn = Begin();
    EXPECT_EQ(PutIn(txn, name, "1"), "OK");
    EXPECT_EQ(Prepare(txn, name), "OK");
  }
  txn_db_.reset();
  OpenDb();
  EXPECT_EQ(GetDb("one"), "null");
  EXPECT_EQ(PutDb("one", "2"), kTimedOut);
  {
    const std::vector<TransactionPtr> prepared = Prepared();
    ASSERT_EQ(prepared.size(), 3u);
    for (const TransactionPtr& txn : prepared) {
      const std::string name = Name(txn);
      EXPECT_EQ(name == "one"   ? Commit(txn)
                : name == "two" ? Rollback(txn)
                                : "OK",
                "OK");
    }
  }
  EXPECT_EQ(GetDb("one"), "1");
  EXPECT_EQ(PutDb("two", "2"), "OK");
  txn_db_.reset();
  OpenDb();
  EXPECT_EQ(GetDb("one"), "1");
  const std::vector<TransactionPtr> prepared = Prepared();
  ASSERT_EQ(prepared.size(), 1u);
  EXPECT_EQ(Name(prepared[0]), "three");
}

TEST_F(RocksDbLockingTest, HasTheCallsOfADatabase) {
  const FamilyPtr family(rocksdb_transactiondb_create_column_family(
      txn_db_.get(), options_.get(), "other", error_));
  ASSERT_EQ(error_.Take(), "OK");
  rocksdb_transactiondb_put_cf(txn_db_.get(), write_.get(), family.get(), "a",
                               1, "1", 1, error_);
  ASSERT_EQ(PutDb("b", "2"), "OK");
  const rocksdb_snapshot_t* const snapshot =
      rocksdb_transactiondb_create_snapshot(txn_db_.get());
  rocksdb_transactiondb_delete_cf(txn_db_.get(), write_.get(), family.get(),
                                  "a", 1, error_);
  rocksdb_transactiondb_delete(txn_db_.get(), write_.get(), "b", 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetDb("b"), "null");
  rocksdb_readoptions_set_snapshot(read_.get(), snapshot);
  EXPECT_EQ(GetDb("b"), "2");
  size_t size = 0;
  char* const value = rocksdb_transactiondb_get_cf(
      txn_db_.get(), read_.get(), family.get(), "a", 1, &size, error_);
  EXPECT_EQ(Result(value, size), "1");
  {
    const IteratorPtr iterator(
        rocksdb_transactiondb_create_iterator(txn_db_.get(), read_.get()));
    EXPECT_EQ(Scan(iterator.get()), "b=2 ");
    const IteratorPtr other(rocksdb_transactiondb_create_iterator_cf(
        txn_db_.get(), read_.get(), family.get()));
    EXPECT_EQ(Scan(other.get()), "a=1 ");
  }
  rocksdb_transactiondb_release_snapshot(txn_db_.get(), snapshot);
  rocksdb_readoptions_set_snapshot(read_.get(), nullptr);
  rocksdb_writebatch_t* const batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "c", 1, "3", 1);
  rocksdb_transactiondb_write(txn_db_.get(), write_.get(), batch, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_writebatch_destroy(batch);
  EXPECT_EQ(GetDb("c"), "3");
  rocksdb_flushoptions_t* const flush = rocksdb_flushoptions_create();
  rocksdb_transactiondb_flush(txn_db_.get(), flush, error_);
  rocksdb_transactiondb_flush_cf(txn_db_.get(), flush, family.get(), error_);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_transactiondb_flush_wal(txn_db_.get(), 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(TakeText(rocksdb_transactiondb_property_value(
                txn_db_.get(), "rocksdb.num-files-at-level0")),
            "1");
}

TEST_F(RocksDbLockingTest, RefusesOtherWritePolicies) {
  txn_db_.reset();
  rocksdb_transactiondb_options_set_write_policy(
      db_options_.get(), rocksdb_txndb_write_policy_write_prepared);
  EXPECT_EQ(rocksdb_transactiondb_open(options_.get(), db_options_.get(),
                                       path_.c_str(), error_),
            nullptr);
  EXPECT_THAT(error_.Take(), StartsWith("Not implemented: "));
}

// ---- Wrong calls ----

TEST_F(RocksDbLockingTest, WrongCallsAreErrors) {
  rocksdb_transaction_put(nullptr, "a", 1, "1", 1, error_);
  ExpectInvalid("txn is NULL");
  const TransactionPtr txn = Begin();
  rocksdb_transaction_put(txn.get(), nullptr, 1, "1", 1, error_);
  ExpectInvalid("key is NULL and has a length");
  rocksdb_transaction_put_cf(txn.get(), nullptr, "a", 1, "1", 1, error_);
  ExpectInvalid("column_family is NULL");
  size_t size = 1;
  EXPECT_EQ(rocksdb_transaction_get(txn.get(), nullptr, "a", 1, &size, error_),
            nullptr);
  ExpectInvalid("options is NULL");
  EXPECT_EQ(
      rocksdb_transaction_begin(nullptr, write_.get(), begin_.get(), nullptr),
      nullptr);
  EXPECT_EQ(
      rocksdb_transaction_begin(txn_db_.get(), nullptr, begin_.get(), nullptr),
      nullptr);
  rocksdb_transaction_destroy(nullptr);
  rocksdb_transactiondb_close(nullptr);

  const std::string path = directory_.Sub("second");
  const LockingDbPtr second(rocksdb_transactiondb_open(
      options_.get(), db_options_.get(), path.c_str(), error_));
  const FamilyPtr family(rocksdb_transactiondb_create_column_family(
      second.get(), options_.get(), "family", error_));
  ASSERT_EQ(error_.Take(), "OK");
  rocksdb_transaction_put_cf(txn.get(), family.get(), "a", 1, "1", 1, error_);
  ExpectInvalid("column_family belongs to another database");
  EXPECT_EQ(rocksdb_transaction_begin(second.get(), write_.get(), begin_.get(),
                                      txn.get()),
            nullptr);
}

TEST_F(RocksDbLockingTest, TransactionsOutliveTheDatabase) {
  ASSERT_EQ(PutDb("a", "1"), "OK");
  TransactionPtr idle = Begin();
  TransactionPtr txn = Begin();
  TransactionPtr prepared = Begin();
  EXPECT_EQ(PutIn(txn, "a", "2"), "OK");
  EXPECT_EQ(PutIn(prepared, "p", "2"), "OK");
  EXPECT_EQ(Prepare(prepared, "p"), "OK");
  rocksdb_t* const base = rocksdb_transactiondb_get_base_db(txn_db_.get());
  rocksdb_transactiondb_t* const closed = txn_db_.get();
  txn_db_.reset();
  rocksdb_put(base, write_.get(), "a", 1, "3", 1, error_);
  ExpectInvalid("db was closed");
  rocksdb_transactiondb_put(closed, write_.get(), "a", 1, "3", 1, error_);
  ExpectInvalid("db was closed");
  EXPECT_EQ(
      rocksdb_transaction_begin(closed, write_.get(), begin_.get(), nullptr),
      nullptr);
  // Whatever they return, they do not crash.
  GetIn(txn, "a");
  PutIn(idle, "b", "1");
  Commit(txn);
  Rollback(idle);
  idle.reset();
  txn.reset();
  prepared.reset();
  OpenDb();
  EXPECT_EQ(Prepared().size(), 1u);
}

TEST_F(RocksDbLockingTest, IteratorsOutliveTheTransaction) {
  TransactionPtr txn = Begin();
  EXPECT_EQ(PutIn(txn, "a", "1"), "OK");
  IteratorPtr iterator = Iterate(txn);
  txn.reset();
  EXPECT_EQ(Scan(iterator.get()), "a=1 ");
  rocksdb_iter_refresh(iterator.get(), error_);
  EXPECT_EQ(error_.Take(), "Not implemented: Refresh() is not supported");
  txn_db_.reset();
  EXPECT_EQ(Scan(iterator.get()), "a=1 ");
  iterator.reset();
  OpenDb();
  EXPECT_EQ(GetDb("a"), "null");
}

}  // namespace
}  // namespace rocksdb_test
