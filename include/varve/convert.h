// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options as text, and OPTIONS files, in RocksDB's format. docs/option_files.md

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "varve/column_family.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Options by name, each with its value as text.
using OptionsMap = std::unordered_map<std::string, std::string>;

// How to read options from text.
struct ConfigOptions {
  // Pass over names that neither Varve nor RocksDB has. Default: false. Names
  // that RocksDB has and Varve does not are always passed over, and are kept
  // when an OPTIONS file is rewritten.
  bool ignore_unknown_options = false;
  // Pass over objects (comparators, operators and so on) that are not known by
  // name, and over values that only RocksDB has. Otherwise they are
  // NotSupported. Default: true.
  bool ignore_unsupported_options = true;
  // Separates options in text that is written. Default: ";".
  std::string delimiter = ";";
  // Where files are read from.
  Env* env = Env::Default();
};

// Start from `base`, set what the text or map names, and store the result in
// *result. Values have RocksDB's syntax: numbers, names of enumerations,
// "name=value;..." in braces for an object. Return InvalidArgument, and leave
// *result unchanged, for a value that is not of its option's type or that is
// out of bounds, and for an unknown name unless it is passed over. The options
// of tables are in block_based_table_factory, as in RocksDB, or beside the
// others, as in ColumnFamilyOptions.
VARVE_EXPORT Status GetDBOptionsFromMap(const ConfigOptions& config,
                                        const DBOptions& base,
                                        const OptionsMap& changes,
                                        DBOptions* result);
VARVE_EXPORT Status GetDBOptionsFromString(const ConfigOptions& config,
                                           const DBOptions& base,
                                           const std::string& text,
                                           DBOptions* result);
VARVE_EXPORT Status GetColumnFamilyOptionsFromMap(
    const ConfigOptions& config, const ColumnFamilyOptions& base,
    const OptionsMap& changes, ColumnFamilyOptions* result);
VARVE_EXPORT Status GetColumnFamilyOptionsFromString(
    const ConfigOptions& config, const ColumnFamilyOptions& base,
    const std::string& text, ColumnFamilyOptions* result);
// Sets options of the database and of its default family.
VARVE_EXPORT Status GetOptionsFromString(const ConfigOptions& config,
                                         const Options& base,
                                         const std::string& text,
                                         Options* result);
// The inverse: all options that have a text. Caches, rate limiters and objects
// of the program have none.
VARVE_EXPORT Status GetStringFromDBOptions(const ConfigOptions& config,
                                           const DBOptions& options,
                                           std::string* text);
VARVE_EXPORT Status GetStringFromColumnFamilyOptions(
    const ConfigOptions& config, const ColumnFamilyOptions& options,
    std::string* text);
// Stores the options of "name=value;name={...}" in *map. Returns
// InvalidArgument for unbalanced braces or a missing "=".
VARVE_EXPORT Status StringToMap(const std::string& text, OptionsMap* map);

// Read the newest OPTIONS file of the database in `path`, or the given file.
// Store the options in *db_options and *families, which has the default family
// first. Objects that the text only names (comparators, operators, filters of
// the program) keep the defaults, unless Varve has one of that name. Numbers
// that RocksDB allows and Varve does not are moved into their bounds.
// Errors: NotFound if there is no such file; Corruption and InvalidArgument
// name the file and line.
VARVE_EXPORT Status LoadLatestOptions(
    const ConfigOptions& config, const std::string& path, DBOptions* db_options,
    std::vector<ColumnFamilyDescriptor>* families);
VARVE_EXPORT Status LoadOptionsFromFile(
    const ConfigOptions& config, const std::string& file, DBOptions* db_options,
    std::vector<ColumnFamilyDescriptor>* families);
// Stores the name of the newest OPTIONS file, without its directory, in *name.
VARVE_EXPORT Status GetLatestOptionsFileName(const std::string& path, Env* env,
                                             std::string* name);
// Returns OK if the database in `path` can be opened with these options as far
// as its newest OPTIONS file tells: the families' comparators, operators and
// so on have the same names. InvalidArgument tells the difference.
VARVE_EXPORT Status
CheckOptionsCompatibility(const ConfigOptions& config, const std::string& path,
                          const DBOptions& db_options,
                          const std::vector<ColumnFamilyDescriptor>& families);

}  // namespace varve
