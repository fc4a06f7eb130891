// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/db_impl.h"

#include "db/wal_predecessor.h"
#include "db/write_batch_internal.h"
#include "env/file_names.h"
#include "monitoring/statistics.h"

namespace varve {

namespace {

Status ReadOnlyError() {
  return Status::NotSupported("the database was opened for reading only");
}

}  // namespace

MemTable* DBImpl::NewMemTable(uint64_t wal_number) const {
  return new MemTable(&comparator_, wal_number, options_.write_buffer_size,
                      options_.ablation.memtable);
}

Status DBImpl::Put(const WriteOptions& options, const Slice& key,
                   const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DBImpl::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

Status DBImpl::CheckBatch(const WriteOptions& options,
                          const WriteBatch* batch) const {
  if (read_only_) return ReadOnlyError();
  if (batch == nullptr) return Status::InvalidArgument("batch is null");
  if (options.sync && options.disable_wal) {
    return Status::InvalidArgument("sync and disable_wal are both set");
  }
  if (WriteBatchInternal::TooLong(*batch)) {
    return Status::InvalidArgument("a key or value is longer than 4 GiB");
  }
  if (!WriteBatchInternal::Unchecked(*batch)) return Status::OK();
  BatchReader reader;
  Status status = reader.Init(batch->Data());
  BatchRecord record;
  bool done = false;
  while (status.ok() && !done) status = reader.Next(&record, &done);
  return status.ok() ? status
                     : Status::InvalidArgument("batch", status.ToString());
}

Status DBImpl::Write(const WriteOptions& options, WriteBatch* batch) {
  Status status = CheckBatch(options, batch);
  if (!status.ok()) return status;
  WriteQueue::Writer writer;
  writer.batch = batch;
  writer.options = options;

  MutexLock lock(&mutex_);
  if (!write_queue_.Join(&writer, &mutex_)) {
    RecordTick(options_.statistics.get(), Ticker::kWriteDoneByOther);
    return writer.status;
  }
  RecordTick(options_.statistics.get(), Ticker::kWriteDoneBySelf);
  std::vector<WriteQueue::Writer*> group{&writer};
  status = MakeRoomLocked(options, batch->ApproximateSize(), false);
  if (status.ok()) {
    group = write_queue_.Group(&writer);
    status = WriteGroupLocked(group);
  }
  write_queue_.Leave(group, status);
  return status;
}

Status DBImpl::WriteGroupLocked(const std::vector<WriteQueue::Writer*>& group) {
  const WriteOptions& options = group.front()->options;
  const std::shared_ptr<wal::Writer> wal = wals_.back().writer;
  MemTable* const memtable = memtable_;
  if (options.disable_wal) has_unlogged_data_ = true;
  // Only the leader, which this thread is, changes it.
  const SequenceNumber first = versions_->LastSequence() + 1;
  mutex_.Unlock();

  Status status;
  SequenceNumber next = first;
  const WriteBatch* record = group.front()->batch;
  if (group.size() > 1) {
    group_batch_.Clear();
    for (const WriteQueue::Writer* writer : group) {
      group_batch_.Append(*writer->batch);
    }
    record = &group_batch_;
    WriteBatchInternal::SetSequence(&group_batch_, first);
  }
  for (WriteQueue::Writer* writer : group) {
    WriteBatchInternal::SetSequence(writer->batch, next);
    next += writer->batch->Count();
  }
  if (!options.disable_wal) {
    status = wal->AddRecord(record->Data());
    RecordTick(options_.statistics.get(), Ticker::kWalFileBytes,
               record->ApproximateSize());
  }
  if (status.ok() && options.sync) {
    mutex_.Lock();
    status = SyncLogsLocked();
    mutex_.Unlock();
  }
  for (const WriteQueue::Writer* writer : group) {
    if (status.ok()) status = InsertBatchInto(writer->batch->Data(), memtable);
  }
  if (status.ok()) versions_->SetLastSequence(next - 1);
  RecordTick(options_.statistics.get(), Ticker::kNumberKeysWritten,
             next - first);
  RecordTick(options_.statistics.get(), Ticker::kBytesWritten,
             record->ApproximateSize());

  mutex_.Lock();
  user_bytes_ += record->ApproximateSize();
  if (!options.disable_wal) logged_bytes_ += record->ApproximateSize();
  // The log's end is unknown now: nothing may be written behind it.
  if (!status.ok()) SetBackgroundErrorLocked(status, "writing the log");
  return status;
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
    if (status.ok()) status = writer->Sync();
  }
  RecordTick(options_.statistics.get(), Ticker::kWalFileSynced, writers.size());
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

Status DBImpl::SyncWAL() {
  if (read_only_) return ReadOnlyError();
  WriteQueue::Writer writer;
  MutexLock lock(&mutex_);
  write_queue_.Join(&writer, &mutex_);
  Status status = background_error_;
  if (status.ok()) {
    status = SyncLogsLocked();
    if (!status.ok()) SetBackgroundErrorLocked(status, "syncing the log");
  }
  write_queue_.Leave({&writer}, status);
  return status;
}

Status DBImpl::MakeRoomLocked(const WriteOptions& options, uint64_t bytes,
                              bool force_switch) {
  bool delayed = false;
  for (;;) {
    if (!background_error_.ok()) return background_error_;
    if (stall_.pressure == WritePressure::kStop && !force_switch) {
      Status status = WaitStoppedLocked(options, stall_.reason);
      if (!status.ok()) return status;
      continue;
    }
    if (!delayed && !force_switch && stall_.pressure == WritePressure::kSlow) {
      delayed = true;
      Status status = DelayLocked(options, bytes);
      if (!status.ok()) return status;
      continue;
    }
    if (memtable_->empty() ||
        (!force_switch &&
         memtable_->ApproximateMemoryUsage() <= options_.write_buffer_size)) {
      return Status::OK();
    }
    Status status;
    if (static_cast<int>(immutable_.size()) + 1 >=
        options_.max_write_buffer_number) {
      status = WaitStoppedLocked(options, "memtables waiting for flush");
    } else {
      status = SwitchMemTableLocked();
      force_switch = false;
    }
    if (!status.ok()) return status;
  }
}

Status DBImpl::WaitStoppedLocked(const WriteOptions& options,
                                 const char* reason) {
  if (options.no_slowdown) {
    return Status::Incomplete("writes are stopped", reason);
  }
  // relaxed: what would end the wait is not started any more.
  if (shutting_down_.load(std::memory_order_relaxed)) {
    return Status::ShutdownInProgress();
  }
  Log(LogLevel::kWarn, &log_, "writes wait: %s", reason);
  const uint64_t start_us = env_->NowMicros();
  ++stall_count_;
  background_done_.Wait(&mutex_);
  const uint64_t waited_us = env_->NowMicros() - start_us;
  stall_micros_ += waited_us;
  RecordTick(options_.statistics.get(), Ticker::kStallMicros, waited_us);
  return Status::OK();
}

Status DBImpl::DelayLocked(const WriteOptions& options, uint64_t bytes) {
  const uint64_t delay_us = write_delay_.Charge(bytes, env_->NowMicros());
  if (delay_us == 0) return Status::OK();
  if (options.no_slowdown) {
    return Status::Incomplete("writes are slowed down", stall_.reason);
  }
  ++stall_count_;
  stall_micros_ += delay_us;
  RecordTick(options_.statistics.get(), Ticker::kStallMicros, delay_us);
  mutex_.Unlock();
  env_->SleepForMicroseconds(delay_us);
  mutex_.Lock();
  return Status::OK();
}

Status DBImpl::NewWalLocked(uint64_t* number) {
  *number = versions_->NewFileNumber();
  std::unique_ptr<WritableFile> file;
  Status status =
      env_->NewWritableFile(WalFileName(path_, *number), FileOptions(), &file);
  if (!status.ok()) return status;
  LiveWal wal;
  wal.number = *number;
  wal.writer = std::make_shared<wal::Writer>(std::move(file), *number);
  wals_.push_back(std::move(wal));
  directory_synced_ = false;
  return status;
}

Status DBImpl::SwitchMemTableLocked() {
  WalPredecessor predecessor;
  predecessor.number = wals_.back().number;
  predecessor.size = wals_.back().writer->Size();
  uint64_t wal_number;
  Status status = NewWalLocked(&wal_number);
  if (!status.ok()) return status;
  WriteBatch note;
  predecessor.EncodeTo(&note);
  WriteBatchInternal::SetSequence(&note, versions_->LastSequence() + 1);
  status = wals_.back().writer->AddRecord(note.Data());
  if (!status.ok()) {
    SetBackgroundErrorLocked(status, "writing the log");
    return status;
  }
  immutable_.push_back(memtable_);
  ++switched_count_;
  memtable_ = NewMemTable(wal_number);
  InstallSuperVersionLocked();
  MaybeScheduleLocked();
  return status;
}

Status DBImpl::Flush(const FlushOptions& options) {
  if (read_only_) return ReadOnlyError();
  WriteQueue::Writer writer;
  MutexLock lock(&mutex_);
  write_queue_.Join(&writer, &mutex_);
  const Status status = MakeRoomLocked(WriteOptions(), 0, true);
  const uint64_t target = switched_count_;
  write_queue_.Leave({&writer}, status);
  if (!status.ok() || !options.wait) return status;
  while (flushed_count_ < target && background_error_.ok()) {
    // relaxed: see WaitStoppedLocked.
    if (!flush_scheduled_ && shutting_down_.load(std::memory_order_relaxed)) {
      return Status::ShutdownInProgress();
    }
    background_done_.Wait(&mutex_);
  }
  return background_error_;
}

}  // namespace varve
