// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Indexed batches without their updates and iterators.

#include <rocksdb/c.h>

#include <string>
#include <utility>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/callbacks/comparator.h"
#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/get.h"
#include "compat/rocksdb/db/handles.h"

using varve::ColumnFamilyHandle;
using varve::PinnableSlice;
using varve::Status;
using varve::WriteBatchWithIndex;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::ReadCopy;
using varve::rocksdb_c::ReadPinned;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::Usable;

namespace {

rocksdb_writebatch_wi_t* NewBatch(const varve::Comparator* comparator,
                                  size_t reserved_bytes, bool overwrite_key,
                                  size_t max_bytes) {
  auto owned = std::make_shared<WriteBatchWithIndex>(comparator, reserved_bytes,
                                                     overwrite_key, max_bytes);
  WriteBatchWithIndex* const rep = owned.get();
  return NewIndexedBatch(rep, std::move(owned));
}

// Reads a key of the batch. `family` is null for the default one.
char* GetFromBatch(rocksdb_writebatch_wi_t* batch,
                   const rocksdb_options_t* options, ColumnFamilyHandle* family,
                   const Bytes& key, size_t* vallen, char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  if (!Usable(errptr, Given{batch, "wbwi"}, Given{options, "options"}, key,
              Given{vallen, "vallen"})) {
    return nullptr;
  }
  return ReadCopy(
      [&](PinnableSlice* value) {
        std::string found;
        Status status = batch->rep->GetFromBatch(family, varve::DBOptions(),
                                                 key.slice(), &found);
        value->PinSelf(found);
        return status;
      },
      vallen, errptr);
}

}  // namespace

extern "C" {

// ---- Creation and contents ----

rocksdb_writebatch_wi_t* rocksdb_writebatch_wi_create(
    size_t reserved_bytes, unsigned char overwrite_keys) {
  return NewBatch(varve::BytewiseComparator(), reserved_bytes,
                  overwrite_keys != 0, 0);
}

// No call verifies the checksums of an indexed batch's updates.
rocksdb_writebatch_wi_t* rocksdb_writebatch_wi_create_with_params(
    rocksdb_comparator_t* backup_index_comparator, size_t reserved_bytes,
    unsigned char overwrite_key, size_t max_bytes,
    size_t /*protection_bytes_per_key*/) {
  if (backup_index_comparator == nullptr) return nullptr;
  return NewBatch(backup_index_comparator, reserved_bytes, overwrite_key != 0,
                  max_bytes);
}

void rocksdb_writebatch_wi_destroy(rocksdb_writebatch_wi_t* b) {
  if (b == nullptr) return;
  b->~rocksdb_writebatch_wi_t();
  free(b);
}

void rocksdb_writebatch_wi_clear(rocksdb_writebatch_wi_t* b) {
  if (b != nullptr) b->rep->Clear();
}

int rocksdb_writebatch_wi_count(rocksdb_writebatch_wi_t* b) {
  return b == nullptr ? 0 : static_cast<int>(b->rep->GetWriteBatch()->Count());
}

const char* rocksdb_writebatch_wi_data(rocksdb_writebatch_wi_t* b,
                                       size_t* size) {
  if (size != nullptr) *size = 0;
  if (b == nullptr || size == nullptr) return nullptr;
  const std::string& data = b->rep->GetWriteBatch()->Data();
  *size = data.size();
  return data.c_str();
}

void rocksdb_writebatch_wi_set_save_point(rocksdb_writebatch_wi_t* b) {
  if (b != nullptr) b->rep->SetSavePoint();
}

void rocksdb_writebatch_wi_rollback_to_save_point(rocksdb_writebatch_wi_t* b,
                                                  char** errptr) {
  if (!Usable(errptr, Given{b, "b"})) return;
  Failed(errptr, b->rep->RollbackToSavePoint());
}

void rocksdb_write_writebatch_wi(rocksdb_t* db,
                                 const rocksdb_writeoptions_t* options,
                                 rocksdb_writebatch_wi_t* wbwi, char** errptr) {
  if (!Ready(errptr, db, options, Given{wbwi, "wbwi"})) return;
  Failed(errptr, db->db->Write(options->rep, wbwi->rep->GetWriteBatch()));
}

// ---- Reads of the batch ----

char* rocksdb_writebatch_wi_get_from_batch(rocksdb_writebatch_wi_t* wbwi,
                                           const rocksdb_options_t* options,
                                           const char* key, size_t keylen,
                                           size_t* vallen, char** errptr) {
  return GetFromBatch(wbwi, options, nullptr, {key, keylen, "key"}, vallen,
                      errptr);
}

char* rocksdb_writebatch_wi_get_from_batch_cf(
    rocksdb_writebatch_wi_t* wbwi, const rocksdb_options_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, size_t* vallen, char** errptr) {
  if (!Usable(errptr, Given{column_family, "column_family"})) {
    if (vallen != nullptr) *vallen = 0;
    return nullptr;
  }
  return GetFromBatch(wbwi, options, column_family->rep.get(),
                      {key, keylen, "key"}, vallen, errptr);
}

// ---- Reads of the batch and a database ----

char* rocksdb_writebatch_wi_get_from_batch_and_db(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_t* db,
    const rocksdb_readoptions_t* options, const char* key, size_t keylen,
    size_t* vallen, char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, Given{wbwi, "wbwi"}, bytes,
             Given{vallen, "vallen"})) {
    return nullptr;
  }
  return ReadCopy(
      [&](PinnableSlice* value) {
        return wbwi->rep->GetFromBatchAndDB(db->db, options->rep, bytes.slice(),
                                            value);
      },
      vallen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_t* db,
    const rocksdb_readoptions_t* options, const char* key, size_t keylen,
    char** errptr) {
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, Given{wbwi, "wbwi"}, bytes)) return nullptr;
  return ReadPinned(
      [&](PinnableSlice* value) {
        return wbwi->rep->GetFromBatchAndDB(db->db, options->rep, bytes.slice(),
                                            value);
      },
      errptr);
}

char* rocksdb_writebatch_wi_get_from_batch_and_db_cf(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_t* db,
    const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, size_t* vallen, char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, FamilyOf{column_family, db},
             Given{wbwi, "wbwi"}, bytes, Given{vallen, "vallen"})) {
    return nullptr;
  }
  return ReadCopy(
      [&](PinnableSlice* value) {
        return wbwi->rep->GetFromBatchAndDB(db->db, options->rep,
                                            column_family->rep.get(),
                                            bytes.slice(), value);
      },
      vallen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_t* db,
    const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char** errptr) {
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, FamilyOf{column_family, db},
             Given{wbwi, "wbwi"}, bytes)) {
    return nullptr;
  }
  return ReadPinned(
      [&](PinnableSlice* value) {
        return wbwi->rep->GetFromBatchAndDB(db->db, options->rep,
                                            column_family->rep.get(),
                                            bytes.slice(), value);
      },
      errptr);
}

}  // extern "C"
