// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tables of the last level that a rewrite makes smaller although nothing is
// compacted into them. They have entries that were kept for snapshots which are
// released now, or that no compaction into this level has seen: a table can be
// moved there, or be the work of an earlier session.

#include <cstdint>
#include <set>
#include <vector>

#include "db/version/version.h"
#include "table/block/internal_key.h"

namespace varve {

// Returns the numbers of such tables of the level that overlap the range.
// `snapshots` are live, in increasing order. `merges`: there is a merge
// operator. Opens tables whose counts are not known. A table that cannot be
// opened, or has no counts because another program wrote it, is left out.
// REQUIRES: the caller holds a reference to the version, and not the DB mutex.
std::set<uint64_t> FindKeptTables(const Version& version, int level,
                                  const UserKeyRange& range,
                                  const std::vector<SequenceNumber>& snapshots,
                                  bool merges);

}  // namespace varve
