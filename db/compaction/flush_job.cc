// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/flush_job.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/level_targets.h"
#include "db/compaction/surviving_range_tombstones.h"
#include "db/version/range_tombstone_collector.h"
#include "env/stopwatch.h"
#include "table/block/merging_iterator.h"
#include "util/base/experiment.h"
#include "util/threads/path_counter.h"

namespace varve {

Status FlushMemTables(const FlushInput& flush, VersionEdit* edit,
                      CompactionIterator::Drops* drops) {
  const TableOutputContext& context = flush.context;
  std::vector<std::unique_ptr<InternalIterator>> children;
  RangeTombstoneCollector collector(context.comparator);
  for (const MemTable* memtable : flush.memtables) {
    children.push_back(memtable->NewIterator());
    collector.AddMemTable(*memtable);
  }
  const auto tombstones = collector.Build();
  std::optional<OlderTables> older_tables;
  if (context.options->allow_ingest_behind) {
    // Older entries may be ingested later.
  } else if (!ExperimentFlagsOf(*context.options).ignores_waste) {
    older_tables.emplace(flush.version, 0);
    for (const FileMetaData& file : flush.other_tables) older_tables->Add(file);
  } else {
    CountPath(PathCounter::kWasteIgnored);
  }
  const SurvivingRangeTombstones surviving(
      tombstones.get(), flush.snapshots,
      older_tables ? &*older_tables : nullptr);
  const std::unique_ptr<InternalIterator> input =
      NewMergingIterator(context.comparator, std::move(children));
  const std::unique_ptr<JobFilter> filter = JobFilter::Create(
      *context.options, context.FilterJob(flush.reason, 0, flush.stop));
  CompactionIterator iterator(
      input.get(), context.comparator, flush.snapshots, tombstones.get(),
      older_tables ? &*older_tables : nullptr,
      CompactionIterator::Output::kLevel0, nullptr,
      {context.options->merge_operator.get(), filter.get(),
       StatisticsImpl::Of(context.options->statistics.get())});
  const auto set_tables_end = [&] {
    SequenceNumber end = iterator.input_end();
    for (size_t i = 0; tombstones != nullptr && i < tombstones->size(); ++i) {
      end = std::max(end, tombstones->at(i).sequence);
    }
    edit->SetTablesEnd(end);
  };
  iterator.SeekToFirst();
  if (!iterator.Valid() && (!iterator.status().ok() || surviving.empty())) {
    *drops = iterator.drops();
    if (drops->obsolete != 0) CountPath(PathCounter::kWasteMended);
    set_tables_end();
    return iterator.status();
  }

  TableOutput output(context, flush.file_number,
                     CompressionForLevel(*context.options, 1, 0, false),
                     RateLimiter::Priority::kHigh);
  output.SetPlace(&flush.version, 0);
  Status status = output.Open();
  for (; status.ok() && iterator.Valid(); iterator.Next()) {
    status = output.Add(iterator.key(), iterator.value());
    if (iterator.hidden()) {
      output.CountHidden(iterator.kept_for(),
                         iterator.key().size() + iterator.value().size());
    }
    if (flush.pace != nullptr) flush.pace->Advance(iterator.input_count());
  }
  if (status.ok()) status = iterator.status();
  if (flush.pace != nullptr) flush.pace->Written(MonotonicMicros(context.env));
  *drops = iterator.drops();
  if (drops->obsolete != 0) CountPath(PathCounter::kWasteMended);
  if (status.ok()) {
    surviving.AddTo({}, {}, /*hidden=*/false, &output);
    status = output.Finish();
  }
  if (!status.ok()) {
    output.Abandon();
    return status;
  }
  edit->AddFile(0, output.metadata());
  set_tables_end();
  return status;
}

}  // namespace varve
