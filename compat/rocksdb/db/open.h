// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Opening databases.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"
#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/options.h"

namespace varve::rocksdb_c {

enum class Mode : uint8_t {
  kReadWrite,
  kReadOnly,
  kReadOnlyWithoutLog,
  kSecondary,
};

// Opens a database for writing, as DB::Open does, and completes its handle.
using OpenEngine =
    std::function<Status(const DBOptions& options, const std::string& path,
                         const std::vector<ColumnFamilyDescriptor>& families,
                         std::vector<ColumnFamilyHandle*>* handles,
                         std::unique_ptr<DB>* db, rocksdb_t* handle)>;

struct OpenManner {
  Mode mode = Mode::kReadWrite;
  const char* log_path = "";  // Of kSecondary.
  OpenEngine open = nullptr;  // For kReadWrite. Null: DB::Open.
};

// The families to open.
struct Families {
  const char* const* names;
  const rocksdb_options_t* const* options;
  int count;
};

// Opens a database with its default family only. Returns null after an error.
rocksdb_t* OpenDefault(const rocksdb_options_t* options, const char* name,
                       const OpenManner& manner, char** errptr);
// The same, with families. Stores a handle for each one in `handles`.
rocksdb_t* OpenFamilies(const rocksdb_options_t* options, const char* name,
                        const Families& families, const OpenManner& manner,
                        rocksdb_column_family_handle_t** handles,
                        char** errptr);

}  // namespace varve::rocksdb_c
