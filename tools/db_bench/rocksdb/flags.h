// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The flags of RocksDB's db_bench, of which db_bench.cc defines a part.
// RegisterFlags adds:
// - a flag for each row of the engine's option table
// (db/options/option_table.h)
//   by the option's own name, and by RocksDB's name of the flag if that
//   differs;
// - a flag for each feature that Varve lacks. It is accepted if the run is the
//   same without the feature, and refused if another thing would be measured or
//   stored.

#include <string>
#include <utility>
#include <vector>

#include "varve/status.h"

namespace varve {

// Engine options by name, with their values as text (SetOption).
using OptionList = std::vector<std::pair<std::string, std::string>>;

// Registers the flags that are not defined yet. Call it once, before flags are
// parsed. A flag of `arguments` is given, also with its default value.
void RegisterFlags(int count, char** arguments);

// Appends the options whose flags were given to *options. Appends a line to
// *notes for each flag that was given and has no effect. Returns
// NotSupported, with the reason, for a flag that is refused.
Status CollectFlags(OptionList* options, std::string* notes);

// Appends the options that flags of db_bench.cc stand for, of those that were
// given, to *options.
void CollectDefinedFlags(OptionList* options);

// Returns the names and values of the flags that RegisterFlags has added and
// that were given.
OptionList GivenFlags();

// Returns why a benchmark of RocksDB's db_bench is missing here, or null.
const char* ReasonOfLack(const std::string& benchmark);

// Returns tables in Markdown: RocksDB's flags and benchmarks, and for each
// whether it works, is accepted or is refused, with the reason.
std::string DescribeRocksDbFlags();

}  // namespace varve
