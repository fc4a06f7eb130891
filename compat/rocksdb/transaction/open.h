// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {

// Completes db->transactions of a database that has been opened.
void LinkTransactions(rocksdb_t* db);

}  // namespace varve::rocksdb_c
