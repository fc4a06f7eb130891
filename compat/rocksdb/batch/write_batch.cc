// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Write batches without their updates; those are in updates.cc.
#include "compat/rocksdb/batch/write_batch.h"

#include <rocksdb/c.h>

#include <string>

#include "compat/rocksdb/base.h"

using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_writebatch_t* rocksdb_writebatch_create(void) {
  return new rocksdb_writebatch_t;
}

rocksdb_writebatch_t* rocksdb_writebatch_create_from(const char* rep,
                                                     size_t size) {
  const Bytes bytes{rep, size, "rep"};
  if (!Usable(nullptr, bytes)) return nullptr;
  return new rocksdb_writebatch_t{varve::WriteBatch(bytes.slice().ToString())};
}

// `reserved_bytes` changes the speed only.
rocksdb_writebatch_t* rocksdb_writebatch_create_with_params(
    size_t /*reserved_bytes*/, size_t max_bytes,
    size_t protection_bytes_per_key, size_t default_cf_ts_sz) {
  if (default_cf_ts_sz != 0) {
    varve::rocksdb_c::NoteMissing("rocksdb_writebatch_create_with_params",
                                  "user timestamps");
    return nullptr;
  }
  auto* const batch = new rocksdb_writebatch_t;
  batch->max_bytes = max_bytes;
  batch->wants_protection = protection_bytes_per_key != 0;
  return batch;
}

void rocksdb_writebatch_destroy(rocksdb_writebatch_t* batch) { delete batch; }

void rocksdb_writebatch_clear(rocksdb_writebatch_t* batch) {
  if (batch != nullptr) batch->rep.Clear();
}

int rocksdb_writebatch_count(rocksdb_writebatch_t* batch) {
  return batch == nullptr ? 0 : static_cast<int>(batch->rep.Count());
}

const char* rocksdb_writebatch_data(rocksdb_writebatch_t* batch, size_t* size) {
  if (size != nullptr) *size = batch == nullptr ? 0 : batch->rep.Data().size();
  return batch == nullptr ? nullptr : batch->rep.Data().c_str();
}

void rocksdb_writebatch_set_save_point(rocksdb_writebatch_t* batch) {
  if (batch != nullptr) batch->rep.SetSavePoint();
}

void rocksdb_writebatch_rollback_to_save_point(rocksdb_writebatch_t* batch,
                                               char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  static_cast<void>(Failed(errptr, batch->rep.RollbackToSavePoint()));
}

void rocksdb_writebatch_pop_save_point(rocksdb_writebatch_t* batch,
                                       char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  static_cast<void>(Failed(errptr, batch->rep.PopSavePoint()));
}

// Without protection there is nothing to verify, as with RocksDB.
void rocksdb_writebatch_verify_checksum(rocksdb_writebatch_t* batch,
                                        char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"}) || !batch->wants_protection) {
    return;
  }
  static_cast<void>(Failed(
      errptr, varve::rocksdb_c::Missing("checksums of a batch's updates")));
}

}  // extern "C"
