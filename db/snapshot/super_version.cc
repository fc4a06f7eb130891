// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/snapshot/super_version.h"

#include "table/reader/merge_operands.h"

namespace varve {

Status SuperVersion::ReadVersions(const ReadOptions& options,
                                  const TableLookup& lookup,
                                  MergeOperands* versions) const {
  const auto add = [&](const MemTable& source) {
    if (options.read_tier == ReadTier::kPersistedTier && source.has_unlogged())
      return;
    source.ReadVersions(lookup.user_key, lookup.sequence, versions);
  };
  add(*memtable);
  for (const MemTable* older : immutable) {
    if (!versions->NeedsOlder()) break;
    add(*older);
  }
  return version->ReadVersions(options, lookup, versions);
}

}  // namespace varve
