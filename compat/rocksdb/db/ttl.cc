// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Databases whose entries expire.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/open.h"
#include "varve/db_ttl.h"

namespace varve::rocksdb_c {
namespace {

OpenManner Manner(const std::vector<int32_t>& ttls) {
  return {.open = [ttls](const DBOptions& options, const std::string& path,
                         const std::vector<ColumnFamilyDescriptor>& families,
                         std::vector<ColumnFamilyHandle*>* handles,
                         std::unique_ptr<DB>* db, rocksdb_t* handle) {
    std::unique_ptr<DBWithTTL> opened;
    Status status =
        DBWithTTL::Open(options, path, families, handles, &opened, ttls);
    if (!status.ok()) return status;
    handle->with_ttl = opened.get();
    *db = std::move(opened);
    return status;
  }};
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Given;
using varve::rocksdb_c::Manner;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_t* rocksdb_open_with_ttl(const rocksdb_options_t* options,
                                 const char* name, int ttl, char** errptr) {
  return varve::rocksdb_c::OpenDefault(options, name, Manner({ttl}), errptr);
}

rocksdb_t* rocksdb_open_column_families_with_ttl(
    const rocksdb_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, const int* ttls,
    char** errptr) {
  if (!Usable(errptr, Given{ttls, "ttls"})) return nullptr;
  return varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families},
      Manner({ttls, ttls + std::max(num_column_families, 0)}),
      column_family_handles, errptr);
}

}  // extern "C"
