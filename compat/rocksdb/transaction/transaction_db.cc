// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Databases whose transactions lock keys.

#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/open.h"
#include "compat/rocksdb/transaction/handles.h"
#include "compat/rocksdb/transaction/open.h"
#include "compat/rocksdb/transaction/options.h"

namespace varve::rocksdb_c {
namespace {

OpenManner Manner(const rocksdb_transactiondb_options_t& options) {
  return {
      .open = [&options](const DBOptions& db_options, const std::string& path,
                         const std::vector<ColumnFamilyDescriptor>& families,
                         std::vector<ColumnFamilyHandle*>* handles,
                         std::unique_ptr<DB>* db, rocksdb_t* handle) {
        std::unique_ptr<TransactionDB> opened;
        Status status = TransactionDB::Open(db_options, ToVarve(options), path,
                                            families, handles, &opened);
        if (!status.ok()) return status;
        handle->transactions = std::make_shared<TransactionSupport>();
        handle->transactions->pessimistic = opened.get();
        handle->base = std::make_unique<rocksdb_t>();
        handle->base->db = opened->GetBaseDB();
        *db = std::move(opened);
        return status;
      }};
}

rocksdb_transactiondb_t* Finish(rocksdb_t* db) {
  if (db == nullptr) return nullptr;
  LinkTransactions(db);
  rocksdb_t* const base = db->base.get();
  base->main = db;
  base->owned = std::shared_ptr<DB>(db->owned, base->db);
  base->log = db->log;
  base->path = db->path;
  base->env = db->env;
  base->prefix_seek_opt_in_only = db->prefix_seek_opt_in_only;
  return reinterpret_cast<rocksdb_transactiondb_t*>(db);
}

}  // namespace

void LinkTransactions(rocksdb_t* db) {
  TransactionSupport& support = *db->transactions;
  support.db = db->owned;
  support.handle = db;
}

}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Finish;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Manner;
using varve::rocksdb_c::ToDb;
using varve::rocksdb_c::Usable;

extern "C" {

// ---- Open and close ----

rocksdb_transactiondb_t* rocksdb_transactiondb_open(
    const rocksdb_options_t* options,
    const rocksdb_transactiondb_options_t* txn_db_options, const char* name,
    char** errptr) {
  if (!Usable(errptr, Given{txn_db_options, "txn_db_options"})) return nullptr;
  return Finish(varve::rocksdb_c::OpenDefault(options, name,
                                              Manner(*txn_db_options), errptr));
}

rocksdb_transactiondb_t* rocksdb_transactiondb_open_column_families(
    const rocksdb_options_t* options,
    const rocksdb_transactiondb_options_t* txn_db_options, const char* name,
    int num_column_families, const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, char** errptr) {
  if (!Usable(errptr, Given{txn_db_options, "txn_db_options"})) return nullptr;
  return Finish(varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families},
      Manner(*txn_db_options), column_family_handles, errptr));
}

void rocksdb_transactiondb_close(rocksdb_transactiondb_t* txn_db) {
  rocksdb_close(ToDb(txn_db));
}

// The handle lasts as long as the other one.
rocksdb_t* rocksdb_transactiondb_get_base_db(rocksdb_transactiondb_t* txn_db) {
  const rocksdb_t* const db = ToDb(txn_db);
  return varve::rocksdb_c::Open{db}.ok() ? db->base.get() : nullptr;
}

void rocksdb_transactiondb_close_base_db(rocksdb_t* /*base_db*/) {}

// ---- The functions of databases ----

rocksdb_column_family_handle_t* rocksdb_transactiondb_create_column_family(
    rocksdb_transactiondb_t* txn_db,
    const rocksdb_options_t* column_family_options,
    const char* column_family_name, char** errptr) {
  return rocksdb_create_column_family(ToDb(txn_db), column_family_options,
                                      column_family_name, errptr);
}

const rocksdb_snapshot_t* rocksdb_transactiondb_create_snapshot(
    rocksdb_transactiondb_t* txn_db) {
  return rocksdb_create_snapshot(ToDb(txn_db));
}

void rocksdb_transactiondb_release_snapshot(
    rocksdb_transactiondb_t* txn_db, const rocksdb_snapshot_t* snapshot) {
  rocksdb_release_snapshot(ToDb(txn_db), snapshot);
}

char* rocksdb_transactiondb_property_value(rocksdb_transactiondb_t* db,
                                           const char* propname) {
  return rocksdb_property_value(ToDb(db), propname);
}

int rocksdb_transactiondb_property_int(rocksdb_transactiondb_t* db,
                                       const char* propname,
                                       uint64_t* out_val) {
  return rocksdb_property_int(ToDb(db), propname, out_val);
}

void rocksdb_transactiondb_flush_wal(rocksdb_transactiondb_t* txn_db,
                                     unsigned char sync, char** errptr) {
  rocksdb_flush_wal(ToDb(txn_db), sync, errptr);
}

void rocksdb_transactiondb_flush_wal_with_options(
    rocksdb_transactiondb_t* txn_db, const rocksdb_flushwaloptions_t* options,
    char** errptr) {
  rocksdb_flush_wal_with_options(ToDb(txn_db), options, errptr);
}

void rocksdb_transactiondb_flush(rocksdb_transactiondb_t* txn_db,
                                 const rocksdb_flushoptions_t* options,
                                 char** errptr) {
  rocksdb_flush(ToDb(txn_db), options, errptr);
}

void rocksdb_transactiondb_flush_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_flushoptions_t* options,
    rocksdb_column_family_handle_t* column_family, char** errptr) {
  rocksdb_flush_cf(ToDb(txn_db), options, column_family, errptr);
}

void rocksdb_transactiondb_flush_cfs(
    rocksdb_transactiondb_t* txn_db, const rocksdb_flushoptions_t* options,
    rocksdb_column_family_handle_t** column_families, int num_column_families,
    char** errptr) {
  rocksdb_flush_cfs(ToDb(txn_db), options, column_families, num_column_families,
                    errptr);
}

rocksdb_checkpoint_t* rocksdb_transactiondb_checkpoint_object_create(
    rocksdb_transactiondb_t* txn_db, char** errptr) {
  return rocksdb_checkpoint_object_create(ToDb(txn_db), errptr);
}

// ---- Reads ----

char* rocksdb_transactiondb_get(rocksdb_transactiondb_t* txn_db,
                                const rocksdb_readoptions_t* options,
                                const char* key, size_t klen, size_t* vlen,
                                char** errptr) {
  return rocksdb_get(ToDb(txn_db), options, key, klen, vlen, errptr);
}

char* rocksdb_transactiondb_get_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, size_t* vallen, char** errptr) {
  return rocksdb_get_cf(ToDb(txn_db), options, column_family, key, keylen,
                        vallen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_transactiondb_get_pinned(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options,
    const char* key, size_t klen, char** errptr) {
  return rocksdb_get_pinned(ToDb(txn_db), options, key, klen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_transactiondb_get_pinned_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char** errptr) {
  return rocksdb_get_pinned_cf(ToDb(txn_db), options, column_family, key,
                               keylen, errptr);
}

void rocksdb_transactiondb_multi_get(rocksdb_transactiondb_t* txn_db,
                                     const rocksdb_readoptions_t* options,
                                     size_t num_keys,
                                     const char* const* keys_list,
                                     const size_t* keys_list_sizes,
                                     char** values_list,
                                     size_t* values_list_sizes, char** errs) {
  rocksdb_multi_get(ToDb(txn_db), options, num_keys, keys_list, keys_list_sizes,
                    values_list, values_list_sizes, errs);
}

void rocksdb_transactiondb_multi_get_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options,
    const rocksdb_column_family_handle_t* const* column_families,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  rocksdb_multi_get_cf(ToDb(txn_db), options, column_families, num_keys,
                       keys_list, keys_list_sizes, values_list,
                       values_list_sizes, errs);
}

rocksdb_iterator_t* rocksdb_transactiondb_create_iterator(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options) {
  return rocksdb_create_iterator(ToDb(txn_db), options);
}

rocksdb_iterator_t* rocksdb_transactiondb_create_iterator_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family) {
  return rocksdb_create_iterator_cf(ToDb(txn_db), options, column_family);
}

// ---- Writes ----

void rocksdb_transactiondb_put(rocksdb_transactiondb_t* txn_db,
                               const rocksdb_writeoptions_t* options,
                               const char* key, size_t klen, const char* val,
                               size_t vlen, char** errptr) {
  rocksdb_put(ToDb(txn_db), options, key, klen, val, vlen, errptr);
}

void rocksdb_transactiondb_put_cf(rocksdb_transactiondb_t* txn_db,
                                  const rocksdb_writeoptions_t* options,
                                  rocksdb_column_family_handle_t* column_family,
                                  const char* key, size_t keylen,
                                  const char* val, size_t vallen,
                                  char** errptr) {
  rocksdb_put_cf(ToDb(txn_db), options, column_family, key, keylen, val, vallen,
                 errptr);
}

void rocksdb_transactiondb_merge(rocksdb_transactiondb_t* txn_db,
                                 const rocksdb_writeoptions_t* options,
                                 const char* key, size_t klen, const char* val,
                                 size_t vlen, char** errptr) {
  rocksdb_merge(ToDb(txn_db), options, key, klen, val, vlen, errptr);
}

void rocksdb_transactiondb_merge_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_writeoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key, size_t klen,
    const char* val, size_t vlen, char** errptr) {
  rocksdb_merge_cf(ToDb(txn_db), options, column_family, key, klen, val, vlen,
                   errptr);
}

void rocksdb_transactiondb_delete(rocksdb_transactiondb_t* txn_db,
                                  const rocksdb_writeoptions_t* options,
                                  const char* key, size_t klen, char** errptr) {
  rocksdb_delete(ToDb(txn_db), options, key, klen, errptr);
}

void rocksdb_transactiondb_delete_cf(
    rocksdb_transactiondb_t* txn_db, const rocksdb_writeoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char** errptr) {
  rocksdb_delete_cf(ToDb(txn_db), options, column_family, key, keylen, errptr);
}

void rocksdb_transactiondb_write(rocksdb_transactiondb_t* db,
                                 const rocksdb_writeoptions_t* options,
                                 rocksdb_writebatch_t* batch, char** errptr) {
  rocksdb_write(ToDb(db), options, batch, errptr);
}

}  // extern "C"
