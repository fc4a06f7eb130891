// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of keys with merge operands.
#include <string>

#include "db/engine/db_read.h"
#include "db/family/common_errors.h"
#include "db/merge/merge_all.h"
#include "monitoring/span.h"
#include "util/bytes/hash.h"

namespace varve {

// For a Get that has found a merge operand: collects the operands, ends the
// read, and calls the merge operator. It is a read of its own, so that others
// execute no instruction for it, and may see a later state of the database.
Status DbReader::GetMerged(ColumnFamily* family, const ReadOptions& options,
                           const Slice& key, ReadTarget* target) {
  TableLookup lookup;
  lookup.user_key = key;
  lookup.hash = PreviewXxh3(key);
  const SuperVersionCache::Read read = BeginRead(family, options);
  lookup.sequence = ReadSequence(options);
  MergeOperands operands;
  Status status = read.super_version->ReadVersions(options, lookup, &operands);
  if (!family->super_versions().End(read)) return ClosedError();
  if (status.ok()) status = ApplyMerge(family, key, operands, target);
  if (status.ok()) {
    RecordTick(stats_, Ticker::kNumberKeysFound);
    RecordTick(stats_, Ticker::kBytesRead, target->size());
  }
  return status;
}

// Sets the target to the value that the operands result in.
Status DbReader::ApplyMerge(ColumnFamily* family, const Slice& key,
                            const MergeOperands& operands, ReadTarget* target) {
  const LocalSpan span("merge");
  if (operands.empty()) {
    if (!operands.has_base()) return Status::NotFound();
    target->SetCopy(operands.base());
    return Status::OK();
  }
  std::string value;
  Status status = MergeAll(family->options().merge_operator.get(), key,
                           operands, stats_, &value);
  if (status.ok()) target->SetCopy(value);
  return status;
}

// Calls the merge operator for the keys that need it. Returns the bytes found.
uint64_t DbReader::FinishMerges(ColumnFamily* family,
                                std::vector<MergedLookup>* lookups) {
  uint64_t bytes = 0;
  size_t found = 0;
  for (MergedLookup& merge : *lookups) {
    if (!merge.status->ok()) continue;
    *merge.status =
        ApplyMerge(family, merge.key, merge.operands, &merge.target);
    if (!merge.status->ok()) continue;
    ++found;
    bytes += merge.target.size();
  }
  RecordTick(stats_, Ticker::kNumberMultiGetKeysFound, found);
  RecordTick(stats_, Ticker::kNumberMultiGetBytesRead, bytes);
  return bytes;
}

}  // namespace varve
