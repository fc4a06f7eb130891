// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "table/reader/table_core.h"
#include "varve/status.h"

namespace varve {

// Reads all blocks of a table past the cache and compares their checksums;
// walks all entries, and compares their order, the index and the number of
// entries. Corruption says what is wrong first.
Status VerifyTable(const TableCore& core);

}  // namespace varve
