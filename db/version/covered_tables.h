// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tables that range deletions hide completely. They can be removed by an edit
// of the MANIFEST alone.

#include <cstdint>
#include <vector>

#include "db/version/version.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

struct CoveredTable {
  int level;
  uint64_t number;
};

// Returns the tables of the version all of whose entries are hidden by newer
// deletions of the set, also for each of the snapshots.
std::vector<CoveredTable> FindCoveredTables(
    const RangeTombstoneSet& tombstones, const Version& version,
    const std::vector<SequenceNumber>& snapshots);

}  // namespace varve
