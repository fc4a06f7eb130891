// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>
#include <vector>

#include "db/dead_entries/dead_range_cleaner.h"
#include "db/dead_entries/dead_ranges.h"

namespace varve {

// Returns the text of the property "varve.dead-ranges": a line for each range
// that readers reported, the costliest first, with what is to be done; then a
// line for each range that is remembered. Keys are in hexadecimal. REQUIRES:
// the DB mutex is held, for the cleaner.
std::string DeadRangesTextLocked(const DeadRangeCleaner& cleaner,
                                 const std::vector<DeadRange>& known,
                                 SequenceNumber oldest_snapshot);

}  // namespace varve
