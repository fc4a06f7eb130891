// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <span>
#include <vector>

#include "db/version/covered_tables.h"
#include "db/version/version.h"
#include "varve/db.h"

namespace varve {

// Returns the tables below level 0 whose keys are all in one of the ranges, and
// that are not being compacted. With `include_end`, the limits belong to the
// ranges. RocksDB may divide the versions of a key between adjacent tables:
// such tables are returned only together. REQUIRES: the DB mutex is held.
std::vector<CoveredTable> FindTablesInRanges(const Version& version,
                                             std::span<const RangePtr> ranges,
                                             bool include_end);

}  // namespace varve
