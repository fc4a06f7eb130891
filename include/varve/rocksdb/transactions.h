// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's databases with transactions, and batches that can be read; see
// varve/rocksdb.h. Transactions are Varve's, whose GetIterator returns a
// std::unique_ptr.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "varve/optimistic_transaction_db.h"
#include "varve/rocksdb/db.h"
#include "varve/rocksdb/names.h"
#include "varve/rocksdb/options.h"
#include "varve/transaction.h"
#include "varve/transaction_db.h"
#include "varve/write_batch_with_index.h"

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::DeadlockInfo;
using varve::DeadlockPath;
using varve::KeyLockInfo;
using varve::OptimisticTransactionOptions;
using varve::Transaction;
using varve::TransactionDBOptions;
using varve::TransactionDBWriteOptimizations;
using varve::TransactionID;
using varve::TransactionName;
using varve::TransactionNotifier;
using varve::TransactionOptions;
using varve::TxnDBWritePolicy;
using varve::WBWIIterator;
using varve::WRITE_COMMITTED;
using varve::WRITE_PREPARED;
using varve::WRITE_UNPREPARED;
using varve::WriteEntry;
using varve::WriteType;

// The caller owns iterators, and deletes them before the batch.
class WriteBatchWithIndex : public varve::WriteBatchWithIndex {
 public:
  using varve::WriteBatchWithIndex::WriteBatchWithIndex;

  WBWIIterator* NewIterator(ColumnFamilyHandle* family = nullptr) {
    return varve::WriteBatchWithIndex::NewIterator(family).release();
  }
  Iterator* NewIteratorWithBase(ColumnFamilyHandle* family, Iterator* base,
                                const ReadOptions* options = nullptr) {
    return varve::WriteBatchWithIndex::NewIteratorWithBase(
               family, std::unique_ptr<Iterator>(base), options)
        .release();
  }
  Iterator* NewIteratorWithBase(Iterator* base) {
    return NewIteratorWithBase(nullptr, base);
  }
  template <typename Value>
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options, const Slice& key,
                           Value* value) {
    return varve::WriteBatchWithIndex::GetFromBatchAndDB(db->GetVarve(),
                                                         options, key, value);
  }
  template <typename Value>
  Status GetFromBatchAndDB(DB* db, const ReadOptions& options,
                           ColumnFamilyHandle* family, const Slice& key,
                           Value* value) {
    return varve::WriteBatchWithIndex::GetFromBatchAndDB(
        db->GetVarve(), options, family, key, value);
  }
};

class TransactionDB : public DB {
 public:
  static Status Open(const Options& options,
                     const TransactionDBOptions& transaction_options,
                     const std::string& name, TransactionDB** db) {
    std::vector<ColumnFamilyHandle*> handles;
    Status status = Open(options, transaction_options, name,
                         {{kDefaultColumnFamilyName, options}}, &handles, db);
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    return status;
  }
  static Status Open(const DBOptions& options,
                     const TransactionDBOptions& transaction_options,
                     const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     TransactionDB** db) {
    varve::TransactionDB* transactions = nullptr;
    Status status = ToPointer(db, [&](auto* owner) {
      return Wrap(
          options, name, owner, [&](const auto& converted, auto* opened) {
            std::unique_ptr<varve::TransactionDB> rep;
            Status result =
                varve::TransactionDB::Open(converted, transaction_options, name,
                                           ToVarve(families), handles, &rep);
            transactions = rep.get();
            *opened = std::move(rep);
            return result;
          });
    });
    if (status.ok()) {
      std::unique_ptr<DB> base(new DB(name, options.env));
      base->db_ = {std::shared_ptr<void>(), transactions->GetBaseDB()};
      (*db)->Take(transactions, std::move(base));
    }
    return status;
  }
  // Changes nothing: Varve needs no other options for transactions.
  static void PrepareWrap(DBOptions* /*options*/,
                          std::vector<ColumnFamilyDescriptor>* /*families*/,
                          std::vector<size_t>* compaction_enabled_cf_indices) {
    compaction_enabled_cf_indices->clear();
  }
  // After an error, the caller still owns `db`.
  static Status WrapDB(
      DB* db, const TransactionDBOptions& transaction_options,
      const std::vector<size_t>& /*compaction_enabled_cf_indices*/,
      const std::vector<ColumnFamilyHandle*>& /*handles*/,
      TransactionDB** wrapped) {
    *wrapped = nullptr;
    std::unique_ptr<varve::TransactionDB> rep;
    Status status =
        varve::TransactionDB::WrapDB(db->db_, transaction_options, &rep);
    if (!status.ok()) return status;
    *wrapped = new TransactionDB(db->name_, db->env_);
    (*wrapped)->Take(rep.get(), std::unique_ptr<DB>(db));
    (*wrapped)->db_ = std::move(rep);
    return status;
  }
  // Listeners are called until the DB is closed, and may use this one until
  // then.
  ~TransactionDB() override {
    if (db_ != nullptr) db_->Close().IgnoreError();
    db_.reset();
  }

  // The DB without transactions, whose writes take no locks. It is valid as
  // long as this one.
  DB* GetBaseDB() { return base_.get(); }
  DB* GetRootDB() { return base_.get(); }

  using DB::Write;
  Status Write(const WriteOptions& options,
               const TransactionDBWriteOptimizations& optimizations,
               WriteBatch* updates) {
    return transactions_->Write(options, optimizations, updates);
  }
  // The caller owns the transaction.
  Transaction* BeginTransaction(
      const WriteOptions& write_options,
      const TransactionOptions& options = TransactionOptions(),
      Transaction* old = nullptr) {
    return transactions_->BeginTransaction(write_options, options, old);
  }
  Transaction* GetTransactionByName(const TransactionName& name) {
    return transactions_->GetTransactionByName(name);
  }
  void GetAllPreparedTransactions(std::vector<Transaction*>* transactions) {
    transactions_->GetAllPreparedTransactions(transactions);
  }
  std::unordered_multimap<uint32_t, KeyLockInfo> GetLockStatusData() {
    return transactions_->GetLockStatusData();
  }
  std::vector<DeadlockPath> GetDeadlockInfoBuffer() {
    return transactions_->GetDeadlockInfoBuffer();
  }
  void SetDeadlockInfoBufferSize(uint32_t count) {
    transactions_->SetDeadlockInfoBufferSize(count);
  }

 private:
  friend class DB;
  using DB::DB;

  void Take(varve::TransactionDB* transactions, std::unique_ptr<DB> base) {
    transactions_ = transactions;
    base_ = std::move(base);
  }

  varve::TransactionDB* transactions_ = nullptr;
  std::unique_ptr<DB> base_;
};

class OptimisticTransactionDB : public DB {
 public:
  static Status Open(const Options& options, const std::string& name,
                     OptimisticTransactionDB** db) {
    std::vector<ColumnFamilyHandle*> handles;
    Status status = Open(options, name, {{kDefaultColumnFamilyName, options}},
                         &handles, db);
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    return status;
  }
  static Status Open(const DBOptions& options, const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     OptimisticTransactionDB** db) {
    varve::OptimisticTransactionDB* transactions = nullptr;
    Status status = ToPointer(db, [&](auto* owner) {
      return Wrap(options, name, owner,
                  [&](const auto& converted, auto* opened) {
                    std::unique_ptr<varve::OptimisticTransactionDB> rep;
                    Status result = varve::OptimisticTransactionDB::Open(
                        converted, name, ToVarve(families), handles, &rep);
                    transactions = rep.get();
                    *opened = std::move(rep);
                    return result;
                  });
    });
    if (status.ok()) (*db)->transactions_ = transactions;
    return status;
  }

  // The caller owns the transaction.
  Transaction* BeginTransaction(const WriteOptions& write_options,
                                const OptimisticTransactionOptions& options =
                                    OptimisticTransactionOptions(),
                                Transaction* old = nullptr) {
    return transactions_->BeginTransaction(write_options, options, old);
  }
  DB* GetBaseDB() { return this; }
  DB* GetRootDB() { return this; }

 private:
  friend class DB;
  using DB::DB;
  varve::OptimisticTransactionDB* transactions_ = nullptr;
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
