// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Logs that an Open did not replay to their ends, because they or earlier ones
// are damaged. The Open keeps them in lost/, before it writes its first edit,
// and describes them in the file lost/UNUSED. A repair adds their updates, if
// nothing was written to the database since.

#include <cstdint>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

struct UnusedLogs {
  struct File {
    uint64_t number = 0;
    std::string name;  // In lost/.
  };
  std::vector<File> files;   // In the order of their numbers.
  SequenceNumber after = 0;  // The updates up to this one are in the database.
  SequenceNumber end = 0;    // The last update in the logs.
};

// Returns the directory of files that the database has put aside.
std::string LostDirectory(const std::string& db_path);

// Returns a path in lost/ that is not in use: of that name, or of the name and
// a number.
std::string FreeLostName(Env* env, const std::string& db_path,
                         const std::string& name);

// Gives the logs a second name in lost/, or copies them where links are not
// supported, and writes lost/UNUSED. All is durable then.
Status KeepUnusedLogs(Env* env, const std::string& db_path,
                      const UnusedLogs& logs);

// Reads lost/UNUSED. Returns no files if there is none, or if it is not as
// KeepUnusedLogs writes it.
UnusedLogs ReadUnusedLogs(Env* env, const std::string& db_path);

// Removes lost/UNUSED, but not the logs.
void ForgetUnusedLogs(Env* env, const std::string& db_path);

}  // namespace varve
