// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <rocksdb/db.h>

#include <memory>

namespace varve {

// Calls RocksDB's DB::Open, which hands out a unique_ptr, or before RocksDB 11
// a plain one. `arguments`: those before.
template <typename... Arguments>
rocksdb::Status OpenRocks(std::unique_ptr<rocksdb::DB>* db,
                          const Arguments&... arguments) {
  if constexpr (requires { rocksdb::DB::Open(arguments..., db); }) {
    return rocksdb::DB::Open(arguments..., db);
  } else {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(arguments..., &opened);
    db->reset(opened);
    return status;
  }
}

// The same with DB::OpenForReadOnly.
template <typename... Arguments>
rocksdb::Status OpenRocksForReadOnly(std::unique_ptr<rocksdb::DB>* db,
                                     const Arguments&... arguments) {
  if constexpr (requires { rocksdb::DB::OpenForReadOnly(arguments..., db); }) {
    return rocksdb::DB::OpenForReadOnly(arguments..., db);
  } else {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status =
        rocksdb::DB::OpenForReadOnly(arguments..., &opened);
    db->reset(opened);
    return status;
  }
}

}  // namespace varve
