// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A check for RocksDB's logs that Varve does not replay, but whose updates are
// in no table. RocksDB can keep a database's logs in another directory
// (DBOptions::wal_dir), and Varve searches for logs only beside the tables.
// Without an error these updates would be missing, and the next write would
// lose them for good.

#include <cstdint>
#include <string>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Returns NotSupported if the options file with that number names a log
// directory that has nonempty logs from number `first_log` on. Returns OK if
// the options file cannot be read. Also returns OK if the directory has a
// CURRENT file. It is then the database's own directory, or this database is a
// copy and its options file still names the original's directory.
Status CheckLogDirectory(Env* env, const std::string& db_path,
                         uint64_t options_number, uint64_t first_log);

}  // namespace varve
