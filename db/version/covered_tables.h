// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds tables that range deletions hide completely. An edit of the MANIFEST
// can remove them without a compaction.

#include <cstdint>
#include <vector>

#include "db/version/version.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

struct CoveredTable {
  int level;
  uint64_t number;
};

// Returns the tables of the version whose entries are all hidden by newer
// deletions of the set, and are hidden from each of the snapshots, too.
std::vector<CoveredTable> FindCoveredTables(
    const RangeTombstoneSet& tombstones, const Version& version,
    const std::vector<SequenceNumber>& snapshots);

}  // namespace varve
