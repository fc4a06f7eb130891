// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/snapshot/super_version.h"

#include "table/reader/merge_operands.h"

namespace varve {

Status SuperVersion::ReadVersions(const ReadOptions& options,
                                  const TableLookup& lookup,
                                  MergeOperands* versions) const {
  memtable->ReadVersions(lookup.user_key, lookup.sequence, versions);
  for (const MemTable* older : immutable) {
    if (!versions->NeedsOlder()) break;
    older->ReadVersions(lookup.user_key, lookup.sequence, versions);
  }
  return version->ReadVersions(options, lookup, versions);
}

}  // namespace varve
