// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Writes.

#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::ReadyFamily;

extern "C" {

void rocksdb_put(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                 const char* key, size_t keylen, const char* val, size_t vallen,
                 char** errptr) {
  const Bytes k{key, keylen, "key"};
  const Bytes v{val, vallen, "val"};
  if (!Ready(errptr, db, options, k, v)) return;
  Failed(errptr, db->db->Put(options->rep, k.slice(), v.slice()));
}

void rocksdb_put_cf(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                    rocksdb_column_family_handle_t* column_family,
                    const char* key, size_t keylen, const char* val,
                    size_t vallen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  const Bytes v{val, vallen, "val"};
  if (!ReadyFamily(errptr, db, options, column_family, k, v)) return;
  Failed(errptr, db->db->Put(options->rep, column_family->rep.get(), k.slice(),
                             v.slice()));
}

void rocksdb_delete(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                    const char* key, size_t keylen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  if (!Ready(errptr, db, options, k)) return;
  Failed(errptr, db->db->Delete(options->rep, k.slice()));
}

void rocksdb_delete_cf(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                       rocksdb_column_family_handle_t* column_family,
                       const char* key, size_t keylen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  if (!ReadyFamily(errptr, db, options, column_family, k)) return;
  Failed(errptr,
         db->db->Delete(options->rep, column_family->rep.get(), k.slice()));
}

void rocksdb_singledelete(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                          const char* key, size_t keylen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  if (!Ready(errptr, db, options, k)) return;
  Failed(errptr, db->db->SingleDelete(options->rep, k.slice()));
}

void rocksdb_singledelete_cf(rocksdb_t* db,
                             const rocksdb_writeoptions_t* options,
                             rocksdb_column_family_handle_t* column_family,
                             const char* key, size_t keylen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  if (!ReadyFamily(errptr, db, options, column_family, k)) return;
  Failed(errptr, db->db->SingleDelete(options->rep, column_family->rep.get(),
                                      k.slice()));
}

void rocksdb_merge(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                   const char* key, size_t keylen, const char* val,
                   size_t vallen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  const Bytes v{val, vallen, "val"};
  if (!Ready(errptr, db, options, k, v)) return;
  Failed(errptr, db->db->Merge(options->rep, k.slice(), v.slice()));
}

void rocksdb_merge_cf(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                      rocksdb_column_family_handle_t* column_family,
                      const char* key, size_t keylen, const char* val,
                      size_t vallen, char** errptr) {
  const Bytes k{key, keylen, "key"};
  const Bytes v{val, vallen, "val"};
  if (!ReadyFamily(errptr, db, options, column_family, k, v)) return;
  Failed(errptr, db->db->Merge(options->rep, column_family->rep.get(),
                               k.slice(), v.slice()));
}

void rocksdb_delete_range_cf(rocksdb_t* db,
                             const rocksdb_writeoptions_t* options,
                             rocksdb_column_family_handle_t* column_family,
                             const char* start_key, size_t start_key_len,
                             const char* end_key, size_t end_key_len,
                             char** errptr) {
  const Bytes start{start_key, start_key_len, "start_key"};
  const Bytes end{end_key, end_key_len, "end_key"};
  if (!ReadyFamily(errptr, db, options, column_family, start, end)) return;
  Failed(errptr, db->db->DeleteRange(options->rep, column_family->rep.get(),
                                     start.slice(), end.slice()));
}

void rocksdb_write(rocksdb_t* db, const rocksdb_writeoptions_t* options,
                   rocksdb_writebatch_t* batch, char** errptr) {
  if (!Ready(errptr, db, options, Given{batch, "batch"})) return;
  Failed(errptr, db->db->Write(options->rep, &batch->rep));
}

}  // extern "C"
