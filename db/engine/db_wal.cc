// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The logs: what is written to them, when they are synced and replaced; and
// how an error is got over, which takes a new one.

#include <algorithm>
#include <vector>

#include "db/engine/db_impl.h"
#include "db/wal/wal_predecessor.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/measured_operation.h"

namespace varve {

namespace {

// A log's space is asked for in pieces, of this size at most.
constexpr uint64_t kMaxAllocateBytes = 4 << 20;
constexpr uint64_t kMappedAllocateBytes = 1 << 20;

// Each log keeps this space for deletions, in case the device is full.
constexpr uint64_t kLogReserveBytes = 16 << 10;

// And of a log that is synced often, it is filled with zeros in such pieces.
constexpr uint64_t kSyncAheadBytes = 256 << 10;

}  // namespace

MemTable* DBImpl::NewMemTable(uint64_t wal_number) const {
  return new MemTable(&comparator_, wal_number, options_.write_buffer_size,
                      options_.ablation.memtable);
}

Status DBImpl::LogGroup(const WriteQueue::Group& group, uint64_t count) {
  if (group.count == 1) {
    const WriteBatch& batch = *group.first->batch;
    Status status = wal_->AddRecord(batch.Data());
    if (!status.ok() && !wal_->failed() && OnlyDeletes(batch)) [[unlikely]] {
      status = wal_->AddRecord(batch.Data(), true);
    }
    return status;
  }
  // One record of all updates: the first batch's header with the count of
  // all, and then the bodies.
  constexpr size_t kHeader = BatchReader::kHeaderSize;
  char header[kHeader];
  WriteBatchInternal::EncodeHeader(
      WriteBatchInternal::Sequence(*group.first->batch),
      static_cast<uint32_t>(count), header);
  wal_parts_.assign(1, Slice(header, kHeader));
  group.ForEach([this](const WriteQueue::Writer* writer) {
    Slice body = writer->batch->Data();
    body.remove_prefix(kHeader);
    wal_parts_.push_back(body);
  });
  return wal_->AddRecord(wal_parts_);
}

Status DBImpl::SyncLogsLocked() {
  // A later log must not outlive an earlier one's tail: all that are not
  // safe yet are synced, oldest first.
  std::vector<std::shared_ptr<wal::Writer>> writers;
  for (const LiveWal& wal : wals_) {
    if (!wal.synced) writers.push_back(wal.writer);
  }
  const bool sync_directory = !directory_synced_;
  mutex_.Unlock();
  Status status;
  if (sync_directory) status = directory_->Sync();
  for (const auto& writer : writers) {
    if (!status.ok()) break;
    const HistogramTimer timer(stats_, HistogramType::kWalFileSync, env_);
    status = writer->Sync();
  }
  // What was synced is safe only where it can be found.
  if (status.ok()) status = VerifyPlace();
  RecordTick(stats_, Ticker::kWalFileSynced, writers.size());
  mutex_.Lock();
  if (!status.ok()) return status;
  directory_synced_ = true;
  for (LiveWal& wal : wals_) {
    if (wal.number < wals_.back().number &&
        wal.number <= writers.back()->number()) {
      wal.synced = true;
    }
  }
  return status;
}

Status DBImpl::SyncWAL() { return FlushWAL(true); }

Status DBImpl::FlushWAL(bool sync) {
  if (read_only_) return ReadOnlyError();
  Status status = CheckWritable();
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (IsClosedLocked()) return ClosedError();
  if (!background_error_.ok()) return background_error_;
  return FlushLogLocked(sync);
}

Status DBImpl::SyncLogAtClose() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  // Where something else has failed, the log still holds what was written.
  return wal_failed_ ? background_error_ : FlushLogLocked(true);
}

void DBImpl::NoteLogsEndLocked() {
  if (read_only_ || memtable_ == nullptr || !background_error_.ok()) return;
  const bool any = std::any_of(immutable_.begin(), immutable_.end(),
                               [](const MemTable* m) { return !m->empty(); });
  // The last update may then be in no log.
  if ((!any && memtable_->empty()) || HasUnloggedLocked()) return;
  VersionEdit edit;
  edit.SetLogsEnd(versions_->LastSequence());
  const Status status = versions_->LogAndApply(&edit);
  if (!status.ok()) {
    // No update depends on it: the logs are synced.
    Log(LogLevel::kWarn, &log_, "the end of the logs is not noted: %s",
        status.ToString().c_str());
  }
}

Status DBImpl::FlushLogLocked(bool sync) {
  wal::Writer* const wal = wal_;  // The caller leads, so it stays the one.
  mutex_.Unlock();
  Status status = wal->Flush();
  mutex_.Lock();
  if (status.ok() && sync) status = SyncLogsLocked();
  if (!status.ok()) {
    wal_failed_ = true;
    SetBackgroundErrorLocked(status, "writing the log");
    events_.DeliverLocked();
  }
  return status;
}

Status DBImpl::CreateWal(uint64_t number, LiveWal* wal) {
  wal->number = number;
  FileOptions file_options;
  file_options.bytes_per_sync = options_.wal_bytes_per_sync;
  file_options.use_mmap_writes = options_.use_mmap_writes;
  file_options.sync_ahead_bytes =
      std::min<uint64_t>(options_.write_buffer_size / 4, kSyncAheadBytes);
  std::unique_ptr<WritableFile> file;
  Status status = VerifyPlace();
  if (status.ok()) {
    status = env_->NewWritableFile(WalFileName(path_, wal->number),
                                   file_options, &file);
  }
  if (!status.ok()) return status;
  wal::WriterOptions writer_options;
  writer_options.manual_flush = options_.manual_wal_flush;
  // Where space is short, it is needed elsewhere. relaxed: see write_gate_.
  const bool is_short =
      (write_gate_.load(std::memory_order_relaxed) & kGateError) != 0;
  // What of a mapped log is left of a piece, recovery reads as zeros.
  const uint64_t piece =
      options_.use_mmap_writes ? kMappedAllocateBytes : kMaxAllocateBytes;
  writer_options.allocate_bytes =
      is_short ? kLogReserveBytes
               : std::min<uint64_t>(options_.write_buffer_size, piece);
  writer_options.reserve_bytes = kLogReserveBytes;
  wal->writer = std::make_shared<wal::Writer>(
      NewInstrumentedFile(std::move(file), env_), wal->number, writer_options);
  return status;
}

void DBImpl::AddWalLocked(LiveWal wal) {
  wal_ = wal.writer.get();
  log_begin_bytes_ = wal_->Size();
  wals_.push_back(std::move(wal));
  directory_synced_ = false;
}

Status DBImpl::SwitchMemTableLocked() {
  wal::Writer* const old = wal_;
  const bool old_is_usable = !wal_failed_;
  mutex_.Unlock();
  // Nothing of the new log may reach the system before what is left of the
  // old one.
  Status status;
  if (old_is_usable) status = old->Flush();
  bool flushed = status.ok();
  LiveWal wal;
  if (status.ok()) status = CreateWal(versions_->NewFileNumber(), &wal);
  const bool created = status.ok();
  // What is in the old log may be lost with its directory.
  if (!created && flushed) flushed = VerifyPlace().ok();
  if (status.ok()) {
    WalPredecessor predecessor;
    predecessor.number = old->number();
    predecessor.size = old->Size();
    WriteBatch note;
    predecessor.EncodeTo(&note);
    WriteBatchInternal::SetSequence(&note, versions_->LastSequence() + 1);
    status = wal.writer->AddRecord(note.Data(), true);
  }
  if (created && !status.ok()) {
    // It would stand in the way of the next one.
    wal.writer.reset();
    env_->RemoveFile(WalFileName(path_, wal.number)).IgnoreError();
  }
  MemTable* const memtable = status.ok() ? NewMemTable(wal.number) : nullptr;
  mutex_.Lock();
  if (!status.ok()) {
    // Making a file may be tried again.
    if (!flushed) wal_failed_ = true;
    if (!flushed || created) {
      SetBackgroundErrorLocked(status, "writing the log");
      events_.DeliverLocked();
    }
    return status;
  }
  AddWalLocked(std::move(wal));
  wal_failed_ = false;
  log_is_full_ = false;
  immutable_.push_back(memtable_);
  ++switched_count_;
  full_bytes_ = memtable_bytes_;
  memtable_bytes_ = 0;
  paced_bytes_ = 0;
  pace_at_bytes_ = 0;
  if (!flush_scheduled_) {
    flush_pace_.Begin(memtable_->EntryCount(), MonotonicMicros(env_));
  }
  memtable_ = memtable;
  InstallSuperVersionLocked();
  MaybeScheduleLocked();
  events_.DeliverLocked();
  return status;
}

Status DBImpl::Flush(const FlushOptions& options) {
  if (read_only_) return ReadOnlyError();
  Status resumed = ResumeIfFull();
  if (!resumed.ok()) return resumed;
  uint64_t target = 0;
  for (bool switched = false; !switched;) {
    WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (!background_error_.ok()) return background_error_;
    // A log that no memtable accounts for is freed by a switch too.
    switched = memtable_->empty() && wal_->Size() == log_begin_bytes_;
    // relaxed: what would write it is not started any more.
    if (!switched && shutting_down_.load(std::memory_order_relaxed)) {
      return Status::ShutdownInProgress();
    }
    if (!switched && SlotFreeLocked()) {
      Status status = SwitchMemTableLocked();
      if (!status.ok()) return status;
      switched = true;
    }
    target = switched_count_;
    if (!switched) {
      // Others may write meanwhile.
      leader.Leave();
      background_done_.Wait(&mutex_);
    }
  }
  if (!options.wait) return Status::OK();
  MutexLock lock(&mutex_);
  return AwaitFlushLocked(target);
}

Status DBImpl::FlushUnlogged() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (!HasUnloggedLocked()) return Status::OK();
  return background_error_.ok() ? FlushAsLeaderLocked() : background_error_;
}

Status DBImpl::AwaitFlushLocked(uint64_t target) {
  while (flushed_count_ < target && background_error_.ok()) {
    // relaxed: what would end the wait is not started any more.
    if (!flush_scheduled_ && shutting_down_.load(std::memory_order_relaxed)) {
      return Status::ShutdownInProgress();
    }
    background_done_.Wait(&mutex_);
  }
  return flushed_count_ < target ? background_error_ : Status::OK();
}

Status DBImpl::FlushAsLeaderLocked() {
  if (!memtable_->empty()) {
    Status status = AwaitFlushLocked(switched_count_);
    if (status.ok()) status = SwitchMemTableLocked();
    if (!status.ok()) return status;
  }
  return AwaitFlushLocked(switched_count_);
}

Status DBImpl::Resume() {
  if (read_only_) return ReadOnlyError();
  // That of a sync which nobody relied on; whoever comes next does.
  if (!directory_->failure().ok()) {
    MutexLock lock(&mutex_);
    // Asked again: another Resume may just have forgiven it.
    const Status failure = directory_->failure();
    if (!failure.ok() && background_error_.ok()) {
      SetBackgroundErrorLocked(failure, "a sync of the directory");
    }
    events_.DeliverLocked();
  }
  {
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    if (inheritance_.count > 0) return status;
  }
  for (;;) {
    {
      // Without the lead: writes are refused at once meanwhile. Close takes a
      // flush that is queued with it, which then never comes to its end.
      MutexLock lock(&mutex_);
      while (JobsRunLocked() && !background_error_.ok() && !IsEndingLocked()) {
        background_done_.Wait(&mutex_);
      }
    }
    // Nobody writes before it is done, the error being there; the lead is for
    // the log.
    const WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (background_error_.ok()) {
      ResumeCompactionsLocked();
      return Status::OK();
    }
    if (IsEndingLocked()) return Status::ShutdownInProgress();
    // Unless another Resume came first, and another error since.
    if (!JobsRunLocked()) return ResumeAsLeaderLocked();
  }
}

Status DBImpl::ResumeAsLeaderLocked() {
  // Whoever met a failed sync of the directory has removed what it had made,
  // but for the log.
  if (directory_->Forgive() && !directory_synced_) {
    wal_failed_ = true;
    // If this fails, Close must not take the next sync for theirs.
    for (const LiveWal& wal : wals_) wal.writer->Fail(background_error_);
  }
  // Until its updates are in tables, and the MANIFEST says so, the log's end
  // may be gone with a power cut, and the logs behind it would not count.
  Status status;
  if (background_error_.IsNoSpace()) ReleaseLogSpaceLocked();
  if (wal_failed_ || !memtable_->empty()) status = SwitchMemTableLocked();
  size_t count = 0;
  if (status.ok()) status = FlushImmutablesLocked(&count);
  PurgeObsoleteLocked();  // Which may give space back, after a failure too.
  if (status.ok()) {
    flushed_count_ += count;
    // Shows that the new log can be synced; those before it are not needed.
    status = SyncLogsLocked();
    wal_failed_ = !status.ok();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &log_, "still read-only: %s",
        status.ToString().c_str());
    return status;
  }
  background_error_ = Status::OK();
  Log(LogLevel::kInfo, &log_, "writable again");
  UpdateGateLocked();
  ResumeCompactionsLocked();
  MaybeScheduleLocked();
  background_done_.SignalAll();
  events_.DeliverLocked();
  return status;
}

bool DBImpl::JobsRunLocked() const {
  return flush_scheduled_ || !running_compactions_.empty();
}

bool DBImpl::IsEndingLocked() const {
  // relaxed: stored under the mutex.
  return closed_ || shutting_down_.load(std::memory_order_relaxed);
}

}  // namespace varve
