// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <rocksdb/c.h>

#include <vector>

#include "varve/metadata.h"

// Tables, of a database or to be imported.
struct rocksdb_livefiles_t {
  std::vector<varve::LiveFileMetaData> tables;
};

// Those of an exported family.
struct rocksdb_export_import_files_metadata_t {
  varve::ExportImportFilesMetaData rep;
};
