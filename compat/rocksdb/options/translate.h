// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// From RocksDB's options to the engine's.
//
// A value that RocksDB changes silently at Open, such as a
// max_write_buffer_number of 1, is changed here in the same way. An option that
// needs a missing feature returns NotSupported, which names the feature.

#include <string>

#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

// Set the engine's options from the part of the database, the part of a column
// family, and both. `info_log` is not set; see log.h. The result shares the
// objects, but the Env and what belongs to the program must outlive the
// database: keep a copy of options.env.
Status ToVarve(const rocksdb_options_t& options, DBOptions* result);
Status ToVarve(const rocksdb_options_t& options, ColumnFamilyOptions* result);
Status ToVarve(const rocksdb_options_t& options, Options* result);

// Returns NotSupported if the options name another directory than `path`, in
// which all files of a database are.
Status CheckPaths(const rocksdb_options_t& options, const std::string& path);

// Returns the Env of the options.
Env* EnvOf(const rocksdb_options_t& options);

}  // namespace varve::rocksdb_c
