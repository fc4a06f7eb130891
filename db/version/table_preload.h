// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <vector>

#include "db/version/version_edit.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// Opens all tables, so that no read has to. Many are opened by several threads,
// which have ended when this returns: a device serves them side by side, and
// what tables say of themselves is decoded on all processors. An error is that
// of the first file that cannot be opened; what comes behind it may be left
// out.
// Thread-safety: thread-safe.
Status PreloadTables(TableCache* table_cache,
                     const std::vector<const FileMetaData*>& files);

}  // namespace varve
