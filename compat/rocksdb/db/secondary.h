// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Secondary instances: databases that are only read, and that a call brings up
// to the state of the primary, which another process or handle writes.

#include <functional>
#include <memory>
#include <vector>

#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// Opens the primary's files for reading, as they are now.
using OpenReadOnly = std::function<Status(
    std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db)>;

// A DB that forwards each read to the newest of several read-only DBs. An older
// one exists as long as reads, iterators or snapshots of it.
class SecondaryDb;

// Opens a secondary. Stores it, and handles of its families.
Status OpenSecondary(OpenReadOnly open,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DB>* db, SecondaryDb** secondary);

// Makes later reads see all writes of the primary that returned before the
// call. Thread-safety: thread-safe.
Status CatchUp(SecondaryDb* secondary);

}  // namespace varve::rocksdb_c
