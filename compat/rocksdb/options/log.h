// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The informational log of a database. It is in front of the engine's logger,
// so that options are logged as by RocksDB, and so that calls without an error
// argument can report what they lack.

#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

// Returns the logger for DBOptions::info_log: the program's, or a new file LOG
// in the directory `path`, created at the engine's first line. Lines below the
// options' info_log_level are dropped. Returns null if the database is opened
// `read_only` and the program has no logger.
std::shared_ptr<Logger> NewDatabaseLog(const rocksdb_options_t& options,
                                       const std::string& path, bool read_only);

// Writes lines. `log` is from NewDatabaseLog, or null.
void LogLines(const std::vector<std::string>& lines, Logger* log);

// Writes "Options.<name>: <value>" for each option of a database, or of a
// column family, and "accepted, no effect: <name> = <value>" for each one that
// was set and changes nothing. `log` is as for LogLines.
void LogDatabaseOptions(const rocksdb_options_t& options, Logger* log);
void LogFamilyOptions(const rocksdb_options_t& options,
                      const std::string& family, Logger* log);

// Writes a line to the logs of all open databases. Returns false if there is no
// log. Thread-safety: thread-safe.
bool LogToOpenDatabases(const std::string& line);

// Writes "accepted, no effect: <name> = <value>" to the logs of all open
// databases, once for each name. For options of calls, which do not exist when
// a database is opened. Thread-safety: thread-safe.
[[gnu::cold]] void NoteAccepted(const char* name, const std::string& value);

}  // namespace varve::rocksdb_c
