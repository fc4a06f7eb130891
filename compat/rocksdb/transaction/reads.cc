// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of one key in transactions.

#include <utility>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/get.h"
#include "compat/rocksdb/transaction/handles.h"

namespace varve::rocksdb_c {
namespace {

// A key to read.
struct Key {
  const rocksdb_readoptions_t* options;
  const rocksdb_column_family_handle_t* family;
  Bytes bytes;
  bool has_family;  // Otherwise it is of the default one.

  ColumnFamilyHandle* rep() const {
    return has_family ? family->rep.get() : nullptr;
  }
};

// How a transaction reads it.
enum class Purpose : uint8_t { kRead, kSharedUpdate, kExclusiveUpdate };

Purpose ForUpdate(unsigned char exclusive) {
  return exclusive != 0 ? Purpose::kExclusiveUpdate : Purpose::kSharedUpdate;
}

bool CanRead(char** errptr, const rocksdb_transaction_t* txn, const Key& key) {
  if (!Usable(errptr, Given{txn, "txn"}, Given{key.options, "options"})) {
    return false;
  }
  if (key.has_family && !Usable(errptr, FamilyOfTransaction{key.family, txn})) {
    return false;
  }
  return Usable(errptr, key.bytes) && Supported(errptr, *key.options);
}

Status Read(rocksdb_transaction_t* txn, const Key& key, Purpose purpose,
            PinnableSlice* value) {
  const Slice bytes = key.bytes.slice();
  const ReadOptions& options = key.options->rep;
  if (purpose == Purpose::kRead) {
    return txn->rep->Get(options, key.rep(), bytes, value);
  }
  Status status = txn->rep->GetForUpdate(options, key.rep(), bytes, value,
                                         purpose == Purpose::kExclusiveUpdate);
  return status.IsBusy() ? ErrorAsRocksDb(status) : status;
}

char* Copy(rocksdb_transaction_t* txn, const Key& key, Purpose purpose,
           size_t* vlen, char** errptr) {
  if (vlen != nullptr) *vlen = 0;
  if (!CanRead(errptr, txn, key) || !Usable(errptr, Given{vlen, "vlen"})) {
    return nullptr;
  }
  return ReadCopy(
      [&](PinnableSlice* value) { return Read(txn, key, purpose, value); },
      vlen, errptr);
}

rocksdb_pinnableslice_t* Pinned(rocksdb_transaction_t* txn, const Key& key,
                                Purpose purpose, char** errptr) {
  if (!CanRead(errptr, txn, key)) return nullptr;
  return ReadPinned(
      [&](PinnableSlice* value) { return Read(txn, key, purpose, value); },
      errptr);
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Copy;
using varve::rocksdb_c::ForUpdate;
using varve::rocksdb_c::Pinned;
using varve::rocksdb_c::Purpose;

extern "C" {

char* rocksdb_transaction_get(rocksdb_transaction_t* txn,
                              const rocksdb_readoptions_t* options,
                              const char* key, size_t klen, size_t* vlen,
                              char** errptr) {
  return Copy(txn, {options, nullptr, {key, klen, "key"}, false},
              Purpose::kRead, vlen, errptr);
}

char* rocksdb_transaction_get_cf(rocksdb_transaction_t* txn,
                                 const rocksdb_readoptions_t* options,
                                 rocksdb_column_family_handle_t* column_family,
                                 const char* key, size_t klen, size_t* vlen,
                                 char** errptr) {
  return Copy(txn, {options, column_family, {key, klen, "key"}, true},
              Purpose::kRead, vlen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_transaction_get_pinned(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    const char* key, size_t klen, char** errptr) {
  return Pinned(txn, {options, nullptr, {key, klen, "key"}, false},
                Purpose::kRead, errptr);
}

rocksdb_pinnableslice_t* rocksdb_transaction_get_pinned_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key, size_t klen,
    char** errptr) {
  return Pinned(txn, {options, column_family, {key, klen, "key"}, true},
                Purpose::kRead, errptr);
}

char* rocksdb_transaction_get_for_update(rocksdb_transaction_t* txn,
                                         const rocksdb_readoptions_t* options,
                                         const char* key, size_t klen,
                                         size_t* vlen, unsigned char exclusive,
                                         char** errptr) {
  return Copy(txn, {options, nullptr, {key, klen, "key"}, false},
              ForUpdate(exclusive), vlen, errptr);
}

char* rocksdb_transaction_get_for_update_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key, size_t klen,
    size_t* vlen, unsigned char exclusive, char** errptr) {
  return Copy(txn, {options, column_family, {key, klen, "key"}, true},
              ForUpdate(exclusive), vlen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_transaction_get_pinned_for_update(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    const char* key, size_t klen, unsigned char exclusive, char** errptr) {
  return Pinned(txn, {options, nullptr, {key, klen, "key"}, false},
                ForUpdate(exclusive), errptr);
}

rocksdb_pinnableslice_t* rocksdb_transaction_get_pinned_for_update_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key, size_t klen,
    unsigned char exclusive, char** errptr) {
  return Pinned(txn, {options, column_family, {key, klen, "key"}, true},
                ForUpdate(exclusive), errptr);
}

}  // extern "C"
