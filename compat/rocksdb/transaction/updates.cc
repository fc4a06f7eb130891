// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The updates of transactions.

#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/transaction/handles.h"

using varve::ColumnFamilyHandle;
using varve::Slice;
using varve::Status;
using varve::Transaction;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::FamilyOfTransaction;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::TransactionFailed;
using varve::rocksdb_c::Usable;

extern "C" {

void rocksdb_transaction_put(rocksdb_transaction_t* txn, const char* key,
                             size_t klen, const char* val, size_t vlen,
                             char** errptr) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  if (!Usable(errptr, Given{txn, "txn"}, k, v)) return;
  TransactionFailed(errptr, txn->rep->Put(k.slice(), v.slice()));
}

void rocksdb_transaction_put_cf(rocksdb_transaction_t* txn,
                                rocksdb_column_family_handle_t* column_family,
                                const char* key, size_t klen, const char* val,
                                size_t vlen, char** errptr) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  if (!Usable(errptr, Given{txn, "txn"},
              FamilyOfTransaction{column_family, txn}, k, v)) {
    return;
  }
  TransactionFailed(
      errptr, txn->rep->Put(column_family->rep.get(), k.slice(), v.slice()));
}

void rocksdb_transaction_merge(rocksdb_transaction_t* txn, const char* key,
                               size_t klen, const char* val, size_t vlen,
                               char** errptr) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  if (!Usable(errptr, Given{txn, "txn"}, k, v)) return;
  TransactionFailed(errptr, txn->rep->Merge(k.slice(), v.slice()));
}

void rocksdb_transaction_merge_cf(rocksdb_transaction_t* txn,
                                  rocksdb_column_family_handle_t* column_family,
                                  const char* key, size_t klen, const char* val,
                                  size_t vlen, char** errptr) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  if (!Usable(errptr, Given{txn, "txn"},
              FamilyOfTransaction{column_family, txn}, k, v)) {
    return;
  }
  TransactionFailed(
      errptr, txn->rep->Merge(column_family->rep.get(), k.slice(), v.slice()));
}

void rocksdb_transaction_delete(rocksdb_transaction_t* txn, const char* key,
                                size_t klen, char** errptr) {
  const Bytes k{key, klen, "key"};
  if (!Usable(errptr, Given{txn, "txn"}, k)) return;
  TransactionFailed(errptr, txn->rep->Delete(k.slice()));
}

void rocksdb_transaction_delete_cf(
    rocksdb_transaction_t* txn, rocksdb_column_family_handle_t* column_family,
    const char* key, size_t klen, char** errptr) {
  const Bytes k{key, klen, "key"};
  if (!Usable(errptr, Given{txn, "txn"},
              FamilyOfTransaction{column_family, txn}, k)) {
    return;
  }
  TransactionFailed(errptr,
                    txn->rep->Delete(column_family->rep.get(), k.slice()));
}

void rocksdb_transaction_put_log_data(rocksdb_transaction_t* txn,
                                      const char* blob, size_t len) {
  const Bytes bytes{blob, len, "blob"};
  if (!Usable(nullptr, Given{txn, "txn"}, bytes)) return;
  txn->rep->PutLogData(bytes.slice());
}

void rocksdb_transaction_rebuild_from_writebatch(
    rocksdb_transaction_t* txn, rocksdb_writebatch_t* writebatch,
    char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"}, Given{writebatch, "writebatch"})) {
    return;
  }
  TransactionFailed(errptr, txn->rep->RebuildFromWriteBatch(&writebatch->rep));
}

void rocksdb_transaction_rebuild_from_writebatch_wi(rocksdb_transaction_t* txn,
                                                    rocksdb_writebatch_wi_t* wi,
                                                    char** errptr) {
  if (!Usable(errptr, Given{txn, "txn"}, Given{wi, "wi"})) return;
  TransactionFailed(errptr,
                    txn->rep->RebuildFromWriteBatch(wi->rep->GetWriteBatch()));
}

}  // extern "C"
