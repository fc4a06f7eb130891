// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/log_tail.h"

#include <utility>

namespace varve {

namespace {

// A writer needs less to complete a record that it has begun, though it may
// have to wait for the processor. The first reads of the end follow each other
// at once. Each later one waits twice as long as the one before, a second
// together.
constexpr int kFastAttempts = 3;
constexpr int kAttempts = 13;
// If records follow, it is hardly a write.
constexpr int kAttemptsOfDamage = 6;

// Space that was allocated and is not written yet. A page that was lost is not
// longer.
constexpr uint64_t kUnwrittenBytes = 4 << 10;
constexpr uint64_t kWaitUs = 1000;

}  // namespace

Status LogTail::Open(Env* env, const std::string& path, uint64_t number,
                     std::unique_ptr<LogTail>* tail) {
  // The same before and after the open: it is the identity of what was opened.
  FileId before;
  FileId after;
  const bool knows = env->GetFileId(path, &before).ok();
  std::unique_ptr<RandomAccessFile> file;
  Status status = env->NewRandomAccessFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  tail->reset(new LogTail(env, path, number, std::move(file)));
  if (knows) {
    status = env->GetFileId(path, &after);
    if (!status.ok() || !before.IsSameFile(after)) {
      tail->reset();
      return Status::NotFound(path, "it was replaced");
    }
    (*tail)->id_ = after;
  }
  return status;
}

Status LogTail::IsSameFile(bool* same) const {
  *same = true;
  if (!id_) return Status::OK();
  FileId now;
  Status status = env_->GetFileId(path_, &now);
  if (status.ok()) *same = now.IsSameFile(*id_);
  return status;
}

void LogTail::Return(uint64_t record_end) {
  end_ = record_end;
  is_at_end_ = true;
}

LogTail::Next LogTail::ReadOnce(Slice* record, bool* is_torn) {
  *is_torn = false;
  if (is_at_end_) reader_.Resume(end_);
  is_at_end_ = false;
  const wal::ReadOutcome outcome = reader_->ReadRecord(record);
  if (outcome == wal::ReadOutcome::kRecord) {
    end_ = reader_->RecordEnd();
    return Next::kRecord;
  }
  is_at_end_ = true;
  if (outcome == wal::ReadOutcome::kEnd) return Next::kEnd;
  status_ = reader_->status();
  *is_torn = reader_->EndIsTorn(outcome, /*need_is_checked=*/true);
  return Next::kError;
}

LogTail::Next LogTail::Read(bool waits, Slice* record) {
  for (int attempt = 1;; ++attempt) {
    bool is_torn = false;
    // Without waiting it is the final end, and worth a look at all of it.
    reader_->EndAfterZeros(waits ? kUnwrittenBytes : UINT64_MAX);
    const Next next = ReadOnce(record, &is_torn);
    if (next != Next::kError || status_.IsIOError() ||
        status_.IsNotSupported()) {
      if (next == Next::kRecord) torn_at_.reset();
      return next;
    }
    if (is_torn && (!waits || torn_at_ == end_)) return Next::kTorn;
    if (!waits || attempt == (is_torn ? kAttempts : kAttemptsOfDamage)) {
      if (is_torn) torn_at_ = end_;
      return is_torn ? Next::kTorn : Next::kError;
    }
    if (attempt > kFastAttempts) {
      env_->SleepForMicroseconds(kWaitUs << (attempt - kFastAttempts - 1));
    }
  }
}

}  // namespace varve
