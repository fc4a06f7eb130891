// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <vector>

#include "db/version/version_edit.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// Opens all tables, so that no read has to. Several threads open many tables
// concurrently: the device serves parallel reads, and all processors decode the
// tables' metadata. The threads have ended on return. On failure returns the
// error of the first file that cannot be opened. Later files may be skipped.
//
// Thread-safety: thread-safe.
Status PreloadTables(TableCache* table_cache,
                     const std::vector<const FileMetaData*>& files);

}  // namespace varve
