// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB may have been told to keep a database's logs in another directory
// (DBOptions::wal_dir). Varve looks for them beside the tables only, so that
// without a warning what they hold would not be there, and be lost for good
// with the next write.

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

}  // namespace varve
