// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/flush_job.h"

#include <memory>

#include "db/compaction_iterator.h"
#include "db/level_targets.h"
#include "table/merging_iterator.h"

namespace varve {

Status FlushMemTables(const TableOutputContext& context,
                      const std::vector<MemTable*>& memtables,
                      const std::vector<SequenceNumber>& snapshots,
                      uint64_t file_number, VersionEdit* edit) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (const MemTable* memtable : memtables) {
    children.push_back(memtable->NewIterator());
  }
  const std::unique_ptr<InternalIterator> input =
      NewMergingIterator(context.comparator, std::move(children));
  CompactionIterator iterator(input.get(), context.comparator, snapshots,
                              nullptr);
  iterator.SeekToFirst();
  if (!iterator.Valid()) return iterator.status();

  TableOutput output(context, file_number,
                     CompressionForLevel(*context.options, 1, 0, false),
                     RateLimiter::Priority::kHigh);
  Status status = output.Open();
  for (; status.ok() && iterator.Valid(); iterator.Next()) {
    status = output.Add(iterator.key(), iterator.value());
  }
  if (status.ok()) status = iterator.status();
  if (status.ok()) status = output.Finish();
  if (!status.ok()) {
    output.Abandon();
    return status;
  }
  edit->AddFile(0, output.metadata());
  return status;
}

}  // namespace varve
