// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What other openings of a database have left in its directory: outputs of jobs
// that died, old MANIFESTs and logs, old info logs.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "db/parts/db_directory.h"
#include "table/reader/table_cache.h"
#include "varve/env.h"

namespace varve {

// What is needed in the directory.
struct LiveFiles {
  std::vector<uint64_t> tables;   // Sorted.
  uint64_t manifest_number = 0;   // The oldest one.
  uint64_t log_number = 0;        // Likewise.
  uint64_t next_file_number = 0;  // The MANIFEST's, as it was found.
  std::set<std::string> foreign;  // Another program's.
};

// Removes what is not live. A table from next_file_number on that is whole goes
// to lost/.
void RemoveLeftovers(const DbDirectory& place, TableCache* table_cache,
                     Logger* log, const LiveFiles& live);

// Of info logs of those names the newest stay.
void RemoveOldInfoLogs(const DbDirectory& place,
                       std::vector<std::string> names);

}  // namespace varve
