// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>

#include "db/compaction_job.h"
#include "db/compaction_picker.h"
#include "db/db_impl.h"
#include "db/flush_job.h"
#include "env/file_names.h"
#include "monitoring/statistics.h"

namespace varve {

void DBImpl::MaybeScheduleLocked() {
  // relaxed: set under the mutex, or about to be seen by the job itself.
  if (read_only_ || shutting_down_.load(std::memory_order_relaxed) ||
      !background_error_.ok()) {
    return;
  }
  if (!immutable_.empty() && !flush_scheduled_) {
    flush_scheduled_ =
        ScheduleLocked(&DBImpl::BackgroundFlush, Env::Priority::kHigh);
  }
  if (!manual_compaction_ && compactions_scheduled_ < max_compactions_ &&
      CompactionDueLocked() &&
      ScheduleLocked(&DBImpl::BackgroundCompaction, Env::Priority::kLow)) {
    ++compactions_scheduled_;
  }
}

bool DBImpl::ScheduleLocked(void (DBImpl::*job)(), Env::Priority priority) {
  const Status status =
      env_->Schedule([this, job] { (this->*job)(); }, priority);
  if (!status.ok()) {
    SetBackgroundErrorLocked(status, "starting a background job");
    return false;
  }
  ++background_jobs_;
  return true;
}

bool DBImpl::CompactionDueLocked() const {
  if (options_.disable_auto_compactions) return false;
  for (int level = 0; level < kNumLevels - 1; ++level) {
    if (CompactionScore(options_, *versions_->current(), level) >= 1) {
      return true;
    }
  }
  return false;
}

void DBImpl::FinishBackgroundLocked() {
  MaybeScheduleLocked();
  --background_jobs_;
  background_done_.SignalAll();
}

void DBImpl::SetBackgroundErrorLocked(const Status& status, const char* where) {
  ++background_error_count_;
  Log(LogLevel::kError, &log_, "%s: %s", where, status.ToString().c_str());
  if (background_error_.ok()) {
    background_error_ = status.Annotate(
        std::string("the database is read-only since ") + where + " failed");
  }
  background_done_.SignalAll();
}

void DBImpl::BackgroundFlush() {
  MutexLock lock(&mutex_);
  // relaxed: see MaybeScheduleLocked.
  if (!shutting_down_.load(std::memory_order_relaxed) &&
      background_error_.ok() && !immutable_.empty()) {
    const size_t count = immutable_.size();
    const Status status = FlushImmutablesLocked();
    if (!status.ok()) SetBackgroundErrorLocked(status, "a flush");
    PurgeObsoleteLocked();
    if (status.ok()) flushed_count_ += count;
  }
  flush_scheduled_ = false;
  FinishBackgroundLocked();
}

Status DBImpl::FlushImmutablesLocked() {
  const std::vector<MemTable*> memtables = immutable_;
  const std::vector<SequenceNumber> snapshots = snapshots_.Sequences();
  const uint64_t number = versions_->NewFileNumber();
  const uint64_t start_us = env_->NowMicros();
  VersionEdit edit;
  mutex_.Unlock();
  Status status =
      FlushMemTables(output_context_, {memtables.begin(), memtables.end()},
                     snapshots, number, &edit);
  if (status.ok()) status = directory_->Sync();
  mutex_.Lock();
  if (!status.ok()) return status;

  const MemTable* const next = immutable_.size() > memtables.size()
                                   ? immutable_[memtables.size()]
                                   : memtable_;
  edit.SetLogNumber(next->wal_number());
  status = versions_->LogAndApply(&edit);
  if (!status.ok()) return status;

  CompactionStats& stats = compaction_stats_[0];
  for (const auto& [level, file] : edit.new_files()) {
    stats.bytes_written += file.file_size;
    RecordTick(options_.statistics.get(), Ticker::kFlushWriteBytes,
               file.file_size);
    Log(LogLevel::kInfo, &log_,
        "flushed %zu memtables to table %llu, %llu bytes", memtables.size(),
        static_cast<unsigned long long>(file.number),
        static_cast<unsigned long long>(file.file_size));
  }
  stats.micros += env_->NowMicros() - start_us;
  ++stats.count;
  immutable_.erase(
      immutable_.begin(),
      immutable_.begin() + static_cast<std::ptrdiff_t>(memtables.size()));
  InstallSuperVersionLocked();
  for (MemTable* memtable : memtables) UnrefMemTableLocked(memtable);
  while (wals_.front().number < versions_->log_number()) {
    obsolete_wals_.push_back(wals_.front().number);
    wals_.pop_front();
  }
  return status;
}

void DBImpl::BackgroundCompaction() {
  MutexLock lock(&mutex_);
  std::unique_ptr<Compaction> compaction;
  // relaxed: see MaybeScheduleLocked.
  if (!shutting_down_.load(std::memory_order_relaxed) &&
      background_error_.ok() && !manual_compaction_) {
    CompactionPickerContext context;
    context.options = &options_;
    context.version = versions_->current();
    context.cursors = compaction_cursors_;
    context.running = &running_compactions_;
    compaction = PickCompaction(context);
  }
  if (compaction == nullptr) {
    --compactions_scheduled_;
    --background_jobs_;
    background_done_.SignalAll();
    return;
  }
  const Status status = RunCompactionLocked(compaction.get());
  if (!status.ok() && !status.IsShutdownInProgress()) {
    SetBackgroundErrorLocked(status, "a compaction");
  }
  PurgeObsoleteLocked();
  --compactions_scheduled_;
  FinishBackgroundLocked();
}

Status DBImpl::RunCompactionLocked(Compaction* compaction) {
  compaction->version->RefLocked();
  compaction->MarkFilesLocked(true);
  running_compactions_.push_back(compaction);
  MaybeScheduleLocked();  // There may be work that does not meet this.

  const uint64_t start_us = env_->NowMicros();
  VersionEdit edit;
  Status status;
  CompactionStats& stats = compaction_stats_[compaction->output_level];
  if (compaction->trivial_move) {
    for (const FileMetaData* file : compaction->inputs[0]) {
      edit.RemoveFile(compaction->level, file->number);
      edit.AddFile(compaction->output_level, *file);
    }
    stats.moved_bytes += compaction->InputBytes();
  } else {
    CompactionJob job(
        output_context_, *compaction, table_cache_.get(),
        snapshots_.Sequences(), [this] { return versions_->NewFileNumber(); },
        &shutting_down_);
    mutex_.Unlock();
    status = job.Run(&edit);
    if (status.ok()) status = directory_->Sync();
    mutex_.Lock();
    stats.bytes_read += compaction->InputBytes();
    stats.bytes_written += job.bytes_written();
    RecordTick(options_.statistics.get(), Ticker::kCompactReadBytes,
               compaction->InputBytes());
    RecordTick(options_.statistics.get(), Ticker::kCompactWriteBytes,
               job.bytes_written());
  }
  if (status.ok()) status = versions_->LogAndApply(&edit);
  stats.micros += env_->NowMicros() - start_us;
  ++stats.count;
  Log(LogLevel::kInfo, &log_,
      "%s %zu+%zu tables, level %d to %d (%s), %llu bytes: %s",
      compaction->trivial_move ? "moved" : "compacted",
      compaction->inputs[0].size(), compaction->inputs[1].size(),
      compaction->level, compaction->output_level, compaction->reason,
      static_cast<unsigned long long>(compaction->InputBytes()),
      status.ToString().c_str());

  if (status.ok() && compaction->level > 0) {
    std::string& cursor = compaction_cursors_[compaction->level];
    cursor.clear();
    for (const FileMetaData* file : compaction->inputs[0]) {
      if (cursor.empty() || comparator_.Compare(file->largest, cursor) > 0) {
        cursor = file->largest;
      }
    }
  }
  compaction->MarkFilesLocked(false);
  running_compactions_.erase(std::find(running_compactions_.begin(),
                                       running_compactions_.end(), compaction));
  if (status.ok()) InstallSuperVersionLocked();
  versions_->UnrefVersionLocked(compaction->version);
  return status;
}

Status DBImpl::CompactRange(const CompactRangeOptions& options,
                            const Slice* begin, const Slice* end) {
  Status status = Flush(FlushOptions());
  if (!status.ok()) return status;
  const UserKeyRange range{begin, end};
  MutexLock lock(&mutex_);
  while (manual_compaction_) background_done_.Wait(&mutex_);
  manual_compaction_ = true;
  while (!running_compactions_.empty()) background_done_.Wait(&mutex_);

  int deepest = 0;
  for (int level = 1; level < kNumLevels; ++level) {
    if (versions_->current()->RangeOverlapsLevel(level, range)) {
      deepest = level;
    }
  }
  const int last = std::max(deepest, 1);
  for (int level = 0; level < last && status.ok(); ++level) {
    status = CompactLevelLocked(level, level + 1, range);
  }
  if (status.ok() && options.rewrite_bottommost_level) {
    status = CompactLevelLocked(last, last, range);
  }
  PurgeObsoleteLocked();
  while (purges_running_ > 0) background_done_.Wait(&mutex_);
  manual_compaction_ = false;
  MaybeScheduleLocked();
  background_done_.SignalAll();
  return status;
}

Status DBImpl::CompactLevelLocked(int level, int output_level,
                                  const UserKeyRange& range) {
  // relaxed: see MaybeScheduleLocked.
  if (shutting_down_.load(std::memory_order_relaxed)) {
    return Status::ShutdownInProgress();
  }
  if (!background_error_.ok()) return background_error_;
  CompactionPickerContext context;
  context.options = &options_;
  context.version = versions_->current();
  context.cursors = compaction_cursors_;
  context.running = &running_compactions_;
  const auto compaction =
      PickManualCompaction(context, level, output_level, range);
  if (compaction == nullptr) return Status::OK();
  // Moving a table would keep the deletions in it.
  compaction->trivial_move = false;
  const Status status = RunCompactionLocked(compaction.get());
  if (!status.ok() && !status.IsShutdownInProgress()) {
    SetBackgroundErrorLocked(status, "a compaction");
  }
  return status;
}

Status DBImpl::WaitForCompact() {
  MutexLock lock(&mutex_);
  if (read_only_) return Status::OK();
  MaybeScheduleLocked();
  while (background_error_.ok() &&
         (!immutable_.empty() || background_jobs_ > 0 || manual_compaction_ ||
          purges_running_ > 0 || CompactionDueLocked())) {
    background_done_.Wait(&mutex_);
  }
  return background_error_;
}

bool DBImpl::HasObsoleteLocked() {
  return !obsolete_memtables_.empty() || !obsolete_wals_.empty() ||
         !versions_->obsolete_files()->empty() ||
         !versions_->obsolete_manifests()->empty();
}

void DBImpl::PurgeObsoleteLocked() {
  if (read_only_ || !HasObsoleteLocked()) return;
  std::vector<FileMetaData*> files;
  std::vector<uint64_t> manifests;
  std::vector<uint64_t> wals;
  files.swap(*versions_->obsolete_files());
  manifests.swap(*versions_->obsolete_manifests());
  wals.swap(obsolete_wals_);
  std::vector<MemTable*> memtables;
  memtables.swap(obsolete_memtables_);
  ++purges_running_;
  mutex_.Unlock();
  for (MemTable* memtable : memtables) delete memtable;
  // A file that cannot be removed now is found at the next open.
  for (FileMetaData* file : files) {
    table_cache_->Evict(file->number);
    if (env_->RemoveFile(TableFileName(path_, file->number)).IsNotFound()) {
      env_->RemoveFile(LevelDbTableFileName(path_, file->number)).IgnoreError();
    }
    delete file;
  }
  for (const uint64_t number : manifests) {
    env_->RemoveFile(ManifestFileName(path_, number)).IgnoreError();
  }
  for (const uint64_t number : wals) {
    env_->RemoveFile(WalFileName(path_, number)).IgnoreError();
  }
  mutex_.Lock();
  --purges_running_;
  background_done_.SignalAll();
}

void DBImpl::FreeLaterLocked() {
  if (HasObsoleteLocked() && !purge_scheduled_ && !closed_ && !read_only_) {
    purge_scheduled_ =
        ScheduleLocked(&DBImpl::BackgroundPurge, Env::Priority::kHigh);
  }
}

void DBImpl::BackgroundPurge() {
  MutexLock lock(&mutex_);
  purge_scheduled_ = false;
  PurgeObsoleteLocked();
  --background_jobs_;
  background_done_.SignalAll();
}

}  // namespace varve
