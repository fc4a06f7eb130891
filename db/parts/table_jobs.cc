// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/table_jobs.h"

#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "db/compaction/flush_job.h"
#include "db/compaction/parallel_compaction.h"
#include "db/parts/job_events.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"

namespace varve {

std::vector<SequenceNumber> TableJobs::ScanSnapshots() const {
  const HistogramTimer timer(parts_.stats, HistogramType::kSnapshotScan,
                             parts_.place->env());
  return parts_.family->snapshots()->Scan();
}

// The analysis cannot tell that the mutex is the DB's, here and below.
Status TableJobs::FlushLocked(FlushJobInfo* info)
    VARVE_NO_THREAD_SAFETY_ANALYSIS {
  const RequestSpan span("flush");
  const std::vector<MemTable*> memtables = parts_.family->immutable();
  const uint64_t number = versions_->NewFileNumber();
  const Stopwatch flushing(parts_.place->env());
  VersionEdit edit;
  uint64_t entries = 0;
  for (const MemTable* memtable : memtables) entries += memtable->EntryCount();
  parts_.family->flush_pace()->Begin(entries, flushing.start_us());
  CompactionIterator::Drops drops;
  info->memtables = memtables.size();
  VARVE_PROBE(flush_begin, number, memtables.size(), entries);
  Version* const version = versions_->current();
  version->RefLocked();
  parts_.mutex->Unlock();
  LocalSpan step("write table");
  Status status = parts_.place->Verify();
  if (status.ok() && !memtables.empty()) {
    status = FlushMemTables(output_context_, *version, {}, memtables,
                            ScanSnapshots(), number, &edit, &drops,
                            parts_.family->flush_pace());
  }
  CountDrops(parts_.stats, drops);
  step.Next("directory sync");
  if (status.ok()) status = SyncOutputs(edit);
  step.Next("install");
  parts_.mutex->Lock();
  versions_->UnrefVersionLocked(version);
  VARVE_PROBE(flush_end, number, status.ok());
  if (status.ok()) {
    AddTablesCreated(parts_.events, parts_.place->path(), edit, status);
  } else if (!memtables.empty()) {
    AddTableCreated(parts_.events, parts_.place->path(), number, 0, status);
  }
  if (!status.ok()) return status;

  const auto& immutable = parts_.family->immutable();
  const MemTable* const next = immutable.size() > memtables.size()
                                   ? immutable[memtables.size()]
                                   : parts_.family->memtable();
  edit.SetLogNumber(next->wal_number());
  status = versions_->LogAndApply(&edit);
  if (!status.ok()) return status;

  for (const auto& [level, file] : edit.new_files()) {
    parts_.family->compactions().space_debt -=
        std::min(parts_.family->compactions().space_debt, file.file_size);
    info->file_number = file.number;
    info->file_bytes = file.file_size;
    Log(LogLevel::kInfo, parts_.log,
        "flushed %zu memtables to table %llu, %llu bytes", memtables.size(),
        static_cast<unsigned long long>(file.number),
        static_cast<unsigned long long>(file.file_size));
  }
  parts_.family->flush_pace()->End(MonotonicMicros(parts_.place->env()));
  parts_.family->CountFlushesLocked(edit, 1, flushing.ElapsedMicros());
  return status;
}

Status TableJobs::CompactLocked(const Compaction& compaction,
                                CompactionJobInfo* info)
    VARVE_NO_THREAD_SAFETY_ANALYSIS {
  VersionEdit edit;
  CompactionStats& stats =
      parts_.family->compactions().stats[compaction.output_level];
  RecordInHistogram(parts_.stats, HistogramType::kCompactionFiles,
                    compaction.inputs[0].size() + compaction.inputs[1].size());
  if (compaction.trivial_move) {
    compaction.RemoveInputs(&edit);
    for (const FileMetaData* file : compaction.inputs[0]) {
      edit.AddFile(compaction.output_level, *file);
    }
    stats.moved_bytes += compaction.InputBytes();
    return versions_->LogAndApply(&edit);
  }
  CompactionResult result;
  parts_.mutex->Unlock();
  const std::vector<SequenceNumber> snapshots = ScanSnapshots();
  Status status = parts_.place->Verify();
  if (status.ok()) {
    status = RunCompaction(
        output_context_, compaction, table_cache_, snapshots,
        [this] { return versions_->NewFileNumber(); },
        parts_.scheduler->stop_flag(), &edit, &result);
  }
  if (status.ok()) status = SyncOutputs(edit);
  const uint64_t upper_bytes =
      TotalFileSize(compaction.inputs[0]) - result.bytes_skipped[0];
  const uint64_t level_bytes =
      TotalFileSize(compaction.inputs[1]) - result.bytes_skipped[1];
  RecordTick(parts_.stats, Ticker::kCompactReadBytes,
             upper_bytes + level_bytes);
  RecordTick(parts_.stats, Ticker::kCompactWriteBytes, result.bytes_written);
  CountDrops(parts_.stats, result.drops);
  parts_.mutex->Lock();
  stats.upper_bytes_read += upper_bytes;
  stats.level_bytes_read += level_bytes;
  stats.entries_read += result.entries_read;
  stats.entries_dropped += result.drops.Total();
  stats.bytes_written += result.bytes_written;
  AddTablesCreated(parts_.events, parts_.place->path(), edit, status);
  for (const uint64_t number : result.abandoned) {
    AddTableCreated(parts_.events, parts_.place->path(), number, 0, status);
  }
  uint64_t reclaimable_bytes = 0;
  for (const auto& [level, file] : edit.new_files()) {
    info->output_files.push_back(file.number);
    reclaimable_bytes += file.reclaimable_bytes;
  }
  info->output_bytes = result.bytes_written;
  if (status.ok()) status = versions_->LogAndApply(&edit);
  if (status.ok() && compaction.for_space) {
    parts_.family->compactions().space_debt +=
        RewrittenInVain(compaction, result.bytes_written, reclaimable_bytes);
  }
  return status;
}

Status TableJobs::SyncOutputs(const VersionEdit& edit) const {
  Status status = parts_.place->directory()->Sync();
  if (status.ok()) return status;
  for (const auto& [level, file] : edit.new_files()) {
    table_cache_->Evict(file.number);
    parts_.place->env()
        ->RemoveFile(TableFileName(parts_.place->path(), file.number))
        .IgnoreError();
  }
  return status;
}

}  // namespace varve
