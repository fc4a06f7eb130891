// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The objects of transactions in RocksDB's C interface. A handle of a database
// with transactions is a rocksdb_t of another name, so that all that a database
// does is done by the functions of db/.

#include <rocksdb/c.h>

#include <map>
#include <memory>
#include <mutex>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/db/handles.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/transaction.h"
#include "varve/transaction_db.h"

namespace varve::rocksdb_c {

struct OwnedTransaction;

// The part of a database that it shares with its transactions.
struct TransactionSupport {
  // Keeps the database until its transactions are gone.
  std::shared_ptr<DB> db;
  // The same, by its kind. The other one is null.
  TransactionDB* pessimistic = nullptr;
  OptimisticTransactionDB* optimistic = nullptr;
  const rocksdb_t* handle = nullptr;  // Compared only, since it can be gone.

  std::mutex mutex;
  // The transactions that may be prepared and have an owner: a handle has begun
  // to prepare them, or they have been returned as prepared. Others that are
  // prepared were found by recovery, and belong to nobody. A transaction is
  // destroyed with the mutex held, and leaves the map with it. So one that is
  // in the map exists, also if its owners have just gone. Guarded by `mutex`.
  std::map<Transaction*, std::weak_ptr<OwnedTransaction>> owners;
};

// A transaction, which is rolled back when the last of its handles and
// iterators is destroyed. A prepared one stays prepared.
struct OwnedTransaction {
  OwnedTransaction(std::shared_ptr<TransactionSupport> its_support,
                   Transaction* its_rep)
      : support(std::move(its_support)), rep(its_rep) {}
  OwnedTransaction(const OwnedTransaction&) = delete;
  OwnedTransaction& operator=(const OwnedTransaction&) = delete;
  ~OwnedTransaction();

  const std::shared_ptr<TransactionSupport> support;
  std::unique_ptr<Transaction> rep;
  bool is_noted = false;  // It is in the map of `support`.
};

inline rocksdb_t* ToDb(rocksdb_transactiondb_t* db) {
  return reinterpret_cast<rocksdb_t*>(db);
}
inline rocksdb_t* ToDb(rocksdb_optimistictransactiondb_t* db) {
  return reinterpret_cast<rocksdb_t*>(db);
}

}  // namespace varve::rocksdb_c

struct rocksdb_transaction_t {
  explicit rocksdb_transaction_t(
      std::shared_ptr<varve::rocksdb_c::OwnedTransaction> transaction)
      : owned(std::move(transaction)), rep(owned->rep.get()) {}

  const std::shared_ptr<varve::rocksdb_c::OwnedTransaction> owned;
  varve::Transaction* rep;
};

namespace varve::rocksdb_c {

// A column family of the database of a transaction that an earlier argument has
// checked.
struct FamilyOfTransaction {
  const rocksdb_column_family_handle_t* family;
  const rocksdb_transaction_t* txn;
  static constexpr const char* name = FamilyOfMain::name;

  bool ok() const { return Checked().ok(); }
  const char* Problem() const { return Checked().Problem(); }
  FamilyOfMain Checked() const { return {family, txn->owned->support->handle}; }
};

// Returns an error of a transaction's call. A conflict has no text, as with
// RocksDB, because programs compare it.
[[gnu::cold]] inline Status ErrorAsRocksDb(const Status& status) {
  const bool is_conflict =
      status.IsBusy() && status.subcode() == Status::Subcode::kNone;
  return is_conflict ? Status::Busy("") : status;
}

// Returns whether a transaction's call failed. Stores the error.
inline bool TransactionFailed(char** errptr, const Status& status) {
  if (status.ok()) [[likely]]
    return false;
  ReplaceError(errptr, ErrorAsRocksDb(status));
  return true;
}

}  // namespace varve::rocksdb_c
