// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Removes the files that earlier sessions left in a database's directory:
// outputs of interrupted jobs, old MANIFESTs and logs, old info logs.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "db/directory/db_directory.h"
#include "table/reader/table_cache.h"
#include "varve/env.h"

#include "db/wal/wal_archive.h"

namespace varve {

// The files that are needed.
struct LiveFiles {
  std::vector<uint64_t> tables;   // Sorted.
  uint64_t manifest_number = 0;   // The oldest one.
  uint64_t log_number = 0;        // The oldest one.
  uint64_t next_file_number = 0;  // As read from the MANIFEST.
  std::set<std::string> foreign;  // Other programs' files.
  // Where obsolete logs go, except those after the last replayed one, which
  // have no updates of the database. Null: nowhere.
  const WalArchive* archive = nullptr;
  uint64_t last_replayed_log = 0;
};

// Removes the files that are not live. A complete table with a number of at
// least next_file_number is moved to lost/.
// `table_caches`: of all column families.
void RemoveLeftovers(const DbDirectory& place,
                     const std::vector<TableCache*>& table_caches, Logger* log,
                     const LiveFiles& live);

// Removes all but the newest of these info logs.
void RemoveOldInfoLogs(const DbDirectory& place,
                       std::vector<std::string> names);

}  // namespace varve
