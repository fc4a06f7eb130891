// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of transactions, except for their reads and updates.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "capi/open_request.h"
#include "capi/transaction/transactions.h"

using varve::OptimisticTransactionDB;
using varve::Slice;
using varve::Status;
using varve::Transaction;
using varve::TransactionDB;
using varve::capi::Bytes;
using varve::capi::CanUse;
using varve::capi::CopyBytes;
using varve::capi::Given;
using varve::capi::OpenDefault;
using varve::capi::OpenFamilies;
using varve::capi::OwnedTransactions;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::Usable;

namespace {

// Opens a database that has been checked, and tells its handle its kind.
varve::capi::OpenFunction OpenLocking(
    const varve_transactiondb_options_t* options) {
  return [options](const varve::DBOptions& db_options, const std::string& path,
                   const std::vector<varve::ColumnFamilyDescriptor>& families,
                   std::vector<varve::ColumnFamilyHandle*>* handles,
                   varve_t* handle) {
    std::unique_ptr<TransactionDB> db;
    Status status = TransactionDB::Open(db_options, options->rep, path,
                                        families, handles, &db);
    handle->locking = db.get();
    handle->owned = std::move(db);
    return status;
  };
}

Status OpenOptimistic(
    const varve::DBOptions& db_options, const std::string& path,
    const std::vector<varve::ColumnFamilyDescriptor>& families,
    std::vector<varve::ColumnFamilyHandle*>* handles, varve_t* handle) {
  std::unique_ptr<OptimisticTransactionDB> db;
  Status status =
      OptimisticTransactionDB::Open(db_options, path, families, handles, &db);
  handle->optimistic = db.get();
  handle->owned = std::move(db);
  return status;
}

// Checks the arguments of a begin. `kind` is the database if it has such
// transactions.
bool CanBegin(const varve_t* db, const void* kind, const void* write_options,
              const void* options, const varve_transaction_t* old,
              char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{write_options, "write_options"},
              Given{options, "txn_options"})) {
    return false;
  }
  Status status;
  if (db->db == varve::capi::ClosedDb()) {
    status = Status::ShutdownInProgress("the database was closed");
  } else if (kind == nullptr) {
    status = varve::capi::BadArgument("db", "has no such transactions");
  } else if (old != nullptr && old->handle != db) {
    status = varve::capi::BadArgument("old_txn", "is of another database");
  } else if (old != nullptr && old->rep->GetState() == Transaction::PREPARED) {
    status = varve::capi::BadArgument("old_txn", "is prepared");
  }
  return !SaveError(errptr, status);
}

varve_transaction_t* NewHandle(varve_t* db, std::shared_ptr<Transaction> rep) {
  auto* const handle = new varve_transaction_t(db, std::move(rep));
  varve::capi::AddDependent(handle);
  return handle;
}

// Destroys a transaction.
struct EndTransaction {
  std::shared_ptr<OwnedTransactions> all;  // Null if it is not in the map.

  void operator()(Transaction* transaction) const {
    if (all == nullptr) {
      delete transaction;
      return;
    }
    varve::MutexLock lock(&all->mutex);
    all->owners.erase(transaction);
    delete transaction;
  }
};

std::shared_ptr<Transaction> Own(Transaction* transaction) {
  return {transaction, EndTransaction{}};
}

// Lets varve_transactiondb_get_prepared_transactions find the transaction.
// Called before it is prepared: from then on others may ask for it.
void NoteOwner(const varve_transaction_t& transaction) {
  auto* const end = std::get_deleter<EndTransaction>(transaction.rep);
  if (end->all != nullptr) return;
  end->all = transaction.handle->transactions;
  varve::MutexLock lock(&end->all->mutex);
  end->all->owners[transaction.rep.get()] = transaction.rep;
}

// Returns the prepared transactions, shared with the handles that have them.
std::vector<std::shared_ptr<Transaction>> AllPrepared(varve_t* db) {
  std::vector<std::shared_ptr<Transaction>> all;
  std::vector<Transaction*> transactions;
  varve::MutexLock lock(&db->transactions->mutex);
  db->locking->GetAllPreparedTransactions(&transactions);
  for (Transaction* const transaction : transactions) {
    const auto [entry, is_recovered] =
        db->transactions->owners.try_emplace(transaction);
    std::shared_ptr<Transaction> shared = entry->second.lock();
    if (is_recovered) {
      shared = {transaction, EndTransaction{db->transactions}};
      entry->second = shared;
    }
    // Null if its last owner has gone, and is about to destroy it.
    if (shared != nullptr) all.push_back(std::move(shared));
  }
  return all;
}

}  // namespace

extern "C" {

// ---- Options ----------------------------------------------------------------

varve_transactiondb_options_t* varve_transactiondb_options_create(void) {
  return new varve_transactiondb_options_t;
}

void varve_transactiondb_options_destroy(
    varve_transactiondb_options_t* options) {
  delete options;
}

void varve_transactiondb_options_set_max_num_locks(
    varve_transactiondb_options_t* options, int64_t count) {
  Set(options, &varve::TransactionDBOptions::max_num_locks, count);
}

void varve_transactiondb_options_set_num_stripes(
    varve_transactiondb_options_t* options, size_t count) {
  Set(options, &varve::TransactionDBOptions::num_stripes, count);
}

void varve_transactiondb_options_set_transaction_lock_timeout(
    varve_transactiondb_options_t* options, int64_t milliseconds) {
  Set(options, &varve::TransactionDBOptions::transaction_lock_timeout,
      milliseconds);
}

void varve_transactiondb_options_set_default_lock_timeout(
    varve_transactiondb_options_t* options, int64_t milliseconds) {
  Set(options, &varve::TransactionDBOptions::default_lock_timeout,
      milliseconds);
}

varve_transaction_options_t* varve_transaction_options_create(void) {
  return new varve_transaction_options_t;
}

void varve_transaction_options_destroy(varve_transaction_options_t* options) {
  delete options;
}

void varve_transaction_options_set_set_snapshot(
    varve_transaction_options_t* options, uint8_t value) {
  Set(options, &varve::TransactionOptions::set_snapshot, value != 0);
}

void varve_transaction_options_set_deadlock_detect(
    varve_transaction_options_t* options, uint8_t value) {
  Set(options, &varve::TransactionOptions::deadlock_detect, value != 0);
}

void varve_transaction_options_set_deadlock_detect_depth(
    varve_transaction_options_t* options, int64_t depth) {
  Set(options, &varve::TransactionOptions::deadlock_detect_depth, depth);
}

void varve_transaction_options_set_lock_timeout(
    varve_transaction_options_t* options, int64_t milliseconds) {
  Set(options, &varve::TransactionOptions::lock_timeout, milliseconds);
}

void varve_transaction_options_set_expiration(
    varve_transaction_options_t* options, int64_t milliseconds) {
  Set(options, &varve::TransactionOptions::expiration, milliseconds);
}

void varve_transaction_options_set_max_write_batch_size(
    varve_transaction_options_t* options, size_t bytes) {
  Set(options, &varve::TransactionOptions::max_write_batch_size, bytes);
}

void varve_transaction_options_set_skip_prepare(
    varve_transaction_options_t* options, uint8_t value) {
  Set(options, &varve::TransactionOptions::skip_prepare, value != 0);
}

varve_optimistictransaction_options_t*
varve_optimistictransaction_options_create(void) {
  return new varve_optimistictransaction_options_t;
}

void varve_optimistictransaction_options_destroy(
    varve_optimistictransaction_options_t* options) {
  delete options;
}

void varve_optimistictransaction_options_set_set_snapshot(
    varve_optimistictransaction_options_t* options, uint8_t value) {
  Set(options, &varve::OptimisticTransactionOptions::set_snapshot, value != 0);
}

void varve_optimistictransaction_options_set_serializable(
    varve_optimistictransaction_options_t* options, uint8_t value) {
  Set(options, &varve::OptimisticTransactionOptions::isolation,
      value != 0 ? varve::TransactionIsolation::kSerializable
                 : varve::TransactionIsolation::kSnapshot);
}

// ---- Databases --------------------------------------------------------------

varve_t* varve_transactiondb_open(
    const varve_options_t* options,
    const varve_transactiondb_options_t* txn_db_options, const char* name,
    char** errptr) {
  if (!Usable(errptr, Given{txn_db_options, "txn_db_options"})) return nullptr;
  return OpenDefault(options, name, OpenLocking(txn_db_options), errptr);
}

varve_t* varve_transactiondb_open_column_families(
    const varve_options_t* options,
    const varve_transactiondb_options_t* txn_db_options, const char* name,
    int num_column_families, const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr) {
  if (!Usable(errptr, Given{txn_db_options, "txn_db_options"})) return nullptr;
  return OpenFamilies({options, name, num_column_families, column_family_names,
                       column_family_options, column_family_handles},
                      OpenLocking(txn_db_options), errptr);
}

varve_t* varve_optimistictransactiondb_open(const varve_options_t* options,
                                            const char* name, char** errptr) {
  return OpenDefault(options, name, OpenOptimistic, errptr);
}

varve_t* varve_optimistictransactiondb_open_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr) {
  return OpenFamilies({options, name, num_column_families, column_family_names,
                       column_family_options, column_family_handles},
                      OpenOptimistic, errptr);
}

// ---- The begin and the end of transactions ----------------------------------

varve_transaction_t* varve_transaction_begin(
    varve_t* db, const varve_writeoptions_t* write_options,
    const varve_transaction_options_t* txn_options,
    varve_transaction_t* old_txn, char** errptr) {
  if (!CanBegin(db, db != nullptr ? db->locking : nullptr, write_options,
                txn_options, old_txn, errptr)) {
    return nullptr;
  }
  Transaction* const begun = db->locking->BeginTransaction(
      write_options->rep, txn_options->rep,
      old_txn != nullptr ? old_txn->rep.get() : nullptr);
  return old_txn != nullptr ? old_txn : NewHandle(db, Own(begun));
}

varve_transaction_t* varve_optimistictransaction_begin(
    varve_t* db, const varve_writeoptions_t* write_options,
    const varve_optimistictransaction_options_t* txn_options,
    varve_transaction_t* old_txn, char** errptr) {
  if (!CanBegin(db, db != nullptr ? db->optimistic : nullptr, write_options,
                txn_options, old_txn, errptr)) {
    return nullptr;
  }
  Transaction* const begun = db->optimistic->BeginTransaction(
      write_options->rep, txn_options->rep,
      old_txn != nullptr ? old_txn->rep.get() : nullptr);
  return old_txn != nullptr ? old_txn : NewHandle(db, Own(begun));
}

void varve_transaction_destroy(varve_transaction_t* transaction) {
  if (transaction == nullptr) return;
  varve::capi::RemoveDependent(transaction);
  delete transaction;
}

void varve_transaction_commit(varve_transaction_t* transaction, char** errptr) {
  if (!CanUse(errptr, transaction)) return;
  SaveError(errptr, transaction->rep->Commit());
}

void varve_transaction_rollback(varve_transaction_t* transaction,
                                char** errptr) {
  if (!CanUse(errptr, transaction)) return;
  SaveError(errptr, transaction->rep->Rollback());
}

void varve_transaction_set_name(varve_transaction_t* transaction,
                                const char* name, size_t name_len,
                                char** errptr) {
  if (!CanUse(errptr, transaction, Bytes{name, name_len, "name"})) return;
  SaveError(errptr, transaction->rep->SetName(
                        varve::capi::ToSlice(name, name_len).ToString()));
}

char* varve_transaction_get_name(varve_transaction_t* transaction,
                                 size_t* name_len) {
  if (name_len != nullptr) *name_len = 0;
  if (!CanUse(nullptr, transaction)) return nullptr;
  const std::string name = transaction->rep->GetName();
  if (name_len != nullptr) *name_len = name.size();
  return CopyBytes(name);
}

void varve_transaction_prepare(varve_transaction_t* transaction,
                               char** errptr) {
  if (!CanUse(errptr, transaction)) return;
  NoteOwner(*transaction);
  SaveError(errptr, transaction->rep->Prepare());
}

varve_transaction_t** varve_transactiondb_get_prepared_transactions(
    varve_t* db, size_t* count) {
  if (count != nullptr) *count = 0;
  if (db == nullptr || count == nullptr || db->db == varve::capi::ClosedDb() ||
      db->locking == nullptr) {
    return nullptr;
  }
  const auto transactions = AllPrepared(db);
  if (transactions.empty()) return nullptr;
  auto** const list = static_cast<varve_transaction_t**>(
      malloc(transactions.size() * sizeof(varve_transaction_t*)));
  if (list == nullptr) return nullptr;
  for (const auto& transaction : transactions) {
    list[(*count)++] = NewHandle(db, transaction);
  }
  return list;
}

// ---- Save points and snapshots ----------------------------------------------

void varve_transaction_set_savepoint(varve_transaction_t* transaction) {
  if (CanUse(nullptr, transaction)) transaction->rep->SetSavePoint();
}

void varve_transaction_rollback_to_savepoint(varve_transaction_t* transaction,
                                             char** errptr) {
  if (!CanUse(errptr, transaction)) return;
  SaveError(errptr, transaction->rep->RollbackToSavePoint());
}

void varve_transaction_set_snapshot(varve_transaction_t* transaction) {
  if (CanUse(nullptr, transaction)) transaction->rep->SetSnapshot();
}

void varve_readoptions_set_transaction_snapshot(
    varve_readoptions_t* options, varve_transaction_t* transaction) {
  Set(options, &varve::ReadOptions::snapshot,
      CanUse(nullptr, transaction) ? transaction->rep->GetSnapshot() : nullptr);
}

}  // extern "C"
