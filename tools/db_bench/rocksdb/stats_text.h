// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The lines of RocksDB's statistics that scripts read from the output of
// db_bench, as its tools/benchmark.sh does.

#include <map>
#include <string>

namespace varve {

// The numbers of DB::GetMapProperty, and the text of the other property.
struct StatsBase {
  std::map<std::string, std::string> cfstats;
  std::string dbstats;
};

// `base` has what was there when counting began, or is empty. The time since
// then is `uptime_seconds`.
std::string FormatRocksDbStats(const StatsBase& now, const StatsBase& base,
                               double uptime_seconds);

}  // namespace varve
