// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>

#include "compat/rocksdb/callbacks/event_listener.h"

namespace varve::rocksdb_c {

// Returns the path of a table file of the database in the directory `db_path`.
std::string TablePath(const std::string& db_path, uint64_t number);

}  // namespace varve::rocksdb_c
