// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of the updates of transactions.

#include "capi/transaction/transactions.h"

using varve::ColumnFamilyHandle;
using varve::Slice;
using varve::Status;
using varve::Transaction;
using varve::capi::Bytes;
using varve::capi::CanUse;
using varve::capi::FamilyOfTransaction;
using varve::capi::Given;
using varve::capi::SaveError;

namespace {

Slice ToSlice(const Bytes& bytes) {
  return varve::capi::ToSlice(bytes.data, bytes.size);
}

// Add an update by add(Transaction*, ColumnFamilyHandle*, slices...).
template <typename Function, typename... Arguments>
void Add(varve_transaction_t* transaction, char** errptr, Function add,
         const Arguments&... arguments) {
  if (!CanUse(errptr, transaction, arguments...)) return;
  SaveError(errptr,
            add(transaction->rep.get(), nullptr, ToSlice(arguments)...));
}

template <typename Function, typename... Arguments>
void AddTo(varve_transaction_t* transaction,
           const varve_column_family_handle_t* family, char** errptr,
           Function add, const Arguments&... arguments) {
  if (!CanUse(errptr, transaction, FamilyOfTransaction{family, transaction},
              arguments...)) {
    return;
  }
  SaveError(errptr, add(transaction->rep.get(), family->rep.get(),
                        ToSlice(arguments)...));
}

Status Put(Transaction* transaction, ColumnFamilyHandle* family,
           const Slice& key, const Slice& value) {
  return transaction->Put(family, key, value);
}
Status Merge(Transaction* transaction, ColumnFamilyHandle* family,
             const Slice& key, const Slice& operand) {
  return transaction->Merge(family, key, operand);
}
Status Delete(Transaction* transaction, ColumnFamilyHandle* family,
              const Slice& key) {
  return transaction->Delete(family, key);
}
Status SingleDelete(Transaction* transaction, ColumnFamilyHandle* family,
                    const Slice& key) {
  return transaction->SingleDelete(family, key);
}
Status DeleteRange(Transaction* transaction, ColumnFamilyHandle* family,
                   const Slice& begin, const Slice& end) {
  return transaction->DeleteRange(family, begin, end);
}

}  // namespace

extern "C" {

void varve_transaction_put(varve_transaction_t* transaction, const char* key,
                           size_t klen, const char* val, size_t vlen,
                           char** errptr) {
  Add(transaction, errptr, Put, Bytes{key, klen, "key"},
      Bytes{val, vlen, "val"});
}

void varve_transaction_put_cf(varve_transaction_t* transaction,
                              varve_column_family_handle_t* column_family,
                              const char* key, size_t klen, const char* val,
                              size_t vlen, char** errptr) {
  AddTo(transaction, column_family, errptr, Put, Bytes{key, klen, "key"},
        Bytes{val, vlen, "val"});
}

void varve_transaction_merge(varve_transaction_t* transaction, const char* key,
                             size_t klen, const char* val, size_t vlen,
                             char** errptr) {
  Add(transaction, errptr, Merge, Bytes{key, klen, "key"},
      Bytes{val, vlen, "val"});
}

void varve_transaction_merge_cf(varve_transaction_t* transaction,
                                varve_column_family_handle_t* column_family,
                                const char* key, size_t klen, const char* val,
                                size_t vlen, char** errptr) {
  AddTo(transaction, column_family, errptr, Merge, Bytes{key, klen, "key"},
        Bytes{val, vlen, "val"});
}

void varve_transaction_delete(varve_transaction_t* transaction, const char* key,
                              size_t klen, char** errptr) {
  Add(transaction, errptr, Delete, Bytes{key, klen, "key"});
}

void varve_transaction_delete_cf(varve_transaction_t* transaction,
                                 varve_column_family_handle_t* column_family,
                                 const char* key, size_t klen, char** errptr) {
  AddTo(transaction, column_family, errptr, Delete, Bytes{key, klen, "key"});
}

void varve_transaction_singledelete(varve_transaction_t* transaction,
                                    const char* key, size_t klen,
                                    char** errptr) {
  Add(transaction, errptr, SingleDelete, Bytes{key, klen, "key"});
}

void varve_transaction_singledelete_cf(
    varve_transaction_t* transaction,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    char** errptr) {
  AddTo(transaction, column_family, errptr, SingleDelete,
        Bytes{key, klen, "key"});
}

void varve_transaction_delete_range(varve_transaction_t* transaction,
                                    const char* start_key, size_t start_key_len,
                                    const char* end_key, size_t end_key_len,
                                    char** errptr) {
  Add(transaction, errptr, DeleteRange,
      Bytes{start_key, start_key_len, "start_key"},
      Bytes{end_key, end_key_len, "end_key"});
}

void varve_transaction_delete_range_cf(
    varve_transaction_t* transaction,
    varve_column_family_handle_t* column_family, const char* start_key,
    size_t start_key_len, const char* end_key, size_t end_key_len,
    char** errptr) {
  AddTo(transaction, column_family, errptr, DeleteRange,
        Bytes{start_key, start_key_len, "start_key"},
        Bytes{end_key, end_key_len, "end_key"});
}

void varve_transaction_put_log_data(varve_transaction_t* transaction,
                                    const char* blob, size_t len) {
  if (!CanUse(nullptr, transaction, Bytes{blob, len, "blob"})) return;
  transaction->rep->PutLogData(varve::capi::ToSlice(blob, len));
}

void varve_transaction_rebuild_from_writebatch(varve_transaction_t* transaction,
                                               varve_writebatch_t* writebatch,
                                               char** errptr) {
  if (!CanUse(errptr, transaction, Given{writebatch, "writebatch"})) return;
  SaveError(errptr, transaction->rep->RebuildFromWriteBatch(&writebatch->rep));
}

}  // extern "C"
