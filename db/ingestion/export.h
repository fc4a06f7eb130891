// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/db.h"
#include "varve/metadata.h"
#include "varve/status.h"

namespace varve {

// Implements Checkpoint::ExportColumnFamily for any DB.
Status ExportFamily(DB* db, ColumnFamilyHandle* family,
                    const std::string& directory,
                    ExportImportFilesMetaData** metadata);

}  // namespace varve
