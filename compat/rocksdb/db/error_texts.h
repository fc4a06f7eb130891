// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The texts of errors that programs compare with RocksDB's.

#include <string>

#include "varve/status.h"

namespace varve::rocksdb_c {

// Returns an error of DB::Open, DB::OpenForReadOnly, DB::ListColumnFamilies,
// DestroyDB or RepairDB for the directory `path` as RocksDB has it: a lock that
// is held is an IOError.
Status OpenError(const Status& status, const std::string& path);

// Returns an error of DB::CreateColumnFamily, DB::DropColumnFamily or their
// plural forms as RocksDB has it.
Status FamilyError(const Status& status);

}  // namespace varve::rocksdb_c
