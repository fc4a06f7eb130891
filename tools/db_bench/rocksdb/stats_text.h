// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The lines of RocksDB's statistics that scripts read from the output of
// db_bench, as its tools/benchmark.sh does.

#include <map>
#include <string>

namespace varve {

// `cfstats` are the numbers of DB::GetMapProperty, and `dbstats` is the text of
// the property.
std::string FormatRocksDbStats(
    const std::map<std::string, std::string>& cfstats,
    const std::string& dbstats, double uptime_seconds);

}  // namespace varve
