// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>

#include "table/block/internal_key.h"
#include "table/reader/table_core.h"
#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// Opens a table file alone, without a database or a cache. `comparator` must
// outlive *core.
Status OpenTableFile(const std::string& path,
                     const InternalKeyComparator* comparator,
                     std::unique_ptr<TableCore>* core);

// Returns the comparator that the table names, or the bytewise one if it names
// none that the library has. It is never destroyed.
const InternalKeyComparator* ComparatorOfTable(const std::string& path);

// The command of `varve` that prints the contents of a table file.
Status RunDumpSst(Session* session);

}  // namespace varve
