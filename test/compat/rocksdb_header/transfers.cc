// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a program in RocksDB's style does the same on Varve by the header
// varve/rocksdb.h: transactions of both kinds, two phases, indexed batches.
// Compiled twice; what differs is in #ifdef VARVE_MOVED.
//
// Usage: transfers DIRECTORY

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#endif

namespace {

using TransactionPtr = std::unique_ptr<rocksdb::Transaction>;

// Prints how an operation ended.
void Show(const char* what, const rocksdb::Status& status) {
  const char* const result = status.ok()           ? "done"
                             : status.IsBusy()     ? "busy"
                             : status.IsTimedOut() ? "timed out"
                             : status.IsNotFound() ? "not found"
                                                   : "failed";
  std::printf("%s: %s\n", what, result);
}

void Require(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.ToString().c_str());
  std::exit(1);
}

void ShowAll(const char* what, rocksdb::Iterator* it) {
  std::printf("%s:", what);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    std::printf(" %s=%s", it->key().ToString().c_str(),
                it->value().ToString().c_str());
  }
  std::printf("\n");
  Require(it->status());
}

void ShowAll(const char* what, rocksdb::DB* db) {
  const std::unique_ptr<rocksdb::Iterator> it(
      db->NewIterator(rocksdb::ReadOptions()));
  ShowAll(what, it.get());
}

void ShowAll(const char* what, rocksdb::Transaction* transaction) {
#ifdef VARVE_MOVED
  const auto it = transaction->GetIterator(rocksdb::ReadOptions());
#else
  const std::unique_ptr<rocksdb::Iterator> it(
      transaction->GetIterator(rocksdb::ReadOptions()));
#endif
  ShowAll(what, it.get());
}

// Moves `amount` from one account to another.
rocksdb::Status Transfer(rocksdb::Transaction* transaction,
                         const std::string& from, const std::string& to,
                         int amount) {
  const rocksdb::ReadOptions read;
  std::string value;
  rocksdb::Status status = transaction->GetForUpdate(read, from, &value);
  if (!status.ok()) return status;
  status = transaction->Put(from, std::to_string(std::stoi(value) - amount));
  if (status.ok()) status = transaction->GetForUpdate(read, to, &value);
  if (!status.ok()) return status;
  return transaction->Put(to, std::to_string(std::stoi(value) + amount));
}

void Fill(rocksdb::DB* db) {
  const rocksdb::WriteOptions write;
  for (const char* account : {"a", "b", "c"}) {
    Require(db->Put(write, account, "100"));
  }
}

void RunOptimistic(const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::OptimisticTransactionDB* opened = nullptr;
  Require(rocksdb::OptimisticTransactionDB::Open(options, path, &opened));
  const std::unique_ptr<rocksdb::OptimisticTransactionDB> db(opened);
  Fill(db.get());
  const rocksdb::WriteOptions write;
  const TransactionPtr one(db->BeginTransaction(write));
  const TransactionPtr two(db->BeginTransaction(write));
  Show("a to b", Transfer(one.get(), "a", "b", 10));
  Show("b to c", Transfer(two.get(), "b", "c", 20));
  ShowAll("one", one.get());
  Show("commit one", one->Commit());
  Show("commit two", two->Commit());
  Require(two->Rollback());
  rocksdb::OptimisticTransactionOptions with_snapshot;
  with_snapshot.set_snapshot = true;
  const TransactionPtr three(db->BeginTransaction(write, with_snapshot));
  Require(db->Put(write, "c", "7"));
  Show("late", Transfer(three.get(), "b", "c", 20));
  Show("commit three", three->Commit());
  three->SetSavePoint();
  ShowAll("optimistic", db.get());
}

void RunLocking(const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::TransactionDBOptions db_options;
  db_options.transaction_lock_timeout = 0;
  db_options.default_lock_timeout = 0;
  rocksdb::TransactionDB* opened = nullptr;
  Require(rocksdb::TransactionDB::Open(options, db_options, path, &opened));
  std::unique_ptr<rocksdb::TransactionDB> db(opened);
  Fill(db.get());
  const rocksdb::WriteOptions write;
  {
    const TransactionPtr one(db->BeginTransaction(write));
    const TransactionPtr two(db->BeginTransaction(write));
    Show("a to b", Transfer(one.get(), "a", "b", 10));
    Show("b to c", Transfer(two.get(), "b", "c", 20));
    Show("plain", db->Put(write, "a", "0"));
    one->SetSavePoint();
    Require(one->Delete("c"));
    Require(one->RollbackToSavePoint());
    Require(one->SetName("transfer"));
    Show("prepare", one->Prepare());
  }
  ShowAll("prepared", db.get());
  db.reset();
  Require(rocksdb::TransactionDB::Open(options, db_options, path, &opened));
  db.reset(opened);
  std::vector<rocksdb::Transaction*> prepared;
  db->GetAllPreparedTransactions(&prepared);
  for (rocksdb::Transaction* const transaction : prepared) {
    const TransactionPtr owned(transaction);
    Show(owned->GetName().c_str(), owned->Commit());
  }
  ShowAll("locking", db.get());

  rocksdb::WriteBatchWithIndex batch;
  Require(batch.Put("b", "batch"));
  Require(batch.Delete("c"));
  std::string value;
  const rocksdb::ReadOptions read;
  Show("read b", batch.GetFromBatchAndDB(db.get(), read, "b", &value));
  Show("read c", batch.GetFromBatchAndDB(db.get(), read, "c", &value));
  const std::unique_ptr<rocksdb::Iterator> it(
      batch.NewIteratorWithBase(db->NewIterator(read)));
  ShowAll("batch", it.get());
}

// Opens the database of RunLocking as a DB, and wraps it.
void RunWrapped(const std::string& path) {
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  std::vector<size_t> indices;
  rocksdb::TransactionDB::PrepareWrap(&options, &families, &indices);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* plain = nullptr;
  Require(rocksdb::DB::Open(options, path, families, &handles, &plain));
  rocksdb::TransactionDBOptions db_options;
  db_options.transaction_lock_timeout = 0;
  rocksdb::TransactionDB* wrapped = nullptr;
  Require(rocksdb::TransactionDB::WrapDB(plain, db_options, indices, handles,
                                         &wrapped));
  const std::unique_ptr<rocksdb::TransactionDB> db(wrapped);
  const rocksdb::WriteOptions write;
  const TransactionPtr one(db->BeginTransaction(write));
  const TransactionPtr two(db->BeginTransaction(write));
  Show("a to b", Transfer(one.get(), "a", "b", 10));
  Show("b to c", Transfer(two.get(), "b", "c", 20));
  rocksdb::DB* const base = db->GetBaseDB();
  std::printf("base: %d %d\n", base == plain ? 1 : 0,
              db->GetRootDB() == base ? 1 : 0);
  Show("plain", base->Put(write, "a", "0"));
  ShowAll("base", base);
  Show("commit one", one->Commit());
  ShowAll("wrapped", db.get());
  for (rocksdb::ColumnFamilyHandle* const handle : handles) delete handle;
}

// Reads the database that is being closed.
class ReadingListener : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB* db,
                    const rocksdb::FlushJobInfo& /*info*/) override {
    std::string value;
    Show("read at close", db->Get(rocksdb::ReadOptions(), "a", &value));
    std::printf("a=%s\n", value.c_str());
  }
};

// The flush of updates that are in no log is a part of the end of a DB.
template <typename Class, typename Opener>
void RunToItsEnd(const std::string& path, const Opener& open) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.listeners.push_back(std::make_shared<ReadingListener>());
  Class* opened = nullptr;
  Require(open(options, path, &opened));
  const std::unique_ptr<Class> db(opened);
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  Require(db->Put(unlogged, "a", "unlogged"));
}

}  // namespace

int main(int /*argc*/, char** argv) {
  RunOptimistic(std::string(argv[1]) + ".optimistic");
  RunLocking(std::string(argv[1]) + ".locking");
  RunWrapped(std::string(argv[1]) + ".locking");
  using rocksdb::OptimisticTransactionDB;
  using rocksdb::TransactionDB;
  RunToItsEnd<TransactionDB>(
      std::string(argv[1]) + ".locking_end",
      [](const auto& options, const auto& path, TransactionDB** db) {
        return TransactionDB::Open(options, rocksdb::TransactionDBOptions(),
                                   path, db);
      });
  RunToItsEnd<OptimisticTransactionDB>(
      std::string(argv[1]) + ".optimistic_end",
      [](const auto& options, const auto& path, OptimisticTransactionDB** db) {
        return OptimisticTransactionDB::Open(options, path, db);
      });
  RunToItsEnd<rocksdb::DB>(
      std::string(argv[1]) + ".end",
      [](const auto& options, const auto& path, rocksdb::DB** db) {
        return rocksdb::DB::Open(options, path, db);
      });
  return 0;
}
