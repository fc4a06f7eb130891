// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The table files of a database, as its properties describe them.

#include <cstdint>
#include <string>
#include <vector>

#include "varve/column_family.h"
#include "varve/db.h"

namespace varve::rocksdb_c {

struct TableFile {
  std::string family;
  int level = 0;
  std::string name;  // Such as 000012.sst.
  uint64_t bytes = 0;
  std::string smallest_key;
  std::string largest_key;
};

// Returns the tables of a family (null is the default one), by level.
std::vector<TableFile> TablesOf(DB* db, ColumnFamilyHandle* family,
                                const std::string& family_name);

}  // namespace varve::rocksdb_c
