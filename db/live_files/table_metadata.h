// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The tables of a database as programs ask for them: see varve/metadata.h.
// Tables may have to be opened, so the DB mutex must not be held unless a
// function says so.

#include <string>
#include <string_view>
#include <vector>

#include "db/family/column_family.h"
#include "db/options/db_mutex.h"
#include "db/version/version.h"
#include "varve/metadata.h"
#include "varve/table_properties.h"

namespace varve {

// A family's tables at one moment. The version must be referenced as long as
// this is used.
struct FamilyTables {
  struct Table {
    int level;
    const FileMetaData* file;
    bool being_compacted;
  };

  ColumnFamily* family;
  Version* version;
  int num_levels;
  std::vector<Table> tables;  // By level.
};

// Lists the family's present tables, and adds a reference to its version.
FamilyTables ListTablesLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);

// Returns what is known of a table in `directory`. Reads the table's properties
// if its counts are not known otherwise; they stay 0 if it cannot be read.
SstFileMetaData DescribeTable(const FamilyTables& tables,
                              const FamilyTables::Table& table,
                              const std::string& directory);

// Reads all properties of a table from its file in `directory`.
Status ReadTableProperties(Env* env, const std::string& directory,
                           const FileMetaData& file, TableProperties* result);

// Sets *number to the number of the table that a program names by its path, its
// name or its name with a slash in front. Returns false for other names.
bool ParseTableName(std::string_view name, uint64_t* number);

}  // namespace varve
