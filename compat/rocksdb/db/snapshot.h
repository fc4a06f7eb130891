// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdlib>
#include <new>

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {

// Returns a handle from malloc, because programs free the handle of a
// transaction's snapshot with rocksdb_free. `db` releases the snapshot; null if
// it belongs to a transaction.
inline rocksdb_snapshot_t* NewSnapshot(const Snapshot* rep, DB* db) {
  return new (malloc(sizeof(rocksdb_snapshot_t))) rocksdb_snapshot_t{rep, db};
}

}  // namespace varve::rocksdb_c
