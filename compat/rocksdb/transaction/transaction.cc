// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The begin and the end of transactions, and what is theirs besides reads and
// updates.

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/lifetime.h"
#include "compat/rocksdb/db/snapshot.h"
#include "compat/rocksdb/options/options.h"
#include "compat/rocksdb/transaction/handles.h"
#include "compat/rocksdb/transaction/options.h"

namespace varve::rocksdb_c {

OwnedTransaction::~OwnedTransaction() {
  LetGo([this] {
    if (!is_noted) {
      rep.reset();
      return;
    }
    const std::scoped_lock lock(support->mutex);
    support->owners.erase(rep.get());
    rep.reset();
  });
}

namespace {

// Returns whether the arguments of a begin are usable. There is no argument for
// errors.
template <typename Options>
bool CanBegin(const rocksdb_t* db, const rocksdb_writeoptions_t* write_options,
              const Options* options, const rocksdb_transaction_t* old) {
  if (!Open{db}.ok() || write_options == nullptr || options == nullptr) {
    return false;
  }
  if (write_options->refused != nullptr) {
    NoteMissing("The begin of a transaction", write_options->refused);
    return false;
  }
  return old == nullptr || (old->owned->support == db->transactions &&
                            old->rep->GetState() != Transaction::PREPARED);
}

// Begins a transaction, or `old` anew, by begin(Transaction* old).
template <typename Begin>
rocksdb_transaction_t* BeginAs(const rocksdb_t* db, rocksdb_transaction_t* old,
                               Begin begin) {
  if (old != nullptr) {
    // The engine returns the same object.
    old->rep = begin(old->rep);
    return old;
  }
  return new rocksdb_transaction_t(
      std::make_shared<OwnedTransaction>(db->transactions, begin(nullptr)));
}

// Lets rocksdb_transactiondb_get_prepared_transactions find the transaction.
// Called before it is prepared: from then on others may ask for it.
void NoteOwner(const std::shared_ptr<OwnedTransaction>& transaction) {
  if (transaction->is_noted) return;
  transaction->is_noted = true;
  TransactionSupport& support = *transaction->support;
  const std::scoped_lock lock(support.mutex);
  support.owners[transaction->rep.get()] = transaction;
}

// Returns the prepared transactions. Handles share those that have one.
std::vector<std::shared_ptr<OwnedTransaction>> AllPrepared(
    const std::shared_ptr<TransactionSupport>& support) {
  std::vector<std::shared_ptr<OwnedTransaction>> all;
  std::vector<Transaction*> transactions;
  const std::scoped_lock lock(support->mutex);
  support->pessimistic->GetAllPreparedTransactions(&transactions);
  for (Transaction* const transaction : transactions) {
    const auto [entry, is_recovered] = support->owners.try_emplace(transaction);
    std::shared_ptr<OwnedTransaction> owned = entry->second.lock();
    if (is_recovered) {
      owned = std::make_shared<OwnedTransaction>(support, transaction);
      owned->is_noted = true;
      entry->second = owned;
    }
    // Null if its last owner has gone, and is about to destroy it.
    if (owned != nullptr) all.push_back(std::move(owned));
  }
  return all;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::AllPrepared;
using varve::rocksdb_c::BeginAs;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::CanBegin;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::NewSnapshot;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::ToDb;
using varve::rocksdb_c::ToVarve;
using varve::rocksdb_c::TransactionFailed;
using varve::rocksdb_c::Usable;

extern "C" {

// ---- Begin and end ----

rocksdb_transaction_t* rocksdb_transaction_begin(
    rocksdb_transactiondb_t* txn_db,
    const rocksdb_writeoptions_t* write_options,
    const rocksdb_transaction_options_t* txn_options,
    rocksdb_transaction_t* old_txn) {
  const rocksdb_t* const db = ToDb(txn_db);
  if (!CanBegin(db, write_options, txn_options, old_txn)) return nullptr;
  return BeginAs(db, old_txn, [&](varve::Transaction* old) {
    return db->transactions->pessimistic->BeginTransaction(
        write_options->rep, ToVarve(*txn_options), old);
  });
}

rocksdb_transaction_t* rocksdb_optimistictransaction_begin(
    rocksdb_optimistictransactiondb_t* otxn_db,
    const rocksdb_writeoptions_t* write_options,
    const rocksdb_optimistictransaction_options_t* otxn_options,
    rocksdb_transaction_t* old_txn) {
  const rocksdb_t* const db = ToDb(otxn_db);
  if (!CanBegin(db, write_options, otxn_options, old_txn)) return nullptr;
  return BeginAs(db, old_txn, [&](varve::Transaction* old) {
    return db->transactions->optimistic->BeginTransaction(
        write_options->rep, ToVarve(*otxn_options), old);
  });
}

void rocksdb_transaction_commit(rocksdb_transaction_t* txn, char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"})) return;
  TransactionFailed(errptr, txn->rep->Commit());
}

void rocksdb_transaction_rollback(rocksdb_transaction_t* txn, char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"})) return;
  TransactionFailed(errptr, txn->rep->Rollback());
}

void rocksdb_transaction_destroy(rocksdb_transaction_t* txn) { delete txn; }

// ---- Two phases ----

void rocksdb_transaction_set_name(rocksdb_transaction_t* txn, const char* name,
                                  size_t name_len, char** errptr) {
  const Bytes bytes{name, name_len, "name"};
  if (!Usable(errptr, Given{txn, "txn"}, bytes)) return;
  TransactionFailed(errptr, txn->rep->SetName(bytes.slice().ToString()));
}

char* rocksdb_transaction_get_name(rocksdb_transaction_t* txn,
                                   size_t* name_len) {
  if (name_len != nullptr) *name_len = 0;
  if (txn == nullptr || name_len == nullptr) return nullptr;
  const std::string name = txn->rep->GetName();
  *name_len = name.size();
  return CopyBytes(name);
}

void rocksdb_transaction_prepare(rocksdb_transaction_t* txn, char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"})) return;
  varve::rocksdb_c::NoteOwner(txn->owned);
  TransactionFailed(errptr, txn->rep->Prepare());
}

rocksdb_transaction_t** rocksdb_transactiondb_get_prepared_transactions(
    rocksdb_transactiondb_t* txn_db, size_t* cnt) {
  if (cnt != nullptr) *cnt = 0;
  const rocksdb_t* const db = ToDb(txn_db);
  if (!Open{db}.ok() || cnt == nullptr) return nullptr;
  const auto transactions = AllPrepared(db->transactions);
  if (transactions.empty()) return nullptr;
  auto** const handles = static_cast<rocksdb_transaction_t**>(
      malloc(transactions.size() * sizeof(rocksdb_transaction_t*)));
  for (const auto& transaction : transactions) {
    handles[(*cnt)++] = new rocksdb_transaction_t(transaction);
  }
  return handles;
}

// ---- Save points, batches and snapshots ----

void rocksdb_transaction_set_savepoint(rocksdb_transaction_t* txn) {
  if (txn != nullptr) txn->rep->SetSavePoint();
}

void rocksdb_transaction_rollback_to_savepoint(rocksdb_transaction_t* txn,
                                               char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"})) return;
  TransactionFailed(errptr, txn->rep->RollbackToSavePoint());
}

rocksdb_writebatch_wi_t* rocksdb_transaction_get_writebatch_wi(
    rocksdb_transaction_t* txn) {
  if (txn == nullptr) return nullptr;
  return NewIndexedBatch(txn->rep->GetWriteBatch(), nullptr);
}

const rocksdb_snapshot_t* rocksdb_transaction_get_snapshot(
    rocksdb_transaction_t* txn) {
  if (txn == nullptr) return nullptr;
  return NewSnapshot(txn->rep->GetSnapshot(), nullptr);
}

}  // extern "C"
