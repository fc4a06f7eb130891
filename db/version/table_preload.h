// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <vector>

#include "db/version/version_edit.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// Opens all tables, so that no read has to. Sets FileMetaData::dead. Several
// threads open many tables concurrently: the device serves parallel reads, and
// all processors decode the tables' metadata. The threads have ended on return.
// On failure returns the error of the first file that cannot be opened. Later
// files may be skipped.
//
// REQUIRES: no other thread has the files.
Status PreloadTables(TableCache* table_cache,
                     const std::vector<FileMetaData*>& files);

}  // namespace varve
