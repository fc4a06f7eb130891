// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Logs of RocksDB's that Varve does not replay, but whose updates are in no
// table. Without a warning they would not be there, and be lost for good with
// the next write:
// - RocksDB may have been told to keep a database's logs in another directory
//   (DBOptions::wal_dir). Varve looks for them beside the tables only.
// - Transactions that were prepared and not committed stay in a log whose other
//   updates are in tables by now.

#include <cstdint>
#include <string>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// NotSupported if the options file of that number names a directory, other than
// the database's, with logs from number `first_log` on. An options file that
// cannot be read names none; nor does one of a copy: the directory it names has
// a database of its own.
Status CheckLogDirectory(Env* env, const std::string& db_path,
                         uint64_t options_number, uint64_t first_log);

// NotSupported if the log, whose updates are in tables, is kept for prepared
// transactions. What is damaged in it ends the search.
Status CheckForPreparedTransactions(Env* env, const std::string& db_path,
                                    uint64_t log_number);

}  // namespace varve
