// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Databases whose transactions find conflicts when they commit. A write of the
// base database is checked like any other write, so its handle is the same.

#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/open.h"
#include "compat/rocksdb/transaction/handles.h"
#include "compat/rocksdb/transaction/open.h"

// Only RocksDB's checks of commits take locks of ranges of keys' hashes, and
// databases can share these.
struct rocksdb_optimistictransactiondb_lock_buckets_t {};

namespace varve::rocksdb_c {
namespace {

OpenManner Manner() {
  return {.open = [](const DBOptions& options, const std::string& path,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DB>* db, rocksdb_t* handle) {
    std::unique_ptr<OptimisticTransactionDB> opened;
    Status status = OptimisticTransactionDB::Open(options, path, families,
                                                  handles, &opened);
    if (!status.ok()) return status;
    handle->transactions = std::make_shared<TransactionSupport>();
    handle->transactions->optimistic = opened.get();
    *db = std::move(opened);
    return status;
  }};
}

rocksdb_optimistictransactiondb_t* Finish(rocksdb_t* db) {
  if (db != nullptr) LinkTransactions(db);
  return reinterpret_cast<rocksdb_optimistictransactiondb_t*>(db);
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Finish;
using varve::rocksdb_c::Manner;
using varve::rocksdb_c::ToDb;

extern "C" {

rocksdb_optimistictransactiondb_t* rocksdb_optimistictransactiondb_open(
    const rocksdb_options_t* options, const char* name, char** errptr) {
  return Finish(varve::rocksdb_c::OpenDefault(options, name, Manner(), errptr));
}

// The options of these databases change only the speed of RocksDB's checks.
rocksdb_optimistictransactiondb_t*
rocksdb_optimistictransactiondb_open_with_otxn_db_options(
    const rocksdb_options_t* options,
    const rocksdb_optimistictransactiondb_options_t* /*otxn_db_options*/,
    const char* name, char** errptr) {
  return rocksdb_optimistictransactiondb_open(options, name, errptr);
}

rocksdb_optimistictransactiondb_t*
rocksdb_optimistictransactiondb_open_column_families(
    const rocksdb_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, char** errptr) {
  return Finish(varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families},
      Manner(), column_family_handles, errptr));
}

rocksdb_optimistictransactiondb_t*
rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
    const rocksdb_options_t* options,
    const rocksdb_optimistictransactiondb_options_t* /*otxn_db_options*/,
    const char* name, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, char** errptr) {
  return rocksdb_optimistictransactiondb_open_column_families(
      options, name, num_column_families, column_family_names,
      column_family_options, column_family_handles, errptr);
}

void rocksdb_optimistictransactiondb_close(
    rocksdb_optimistictransactiondb_t* otxn_db) {
  rocksdb_close(ToDb(otxn_db));
}

rocksdb_t* rocksdb_optimistictransactiondb_get_base_db(
    rocksdb_optimistictransactiondb_t* otxn_db) {
  rocksdb_t* const db = ToDb(otxn_db);
  return varve::rocksdb_c::Open{db}.ok() ? db : nullptr;
}

void rocksdb_optimistictransactiondb_close_base_db(rocksdb_t* /*base_db*/) {}

void rocksdb_optimistictransactiondb_write(
    rocksdb_optimistictransactiondb_t* otxn_db,
    const rocksdb_writeoptions_t* options, rocksdb_writebatch_t* batch,
    char** errptr) {
  rocksdb_write(ToDb(otxn_db), options, batch, errptr);
}

rocksdb_checkpoint_t* rocksdb_optimistictransactiondb_checkpoint_object_create(
    rocksdb_optimistictransactiondb_t* otxn_db, char** errptr) {
  return rocksdb_checkpoint_object_create(ToDb(otxn_db), errptr);
}

char* rocksdb_optimistictransactiondb_property_value(
    rocksdb_optimistictransactiondb_t* db, const char* propname) {
  return rocksdb_property_value(ToDb(db), propname);
}

int rocksdb_optimistictransactiondb_property_int(
    rocksdb_optimistictransactiondb_t* db, const char* propname,
    uint64_t* out_val) {
  return rocksdb_property_int(ToDb(db), propname, out_val);
}

// ---- Shared locks ----

rocksdb_optimistictransactiondb_lock_buckets_t*
rocksdb_optimistictransactiondb_lock_buckets_create(
    size_t /*bucket_count*/, unsigned char /*cache_aligned*/) {
  return new rocksdb_optimistictransactiondb_lock_buckets_t;
}

size_t rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
    rocksdb_optimistictransactiondb_lock_buckets_t* lock_buckets) {
  return lock_buckets == nullptr ? 0 : sizeof(*lock_buckets);
}

void rocksdb_optimistictransactiondb_lock_buckets_destroy(
    rocksdb_optimistictransactiondb_lock_buckets_t* lock_buckets) {
  delete lock_buckets;
}

void rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
    rocksdb_optimistictransactiondb_options_t* /*opt*/,
    rocksdb_optimistictransactiondb_lock_buckets_t* /*lock_buckets*/) {}

}  // extern "C"
