// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>

#include "db/compaction/compaction_picker.h"
#include "db/compaction/flush_job.h"
#include "db/engine/db_impl.h"
#include "db/engine/job_events.h"
#include "db/engine/usual_errors.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"

namespace varve {

void DBImpl::MaybeScheduleLocked() {
  if (read_only_ || scheduler_.is_stopping() || !background_error_.ok() ||
      inheritance_.is_inherited()) {
    return;
  }
  if (!family_.immutable().empty() &&
      scheduler_.JobsLocked(JobKind::kFlush) == 0) {
    ScheduleLocked(JobKind::kFlush, &DBImpl::BackgroundFlush);
  }
  if (!family_.compactions().is_exclusive && family_.compactions().error.ok() &&
      scheduler_.JobsLocked(JobKind::kCompaction) < MaxCompactions(options_) &&
      CompactionDueLocked()) {
    ScheduleLocked(JobKind::kCompaction, &DBImpl::BackgroundCompaction);
  }
}

void DBImpl::ScheduleLocked(JobKind kind, void (DBImpl::*job)()) {
  const Status status =
      scheduler_.ScheduleLocked(kind, [this, job] { (this->*job)(); });
  if (!status.ok()) {
    SetBackgroundErrorLocked(status, "starting a background job");
  }
}

void DBImpl::SetBackgroundErrorLocked(const Status& status, const char* where) {
  ++background_error_count_;
  RecordTick(stats_, Ticker::kBackgroundErrors);
  if (status.IsIOError()) RecordTick(stats_, Ticker::kBackgroundIoErrors);
  Log(LogLevel::kError, &log_, "%s: %s", where, status.ToString().c_str());
  if (background_error_.ok()) {
    background_error_ = status.Annotate(
        std::string("the database is read-only since ") + where + " failed");
    UpdateGateLocked();
    const std::string what = where;
    events_.Add([what, status](EventListener* listener) {
      listener->OnBackgroundError(what, status);
    });
    if (MayPass(status)) ResumeLaterLocked();
  }
  scheduler_.SignalLocked();
}

void DBImpl::BackgroundFlush() {
  const TimedMutexLock lock(&mutex_, stats_, env_);
  if (!scheduler_.is_stopping() && background_error_.ok() &&
      !family_.immutable().empty()) {
    size_t count = 0;
    const Status status = FlushImmutablesLocked(&count);
    if (!status.ok()) SetBackgroundErrorLocked(status, "a flush");
    PurgeObsoleteLocked();
    if (status.ok()) family_.CountFlushedLocked(count);
    events_.DeliverLocked();
  }
  scheduler_.FinishLocked(JobKind::kFlush);
  MaybeScheduleLocked();
}

Status DBImpl::FlushImmutablesLocked(size_t* count) {
  FlushJobInfo info;
  info.db_path = place_.path();
  info.memtables = family_.immutable().size();
  events_.Add(
      [info](EventListener* listener) { listener->OnFlushBegin(info); });
  events_.DeliverLocked();
  const Stopwatch flushing(env_);
  {
    const HistogramTimer timer(stats_, HistogramType::kFlushTime, env_);
    info.status = WriteImmutablesLocked(&info);
  }
  info.micros = flushing.ElapsedMicros();
  *count = info.memtables;
  events_.Add(
      [info](EventListener* listener) { listener->OnFlushCompleted(info); });
  events_.DeliverLocked();
  return info.status;
}

std::vector<SequenceNumber> DBImpl::ScanSnapshots() {
  const HistogramTimer timer(stats_, HistogramType::kSnapshotScan, env_);
  return family_.snapshots()->Scan();
}

Status DBImpl::WriteImmutablesLocked(FlushJobInfo* info) {
  const RequestSpan span("flush");
  const std::vector<MemTable*> memtables = family_.immutable();
  const uint64_t number = versions_->NewFileNumber();
  const Stopwatch flushing(env_);
  VersionEdit edit;
  uint64_t entries = 0;
  for (const MemTable* memtable : memtables) entries += memtable->EntryCount();
  family_.flush_pace()->Begin(entries, flushing.start_us());
  CompactionIterator::Drops drops;
  info->memtables = memtables.size();
  Version* const version = versions_->current();
  version->RefLocked();
  mutex_.Unlock();
  LocalSpan step("write table");
  Status status = place_.Verify();
  if (status.ok() && !memtables.empty()) {
    status =
        FlushMemTables(output_context_, *version, memtables, ScanSnapshots(),
                       number, &edit, &drops, family_.flush_pace());
  }
  CountDrops(stats_, drops);
  step.Next("directory sync");
  if (status.ok()) status = SyncOutputs(edit);
  step.Next("install");
  mutex_.Lock();
  versions_->UnrefVersionLocked(version);
  if (status.ok()) {
    AddTablesCreated(&events_, place_.path(), edit, status);
  } else {
    AddTableCreated(&events_, place_.path(), number, 0, status);
  }
  if (!status.ok()) return status;

  const auto& immutable = family_.immutable();
  const MemTable* const next = immutable.size() > memtables.size()
                                   ? immutable[memtables.size()]
                                   : family_.memtable();
  edit.SetLogNumber(next->wal_number());
  status = versions_->LogAndApply(&edit);
  if (!status.ok()) return status;

  for (const auto& [level, file] : edit.new_files()) {
    family_.compactions().space_debt -=
        std::min(family_.compactions().space_debt, file.file_size);
    info->file_number = file.number;
    info->file_bytes = file.file_size;
    Log(LogLevel::kInfo, &log_,
        "flushed %zu memtables to table %llu, %llu bytes", memtables.size(),
        static_cast<unsigned long long>(file.number),
        static_cast<unsigned long long>(file.file_size));
  }
  family_.flush_pace()->End(MonotonicMicros(env_));
  family_.CountFlushesLocked(edit, 1, flushing.ElapsedMicros());
  const std::vector<MemTable*> flushed =
      family_.RemoveFlushedLocked(memtables.size());
  InstallSuperVersionLocked();
  family_.RetireLocked(flushed);
  wals_.ReleaseLocked(versions_->log_number());
  return status;
}

Status DBImpl::SyncOutputs(const VersionEdit& edit) {
  Status status = place_.directory()->Sync();
  if (status.ok()) return status;
  for (const auto& [level, file] : edit.new_files()) {
    table_cache_->Evict(file.number);
    env_->RemoveFile(TableFileName(place_.path(), file.number)).IgnoreError();
  }
  return status;
}

void DBImpl::PurgeObsoleteLocked() {
  if (read_only_ || inheritance_.is_inherited() || !obsolete_.AnyLocked()) {
    return;
  }
  obsolete_.RemoveLocked();
}

void DBImpl::FreeLaterLocked() {
  if (obsolete_.AnyLocked() && scheduler_.QueuedLocked(JobKind::kPurge) == 0 &&
      !closed_ && !read_only_ && !inheritance_.is_inherited()) {
    ScheduleLocked(JobKind::kPurge, &DBImpl::BackgroundPurge);
  }
}

void DBImpl::BackgroundPurge() {
  MutexLock lock(&mutex_);
  PurgeObsoleteLocked();
  scheduler_.FinishLocked(JobKind::kPurge);
}

}  // namespace varve
