// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Column families as arguments and results.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"
#include "compat/rocksdb/options/translate.h"

namespace varve::rocksdb_c {

// An array with `count` entries, none of which is null.
template <typename T>
struct ArrayOf {
  const T* entries;
  ptrdiff_t count;
  const char* name;

  bool ok() const {
    if (count <= 0) return count == 0;
    if (entries == nullptr) return false;
    for (ptrdiff_t i = 0; i < count; ++i) {
      if (entries[i] == nullptr) return false;
    }
    return true;
  }
  const char* Problem() const {
    return count < 0 ? "has a negative length" : "is NULL or contains a NULL";
  }
};

// Converts options of a database in `path`, or of its families, to the
// engine's.
template <typename Options>
Status Convert(const rocksdb_options_t& options, const std::string& path,
               Options* result) {
  const Status status = CheckPaths(options, path);
  return status.ok() ? ToVarve(options, result) : status;
}

// Converts the options of families of the database in `path`. Stores one
// descriptor for each name.
Status Describe(const char* const* names,
                const rocksdb_options_t* const* options, int count,
                const std::string& path,
                std::vector<ColumnFamilyDescriptor>* families);

// Returns a new handle, which takes over `rep`.
rocksdb_column_family_handle_t* NewFamily(rocksdb_t* db,
                                          ColumnFamilyHandle* rep);

// Returns all families of the database. The first one is null, the default
// family.
std::vector<std::shared_ptr<ColumnFamilyHandle>> AllFamilies(rocksdb_t* db);

// Flushes all families of the database.
Status FlushAll(const FlushOptions& options, rocksdb_t* db);

}  // namespace varve::rocksdb_c
