// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An operator's settings for a program that cannot be changed: environment
// variables, and a file with options of the engine. docs/leveldb.md and
// docs/rocksdb_c.md describe them.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/column_family.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve::compat {

struct Settings {
  // Reads the variables and the file on first use. Never destroyed.
  static const Settings& Get();

  // Returns the signal that begins and ends traces, or 0. Reads the environment
  // only, so that it can be called while the library is loaded.
  static int TraceSignal();

  // Sets the options of the file in *options, and makes the database have
  // statistics if a file of them is to be written. Returns InvalidArgument if
  // the file cannot be read or has a line that is no option. All databases of
  // the process share the cache that the file's block_cache creates.
  Status Apply(Options* options) const;
  // As above, for a database that is opened with families.
  Status Apply(DBOptions* options,
               std::vector<ColumnFamilyDescriptor>* families) const;
  // As above, for a family that is created later.
  Status Apply(ColumnFamilyOptions* options) const;

  std::string statistics_path;  // Empty: none.
  uint64_t statistics_seconds = 10;
  std::string trace_path;  // Empty: none.
  double trace_sampling = 1;
  int trace_signal = 0;  // 0: from the first Open to the exit.

 private:
  Settings();
  void ReadOptions(const std::string& path);

  std::vector<std::pair<std::string, std::string>> options_;
  std::shared_ptr<Cache> cache_;
  // The first problem with a variable or with the file.
  std::string problem_;
};

}  // namespace varve::compat
