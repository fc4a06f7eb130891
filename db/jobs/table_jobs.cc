// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/table_jobs.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "db/compaction/flush_job.h"
#include "db/compaction/parallel_compaction.h"
#include "db/jobs/db_core.h"
#include "db/jobs/job_events.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"

namespace varve {

std::vector<SequenceNumber> TableJobs::ScanSnapshots() const {
  const HistogramTimer timer(core_.stats, HistogramType::kSnapshotScan,
                             core_.env);
  return core_.default_family.snapshots()->Scan();
}

TableJobs::FamilyFlush TableJobs::BeginFlushLocked(ColumnFamily* family,
                                                   const FlushJobInfo& info,
                                                   uint64_t now_us) {
  // No more than the caller saw: with atomic_flush, later ones belong to a
  // flush with other families.
  const auto begin = family->memtables().immutable().begin();
  FamilyFlush flush{
      family,
      {begin, begin + static_cast<std::ptrdiff_t>(info.memtables)},
      core_.versions->NewFileNumber(),
      family->version(),
      family->OutputContextLocked(),
      {},
      {}};
  uint64_t entries = 0;
  for (const MemTable* memtable : flush.memtables) {
    entries += memtable->EntryCount();
  }
  family->pace().flush_pace()->Begin(entries, now_us);
  flush.version->RefLocked();
  VARVE_PROBE(flush_begin, flush.number, flush.memtables.size(), entries);
  return flush;
}

uint64_t TableJobs::FamilyFlush::NextLogLocked() const {
  const auto& immutable = family->memtables().immutable();
  const MemTable* const next = immutable.size() > memtables.size()
                                   ? immutable[memtables.size()]
                                   : family->memtable();
  return next->wal_number();
}

Status TableJobs::WriteTable(FamilyFlush* flush) const {
  Status status = core_.directory.Verify();
  if (!status.ok() || flush->memtables.empty()) return status;
  status = core_.space.CheckFlush();
  if (!status.ok()) return status;
  CompactionIterator::Drops drops;
  status = FlushMemTables({.context = flush->context,
                           .version = *flush->version,
                           .memtables = flush->memtables,
                           .file_number = flush->number,
                           .snapshots = ScanSnapshots(),
                           .pace = flush->family->pace().flush_pace(),
                           .stop = core_.scheduler.stop_flag()},
                          &flush->edit, &drops);
  CountDrops(core_.stats, drops);
  if (!status.ok()) return status;
  uint64_t bytes = 0;
  for (const auto& [level, file] : flush->edit.new_files()) {
    bytes += file.file_size;
  }
  status = core_.space.CheckFlushed(bytes);
  if (!status.ok()) RemoveOutputs(flush->family, flush->edit);
  if (status.ok()) OpenOutputs(flush->family, flush->edit);
  return status;
}

void TableJobs::EndFlushLocked(const FamilyFlush& flush, uint64_t micros,
                               FlushJobInfo* info) {
  ColumnFamily* const family = flush.family;
  for (const auto& [level, file] : flush.edit.new_files()) {
    uint64_t* const debt = &family->compactions().space_debt;
    *debt -= std::min(*debt, file.file_size);
    info->file_number = file.number;
    info->file_bytes = file.file_size;
    if (file.reported != nullptr) info->table_properties = *file.reported;
    Log(LogLevel::kInfo, &core_.log,
        "[%s] flushed %zu memtables to table %llu, %llu bytes",
        family->name().c_str(), flush.memtables.size(),
        static_cast<unsigned long long>(file.number),
        static_cast<unsigned long long>(file.file_size));
  }
  family->pace().flush_pace()->End(MonotonicMicros(core_.env));
  family->CountFlushesLocked(flush.edit, 1, micros);
}

Status TableJobs::FlushLocked(const std::vector<ColumnFamily*>& families,
                              bool atomic, std::vector<FlushJobInfo>* infos,
                              const SyncLogs& sync_logs) {
  const RequestSpan span("flush");
  const Stopwatch flushing(core_.env);
  std::vector<FamilyFlush> flushes;
  for (size_t i = 0; i < families.size(); ++i) {
    flushes.push_back(
        BeginFlushLocked(families[i], (*infos)[i], flushing.start_us()));
  }
  core_.mutex()->Unlock();
  Status status = WriteTables(&flushes, atomic);
  core_.mutex()->Lock();
  const Status named = NameTablesLocked(&flushes, sync_logs);
  for (size_t i = 0; i < flushes.size(); ++i) {
    (*infos)[i].status = flushes[i].status;
    if (!flushes[i].status.ok()) continue;
    EndFlushLocked(flushes[i], flushing.ElapsedMicros() / flushes.size(),
                   &(*infos)[i]);
  }
  return status.ok() ? named : status;
}

Status TableJobs::WriteTables(std::vector<FamilyFlush>* flushes,
                              bool atomic) const {
  LocalSpan step("write table");
  Status status;
  for (FamilyFlush& flush : *flushes) {
    if (status.ok()) status = WriteTable(&flush);
    flush.status = status;
  }
  if (!status.ok() && (atomic || !flushes->front().status.ok())) {
    Fail(status, flushes);
    return status;
  }
  step.Next("directory sync");
  const Status synced = SyncOutputs();
  if (!synced.ok()) Fail(synced, flushes);
  return status.ok() ? synced : status;
}

Status TableJobs::NameTablesLocked(std::vector<FamilyFlush>* flushes,
                                   const SyncLogs& sync_logs) {
  const LocalSpan step("install");
  std::vector<ColumnFamily*> written;
  uint64_t first = UINT64_MAX;
  uint64_t end = 0;
  for (const FamilyFlush& flush : *flushes) {
    if (!flush.status.ok()) continue;
    written.push_back(flush.family);
    first = std::min(first, flush.NextLogLocked());
    end = std::max(end, flush.NextLogLocked());
  }
  Status status;
  if (!written.empty()) {
    status = sync_logs(written, first, end);
    if (!status.ok()) {
      core_.mutex()->Unlock();
      Fail(status, flushes);
      core_.mutex()->Lock();
    }
  }
  for (FamilyFlush& flush : *flushes) {
    core_.versions->UnrefVersionLocked(flush.version);
    VARVE_PROBE(flush_end, flush.number, flush.status.ok());
    if (flush.status.ok()) {
      AddTablesCreated(&core_.events, core_.directory.path(), flush.edit,
                       flush.status);
    } else if (!flush.memtables.empty()) {
      AddTableCreated(&core_.events, core_.directory.path(), flush.number, 0,
                      flush.status);
    }
    flush.edit.SetLogNumber(flush.NextLogLocked());
  }
  for (;;) {
    std::vector<VersionSet::FamilyEdit> edits;
    for (FamilyFlush& flush : *flushes) {
      if (!flush.status.ok()) continue;
      edits.push_back({flush.family->versions(), &flush.edit});
    }
    if (edits.empty()) return status;
    status = core_.versions->LogAndApply(edits);
    if (!status.IsShutdownInProgress()) break;
    // A family was dropped while the tables were written.
    FailDroppedLocked(status, flushes);
    status = Status::OK();
  }
  if (status.ok()) return status;
  for (FamilyFlush& flush : *flushes) {
    if (flush.status.ok()) flush.status = status;
  }
  return status;
}

void TableJobs::Fail(const Status& status,
                     std::vector<FamilyFlush>* flushes) const {
  for (FamilyFlush& flush : *flushes) {
    if (!flush.status.ok()) continue;
    flush.status = status;
    RemoveOutputs(flush.family, flush.edit);
  }
}

void TableJobs::FailDroppedLocked(const Status& status,
                                  std::vector<FamilyFlush>* flushes) const {
  std::vector<const FamilyFlush*> failed;
  for (FamilyFlush& flush : *flushes) {
    if (!flush.status.ok() || !flush.family->versions()->is_dropped()) continue;
    flush.status = status;
    failed.push_back(&flush);
  }
  core_.mutex()->Unlock();
  for (const FamilyFlush* flush : failed) {
    RemoveOutputs(flush->family, flush->edit);
  }
  core_.mutex()->Lock();
}

Status TableJobs::CompactLocked(ColumnFamily* family,
                                const Compaction& compaction,
                                CompactionJobInfo* info) {
  VersionEdit edit;
  CompactionStats& stats = family->compactions().stats[compaction.output_level];
  RecordInHistogram(core_.stats, HistogramType::kCompactionFiles,
                    compaction.inputs[0].size() + compaction.inputs[1].size());
  if (compaction.trivial_move) {
    compaction.RemoveInputs(&edit);
    for (const FileMetaData* file : compaction.inputs[0]) {
      edit.AddFile(compaction.output_level, *file);
    }
    stats.moved_bytes += compaction.InputBytes();
    if (core_.events.HasListeners()) {
      core_.mutex()->Unlock();
      AddInputProperties(compaction, core_.env, info);
      core_.mutex()->Lock();
    }
    return core_.versions->LogAndApply(family->versions(), &edit);
  }
  const TableSpace::Reservation room(&core_.space, compaction.InputBytes());
  if (!room.status().ok()) return room.status();
  CompactionResult result;
  const TableOutputContext context = family->OutputContextLocked();
  core_.mutex()->Unlock();
  const std::vector<SequenceNumber> snapshots = ScanSnapshots();
  Status status = core_.directory.Verify();
  if (status.ok()) {
    status = RunCompaction(
        context, compaction, family->table_cache(), snapshots,
        [this] { return core_.versions->NewFileNumber(); },
        core_.scheduler.stop_flag(), &edit, &result);
  }
  if (status.ok()) {
    status = SyncOutputs();
    if (!status.ok()) RemoveOutputs(family, edit);
  }
  if (status.ok()) OpenOutputs(family, edit);
  const auto trace = std::make_shared<const CompactionTrace>(
      CompactionTrace{snapshots, compaction.bottommost});
  for (auto& [level, file] : *edit.mutable_new_files()) file.trace = trace;
  if (core_.events.HasListeners()) {
    AddInputProperties(compaction, core_.env, info);
    if (status.ok()) AddOutputProperties(edit, info);
  }
  const uint64_t upper_bytes =
      TotalFileSize(compaction.inputs[0]) - result.bytes_skipped[0];
  const uint64_t level_bytes =
      TotalFileSize(compaction.inputs[1]) - result.bytes_skipped[1];
  RecordTick(core_.stats, Ticker::kCompactReadBytes, upper_bytes + level_bytes);
  RecordTick(core_.stats, Ticker::kCompactWriteBytes, result.bytes_written);
  CountDrops(core_.stats, result.drops);
  core_.mutex()->Lock();
  stats.upper_bytes_read += upper_bytes;
  stats.level_bytes_read += level_bytes;
  stats.entries_read += result.entries_read;
  stats.entries_dropped += result.drops.Total();
  stats.bytes_written += result.bytes_written;
  AddTablesCreated(&core_.events, core_.directory.path(), edit, status);
  for (const uint64_t number : result.abandoned) {
    AddTableCreated(&core_.events, core_.directory.path(), number, 0, status);
  }
  uint64_t reclaimable_bytes = 0;
  for (const auto& [level, file] : edit.new_files()) {
    info->output_files.push_back(file.number);
    reclaimable_bytes += file.reclaimable_bytes;
  }
  info->output_bytes = result.bytes_written;
  if (status.ok()) {
    status = core_.versions->LogAndApply(family->versions(), &edit);
    if (status.IsShutdownInProgress()) {
      core_.mutex()->Unlock();
      RemoveOutputs(family, edit);
      core_.mutex()->Lock();
    }
  }
  if (status.ok() && compaction.for_space) {
    family->compactions().space_debt +=
        compaction.RewrittenInVain(result.bytes_written, reclaimable_bytes);
  }
  return status;
}

Status TableJobs::SyncOutputs() const {
  return core_.directory.directory()->Sync();
}

void TableJobs::OpenOutputs(ColumnFamily* family,
                            const VersionEdit& edit) const {
  for (const auto& [level, file] : edit.new_files()) {
    std::shared_ptr<Table> table;
    // The read that needs the table tries again and reports the error.
    family->table_cache()->Find(file.table_file(), &table).IgnoreError();
  }
}

void TableJobs::RemoveOutputs(ColumnFamily* family,
                              const VersionEdit& edit) const {
  for (const auto& [level, file] : edit.new_files()) {
    family->table_cache()->Evict(file.number);
    core_.env->RemoveFile(TableFileName(core_.directory.path(), file.number))
        .IgnoreError();
  }
}

Status TableJobs::DropLocked(ColumnFamily* family,
                             const std::vector<CoveredTable>& tables,
                             const char* why, bool* dropped) {
  VersionEdit edit;
  std::vector<FileMetaData*> removed_files;
  Version* const version = family->version();
  for (const CoveredTable& table : tables) {
    for (FileMetaData* file : version->files(table.level)) {
      if (file->number != table.number || file->being_compacted) continue;
      edit.RemoveFile(table.level, table.number);
      removed_files.push_back(file);
    }
  }
  if (removed_files.empty()) return Status::OK();
  // The mutex is released while the edit is written: no compaction may take
  // them as inputs then.
  const auto mark = [&removed_files](bool being_compacted) {
    for (FileMetaData* file : removed_files) {
      file->being_compacted = being_compacted;
    }
  };
  mark(true);
  version->RefLocked();
  Status status = core_.versions->LogAndApply(family->versions(), &edit);
  mark(false);
  core_.versions->UnrefVersionLocked(version);
  if (!status.ok()) return status;
  *dropped = true;
  Log(LogLevel::kInfo, &core_.log, "[%s] dropped %zu tables, %s",
      family->name().c_str(), edit.deleted_files().size(), why);
  return status;
}

}  // namespace varve
