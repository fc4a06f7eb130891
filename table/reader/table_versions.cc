// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The lookups of merge operands and of sequence numbers, apart from the lookup
// of values: they are rare, and the compiler must not weigh them against it.
#include <algorithm>

#include "table/reader/merge_operands.h"
#include "table/reader/table.h"
#include "table/reader/table_iterator.h"

namespace varve {

Status Table::ReadVersions(const ReadOptions& options,
                           const TableLookup& lookup,
                           MergeOperands* versions) const {
  if (core_.tombstones != nullptr) {
    versions->Cover(
        core_.tombstones->MaxCovering(lookup.user_key, lookup.sequence));
  }
  if (!core_.filter.MayMatch(lookup.hash, lookup.user_key)) return Status();
  const InternalKeyComparator& comparator = *core_.options.comparator;
  TableIterator entry(options, &core_, nullptr);
  const LookupKey key(lookup.user_key, lookup.sequence);
  for (entry.Seek(key.internal_key()); entry.Valid(); entry.Next()) {
    const Slice found = entry.key();
    if (comparator.CompareUser(ExtractUserKey(found), lookup.user_key) != 0 ||
        !versions->Add(ExtractTrailer(found), entry.value())) {
      break;
    }
  }
  return entry.status();
}

Status Table::FindNewest(const ReadOptions& options, const TableLookup& lookup,
                         SequenceNumber* newest) const {
  *newest =
      core_.tombstones == nullptr
          ? 0
          : core_.tombstones->MaxCovering(lookup.user_key, kMaxSequenceNumber);
  if (!core_.filter.MayMatch(lookup.hash, lookup.user_key)) return Status();
  TableIterator entry(options, &core_, nullptr);
  entry.Seek(LookupKey(lookup.user_key, kMaxSequenceNumber).internal_key());
  if (entry.Valid() && core_.options.comparator->CompareUser(
                           ExtractUserKey(entry.key()), lookup.user_key) == 0) {
    *newest = std::max(*newest, ExtractSequence(entry.key()));
  }
  return entry.status();
}

}  // namespace varve
