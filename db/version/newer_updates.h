// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds updates in the tables of a version that are newer than a sequence
// number. Only tables whose largest sequence number is above it are read.
// REQUIRES for all: a snapshot at or before that number, so that compactions
// have kept the newer numbers.

#include "db/version/version.h"
#include "table/reader/table.h"
#include "varve/status.h"

namespace varve {

// Sets *found to whether a table has an update of the lookup's key after
// `since`, or a range deletion after `since` that covers the key. The lookup's
// own number is not used. REQUIRES: the caller is inside a read-side critical
// section.
Status FindNewer(const Version& version, const TableLookup& lookup,
                 SequenceNumber since, bool* found);
// Sets *found to whether a table has an update after `since` of a key in the
// range, or a range deletion after `since` that covers a part of the range.
// REQUIRES: the caller holds the version.
Status FindNewerIn(const Version& version, const UserKeyRange& range,
                   SequenceNumber since, bool* found);

}  // namespace varve
