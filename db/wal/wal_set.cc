// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_set.h"

#include <algorithm>

#include "db/wal/wal_predecessor.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/measured_operation.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// A log's space is allocated in pieces of at most this size.
constexpr uint64_t kMaxAllocateBytes = 4 << 20;
// The same for small records of a log that may be mapped. So much is reserved
// without a wait for the device (env/posix_mapped_file.cc).
constexpr uint64_t kSmallAllocateBytes = 64 << 10;

// Each log keeps this space for deletions, in case the device is full.
constexpr uint64_t kLogReserveBytes = 16 << 10;

// A log that is synced often is filled with zeros ahead, in pieces of this
// size.
constexpr uint64_t kSyncAheadBytes = 256 << 10;

// A leader waits for more writers for at most half of this.
constexpr uint64_t kMaxGroupCommitDelayUs = 4000;

// Adds the first record of a log, which names the log before it.
Status AddPredecessor(wal::Writer* log, uint64_t number, uint64_t size,
                      SequenceNumber sequence) {
  WalPredecessor predecessor;
  predecessor.number = number;
  predecessor.size = size;
  predecessor.log = log->number();
  WriteBatch note;
  predecessor.EncodeTo(&note);
  WriteBatchInternal::SetSequence(&note, sequence);
  return log->AddRecord(note.Data(), true);
}

// A log that can only be made durable.
class FinishedLog final : public WritableFile {
 public:
  FinishedLog(Env* env, std::string path, uint64_t size)
      : env_(env), path_(std::move(path)), size_(size) {}

  Status Append(const Slice& /*data*/) override {
    return Status::NotSupported(path_, "another process has written it");
  }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return env_->SyncFile(path_); }
  Status Close() override { return Status::OK(); }
  uint64_t Size() const override { return size_; }

 private:
  Env* const env_;
  const std::string path_;
  const uint64_t size_;
};

}  // namespace

Status WalSet::Append(const WriteQueue::Group& group, uint64_t count) {
  if (group.count == 1) {
    const WriteBatch& batch = *group.first->batch;
    Status status = newest_->AddRecord(batch.Data());
    if (!status.ok() && !newest_->failed() &&
        WriteBatchInternal::OnlyDeletes(batch)) [[unlikely]] {
      status = newest_->AddRecord(batch.Data(), true);
    }
    return status;
  }
  // One record contains all updates: the first batch's header with the total
  // count, and then the bodies.
  constexpr size_t kHeader = BatchReader::kHeaderSize;
  char header[kHeader];
  WriteBatchInternal::EncodeHeader(
      WriteBatchInternal::Sequence(*group.first->batch),
      static_cast<uint32_t>(count), header);
  parts_.assign(1, Slice(header, kHeader));
  group.ForEach([this](const WriteQueue::Writer* writer) {
    if (writer->is_refused) return;
    Slice body = writer->batch->Data();
    body.remove_prefix(kHeader);
    parts_.push_back(body);
  });
  return newest_->AddRecord(parts_);
}

Status WalSet::Create(uint64_t number, bool space_is_short, Wal* wal) {
  wal->number = number;
  wal->created_us = MonotonicMicros(db_directory_->env());
  FileOptions file_options;
  file_options.bytes_per_sync = options_->wal_bytes_per_sync;
  if (!options_->manual_wal_flush) {
    file_options.write_method = options_->wal_write;
  }
  file_options.sync_ahead_bytes =
      std::min<uint64_t>(options_->write_buffer_size / 4, kSyncAheadBytes);
  std::unique_ptr<WritableFile> file;
  Status status = db_directory_->Verify();
  if (status.ok()) {
    status = db_directory_->env()->NewWritableFile(
        WalFileName(db_directory_->path(), wal->number), file_options, &file);
  }
  if (!status.ok()) return status;
  wal::WriterOptions writer_options;
  writer_options.manual_flush = options_->manual_wal_flush;
  writer_options.large_allocate_bytes =
      // Where it is short, it is needed elsewhere.
      space_is_short
          ? kLogReserveBytes
          : std::min<uint64_t>(options_->write_buffer_size, kMaxAllocateBytes);
  writer_options.allocate_bytes =
      file_options.write_method == WriteMethod::kCall
          ? writer_options.large_allocate_bytes
          : std::min(writer_options.large_allocate_bytes, kSmallAllocateBytes);
  writer_options.reserve_bytes = kLogReserveBytes;
  wal->writer = std::make_shared<wal::Writer>(
      NewInstrumentedFile(std::move(file), db_directory_->env(), waits_),
      wal->number, writer_options);
  return status;
}

WalSet::Next WalSet::CreateNext(uint64_t number, SequenceNumber sequence,
                                bool space_is_short) {
  Next next;
  // The new log must not reach the operating system before the rest of the old
  // one.
  if (!has_failed_) next.status = newest_->Flush();
  next.newest_is_whole = next.status.ok();
  if (next.status.ok()) {
    next.status = Create(number, space_is_short, &next.wal);
  }
  next.was_created = next.status.ok();
  if (!next.was_created) {
    // The old log's updates may be lost with its directory.
    if (next.newest_is_whole)
      next.newest_is_whole = db_directory_->Verify().ok();
    return next;
  }
  next.status = AddPredecessor(next.wal.writer.get(), newest_->number(),
                               newest_->Size(), sequence);
  if (next.status.ok()) {
    next.wal.begin_bytes = next.wal.writer->Size();
  } else if (!RemoveNext(&next)) {
    next.newest_is_whole = false;
  }
  return next;
}

void WalSet::AddFirst(Next* next, const Slice& record, bool sync) {
  if (record.empty()) return;
  wal::Writer* const writer = next->wal.writer.get();
  next->status = writer->AddRecord(record);
  const bool is_refused = !next->status.ok() && !writer->failed();
  if (next->status.ok() && sync) {
    const HistogramTimer timer(stats_, HistogramType::kWalFileSync,
                               db_directory_->env());
    RecordTick(stats_, Ticker::kWalFileSynced);
    next->status = db_directory_->directory()->Sync();
    if (next->status.ok()) next->status = writer->Sync();
    if (next->status.ok()) next->status = db_directory_->Verify();
  }
  if (next->status.ok()) return;
  const bool is_removed = RemoveNext(next);
  next->newest_is_whole = is_refused && is_removed;
}

// Returns whether it is removed for good. If it remains, it says where the log
// before it ends, and the one after it does not continue that log.
bool WalSet::RemoveNext(Next* next) {
  next->wal.writer.reset();
  Status status = db_directory_->env()->RemoveFile(
      WalFileName(db_directory_->path(), next->wal.number));
  if (status.ok()) status = db_directory_->directory()->Sync();
  return status.ok();
}

Status WalSet::AppendPredecessor(uint64_t number, uint64_t size,
                                 SequenceNumber sequence) {
  return AddPredecessor(newest_, number, size, sequence);
}

void WalSet::AddFinishedLocked(uint64_t number, uint64_t size) {
  Wal wal;
  wal.number = number;
  wal.created_us = MonotonicMicros(db_directory_->env());
  wal.bytes = size;
  wal::WriterOptions options;
  options.finished_bytes = size;
  wal.writer = std::make_shared<wal::Writer>(
      std::make_unique<FinishedLog>(db_directory_->env(),
                                    WalFileName(db_directory_->path(), number),
                                    size),
      number, options);
  wals_.push_back(std::move(wal));
}

void WalSet::AddLocked(Wal wal) {
  if (newest_ != nullptr) wals_.back().bytes = newest_->Size();
  wal.writer->SetLastUpdate(last_logged());
  newest_ = wal.writer.get();
  begin_bytes_ = wal.begin_bytes;
  wals_.push_back(std::move(wal));
  directory_synced_ = false;
  has_failed_ = false;
}

Status WalSet::SyncLocked() {
  // A later log must not outlive an earlier one's tail. So all logs that are
  // not durable are synced, oldest first.
  std::vector<std::shared_ptr<wal::Writer>> writers;
  for (const Wal& wal : wals_) {
    if (!wal.synced) writers.push_back(wal.writer);
  }
  const bool sync_directory = !directory_synced_;
  mutex()->Unlock();
  Status status;
  if (sync_directory) status = db_directory_->directory()->Sync();
  {
    const MutexLock sync_lock(&sync_mutex_);
    for (const auto& writer : writers) {
      if (!status.ok()) break;
      const HistogramTimer timer(stats_, HistogramType::kWalFileSync,
                                 db_directory_->env());
      status = writer->Sync();
    }
  }
  // Synced updates are durable only if their log can be found.
  if (status.ok()) status = db_directory_->Verify();
  RecordTick(stats_, Ticker::kWalFileSynced, writers.size());
  mutex()->Lock();
  if (!status.ok()) return status;
  directory_synced_ = true;
  for (Wal& wal : wals_) {
    if (wal.number < wals_.back().number &&
        wal.number <= writers.back()->number()) {
      wal.synced = true;
    }
  }
  return status;
}

Status WalSet::SyncNewestLocked() {
  mutex()->Unlock();
  Status status = db_directory_->directory()->Sync();
  if (status.ok()) {
    const MutexLock sync_lock(&sync_mutex_);
    status = newest_->Sync();
  }
  if (status.ok()) status = db_directory_->Verify();
  mutex()->Lock();
  if (status.ok()) directory_synced_ = true;
  return status;
}

Status WalSet::SyncBeforeLocked(uint64_t number) {
  std::vector<std::shared_ptr<wal::Writer>> writers;
  for (const Wal& wal : wals_) {
    if (wal.number < number && !wal.synced) writers.push_back(wal.writer);
  }
  if (writers.empty()) return Status::OK();
  mutex()->Unlock();
  sync_mutex_.Lock();
  Status status;
  for (const auto& writer : writers) {
    const HistogramTimer timer(stats_, HistogramType::kWalFileSync,
                               db_directory_->env());
    status = writer->Sync();
    RecordTick(stats_, Ticker::kWalFileSynced);
    if (!status.ok()) break;
  }
  sync_mutex_.Unlock();
  mutex()->Lock();
  if (!status.ok()) return status;
  for (Wal& wal : wals_) {
    if (wal.number < number) wal.synced = true;
  }
  return status;
}

Status WalSet::SyncForGroupLocked() {
  const Stopwatch syncing(db_directory_->env());
  Status status = SyncLocked();
  const uint64_t sync_us = syncing.ElapsedMicros();
  VARVE_PROBE(wal_sync, sync_us, status.ok());
  group_sync_us_ = std::min(sync_us, kMaxGroupCommitDelayUs);
  return status;
}

bool WalSet::AreGoodLocked() const {
  return !has_failed_ &&
         std::none_of(wals_.begin(), wals_.end(),
                      [](const Wal& wal) { return wal.writer->failed(); });
}

void WalSet::ClearDirectoryErrorLocked(const Status& error) {
  if (!db_directory_->directory()->ClearError() || directory_synced_) return;
  has_failed_ = true;
  // If the next sync of the directory fails, Close must not believe that a
  // later one covers these logs.
  for (const Wal& wal : wals_) wal.writer->Fail(error);
}

std::string WalSet::WritePathLocked() const {
  return newest_ != nullptr ? newest_->file()->WritePath() : "none";
}

bool WalSet::WritePathChangedLocked() {
  std::string path = WritePathLocked();
  if (path == last_write_path_) return false;
  last_write_path_ = std::move(path);
  return true;
}

void WalSet::ReleaseSpaceLocked() {
  // A flush may be syncing older ones, with sync_mutex_ alone.
  mutex()->Unlock();
  sync_mutex_.Lock();
  mutex()->Lock();
  for (const Wal& wal : wals_) {
    if (!wal.writer->failed()) wal.writer->ReleaseSpace();
  }
  sync_mutex_.Unlock();
}

std::vector<std::pair<uint64_t, uint64_t>> WalSet::SizesFromLocked(
    uint64_t number) const {
  std::vector<std::pair<uint64_t, uint64_t>> sizes;
  for (const Wal& wal : wals_) {
    if (wal.number >= number) {
      sizes.emplace_back(wal.number, wal.writer->Size());
    }
  }
  return sizes;
}

std::vector<std::pair<uint64_t, uint64_t>> WalSet::AllSizesLocked() const {
  std::vector<std::pair<uint64_t, uint64_t>> sizes = SizesFromLocked(0);
  for (const Wal& wal : obsolete_) sizes.emplace_back(wal.number, wal.bytes);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

uint64_t WalSet::OldestAgeMicrosLocked() const {
  if (wals_.empty()) return 0;
  const uint64_t now_us = MonotonicMicros(db_directory_->env());
  const uint64_t created_us = wals_.front().created_us;
  return now_us > created_us ? now_us - created_us : 0;
}

uint64_t WalSet::OlderBytesLocked(uint64_t number) const {
  uint64_t bytes = 0;
  for (const Wal& wal : wals_) {
    if (wal.number >= number) bytes += wal.bytes;
  }
  return bytes;
}

void WalSet::ReleaseLocked(uint64_t number) {
  while (wals_.front().number < number) {
    obsolete_bytes_ += wals_.front().bytes;
    obsolete_.push_back(std::move(wals_.front()));
    wals_.pop_front();
  }
}

void WalSet::CountRemovedLocked(const std::vector<Wal>& removed) {
  for (const Wal& wal : removed) obsolete_bytes_ -= wal.bytes;
}

Status WalSet::CloseLocked() {
  Status status;
  for (const Wal& wal : wals_) {
    const Status close_status = wal.writer->Close();
    if (status.ok()) status = close_status;
  }
  last_logged_ = last_logged();
  wals_.clear();
  newest_ = nullptr;
  return status;
}

void WalSet::AbandonLocked() {
  for (const Wal& wal : wals_) wal.writer->Close().IgnoreError();
}

}  // namespace varve
