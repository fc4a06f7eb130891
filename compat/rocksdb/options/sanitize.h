// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

// Returns the options with the values that RocksDB uses for them. It replaces
// values out of bounds, and those that stand for a default, without an error.
rocksdb_options_t Sanitize(const rocksdb_options_t& options);

}  // namespace varve::rocksdb_c
