// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "table/reader/table_core.h"
#include "varve/status.h"

namespace varve {

// Reads all blocks of a table, bypassing the cache, and verifies their
// checksums. Checks all entries, their order, the index and the number of
// entries. Corruption describes the first problem.
Status VerifyTable(const TableCore& core);

}  // namespace varve
