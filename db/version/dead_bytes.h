// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Estimates of dead entries in tables, by the counts of FileMetaData::FindDead
// and the index of a table that is open. They read no file and take no lock. An
// estimate is 0 if the counts are not known.

#include <cstdint>

#include "db/version/version.h"
#include "db/version/version_edit.h"

namespace varve {

// Returns the bytes of the file's data blocks, or of the whole file if the size
// of the rest is not known.
uint64_t DataBytes(const FileMetaData& file);

// Returns the bytes of an average entry in the file, as stored.
uint64_t AverageEntryBytes(const FileMetaData& file);

// Returns about how many bytes the file's hidden entries take, and with
// `deletions_too` also its deletions. Deletions count as average entries.
uint64_t OwnDeadBytes(const FileMetaData& file, bool deletions_too);

// Returns whether at least a quarter of the entries are hidden or, with
// `deletions_too`, hidden or deletions.
bool HasManyDead(const FileMetaData& file, bool deletions_too);

// Returns about which part of the file's data lies in the range, from 0 to 1.
// `table` is the file's. If it is null, returns 1 if the file overlaps the
// range.
double PartInRange(const InternalKeyComparator& comparator,
                   const FileMetaData& file, const Table* table,
                   const UserKeyRange& range);

}  // namespace varve
