// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/successive_merges.h"

#include "db/merge/merge_all.h"
#include "util/bytes/hash.h"

namespace varve {

bool SuccessiveMerges::Merge(uint32_t family_id, SequenceNumber sequence,
                             const Slice& key, const Slice& operand,
                             std::string* value) {
  ColumnFamily* const family = families_.Find(family_id);
  size_t limit;
  {
    MutexLock lock(mutex_);  // See DB::SetOptions.
    limit = family->options().max_successive_merges;
  }
  if (limit == 0) return false;
  TableLookup lookup;
  lookup.user_key = key;
  lookup.hash = PreviewXxh3(key);
  lookup.sequence = sequence - 1;
  MergeOperands operands;
  const uint64_t trailer = PackTrailer(sequence, ValueType::kMerge);
  operands.Add(trailer, operand);
  const SuperVersionCache::Read read = family->super_versions().Begin();
  family->memtable()->ReadVersions(key, lookup.sequence, &operands);
  const bool are_many = operands.size() > limit;
  Status status;
  if (are_many) {
    operands.Clear();
    operands.Add(trailer, operand);
    status = read.super_version->ReadVersions(ReadOptions(), lookup, &operands);
  }
  if (!family->super_versions().End(read) || !are_many || !status.ok()) {
    return false;
  }
  value->clear();
  return MergeAll(family->options().merge_operator.get(), key, operands, stats_,
                  value)
             .ok() &&
         EntryFits(key.size(), value->size());
}

}  // namespace varve
