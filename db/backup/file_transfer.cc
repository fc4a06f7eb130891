// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/file_transfer.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/backup/user_calls.h"
#include "db/directory/file_copy.h"
#include "util/bytes/checksum.h"
#include "util/threads/background_thread.h"

namespace varve {

namespace {

static_assert(kUnknownSize == kWholeFile);

constexpr uint64_t kBufferBytes = 1 << 20;
constexpr uint64_t kMinBufferBytes = 4 << 10;
constexpr uint64_t kMaxBufferBytes = 64 << 20;
// A stopped call waits for the limiter at most this part of a second.
constexpr uint64_t kBuffersPerSecond = 10;
// The kernel writes back in pieces, so that Sync has little left to do.
constexpr uint64_t kBytesPerSync = 4 << 20;
// Holds a table's properties and the end of its index.
constexpr uint64_t kEndBytes = 16 << 10;

uint64_t ChooseBuffer(const RateLimiter* limiter, uint64_t wanted) {
  if (wanted != 0) return std::clamp(wanted, kMinBufferBytes, kMaxBufferBytes);
  if (limiter == nullptr) return kBufferBytes;
  return std::clamp(limiter->GetBytesPerSecond() / kBuffersPerSecond,
                    kMinBufferBytes, kBufferBytes);
}

// Reads the first `size` bytes of a file, and gives them to `use` in pieces.
Status ReadFile(Env* env, const std::string& path, uint64_t size,
                TransferControl* control, TransferResult* result,
                const std::function<Status(const Slice&)>& use) {
  *result = TransferResult();
  std::unique_ptr<SequentialFile> file;
  Status status = env->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  return ReadPieces(
      file.get(), path, size, control->buffer_bytes(), [&](const Slice& data) {
        Status stopped = control->CheckStop();
        if (!stopped.ok()) return stopped;
        result->size += data.size();
        result->crc32c = Crc32cExtend(result->crc32c, data.data(), data.size());
        return use(data);
      });
}

Status CreateFile(Env* env, const std::string& path,
                  std::unique_ptr<WritableFile>* file) {
  FileOptions options;
  options.bytes_per_sync = kBytesPerSync;
  return env->NewWritableFile(path, options, file);
}

Status Finish(bool sync, WritableFile* file) {
  Status status;
  if (sync) status = file->Sync();
  if (status.ok()) status = file->Close();
  return status;
}

}  // namespace

TransferControl::TransferControl(RateLimiter* limiter,
                                 const std::atomic<bool>* stop,
                                 uint64_t buffer_bytes, uint64_t interval_bytes,
                                 const std::function<void()>* progress)
    : limiter_(limiter),
      stop_(stop),
      progress_(progress != nullptr && *progress ? progress : nullptr),
      interval_bytes_(std::max<uint64_t>(interval_bytes, 1)),
      buffer_bytes_(static_cast<size_t>(ChooseBuffer(limiter, buffer_bytes))) {
  if (progress_ != nullptr) {
    buffer_bytes_ = static_cast<size_t>(std::clamp<uint64_t>(
        interval_bytes_, std::min<uint64_t>(kMinBufferBytes, buffer_bytes_),
        buffer_bytes_));
  }
}

Status TransferControl::CheckStop() const {
  // relaxed: nothing is read that the stopping thread wrote before.
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
    return Status::Incomplete("the backup was stopped");
  }
  return Status::OK();
}

Status TransferControl::BeforeWrite(uint64_t bytes) {
  if (limiter_ != nullptr) {
    limiter_->Request(bytes, RateLimiter::Priority::kLow);
  }
  if (progress_ == nullptr) return Status::OK();
  MutexLock lock(&mu_);
  unreported_bytes_ += bytes;
  while (unreported_bytes_ >= interval_bytes_) {
    unreported_bytes_ -= interval_bytes_;
    Status status = CallProgress(*progress_);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status ChecksumFile(Env* env, const std::string& path, uint64_t size,
                    TransferControl* control, TransferResult* result) {
  return ReadFile(env, path, size, control, result,
                  [](const Slice&) { return Status::OK(); });
}

Status TransferFile(Env* from_env, const std::string& from, uint64_t size,
                    Env* to_env, const std::string& to, bool sync,
                    TransferControl* control, TransferResult* result) {
  std::unique_ptr<WritableFile> file;
  Status status = CreateFile(to_env, to, &file);
  if (!status.ok()) return status;
  status =
      ReadFile(from_env, from, size, control, result, [&](const Slice& data) {
        Status written = control->BeforeWrite(data.size());
        if (written.ok()) written = file->Append(data);
        return written;
      });
  if (status.ok()) status = Finish(sync, file.get());
  return status;
}

Status TransferContents(const Slice& contents, Env* to_env,
                        const std::string& to, bool sync,
                        TransferControl* control, TransferResult* result) {
  result->size = contents.size();
  result->crc32c = Crc32c(contents.data(), contents.size());
  std::unique_ptr<WritableFile> file;
  Status status = CreateFile(to_env, to, &file);
  if (status.ok()) status = control->BeforeWrite(contents.size());
  if (status.ok()) status = file->Append(contents);
  if (status.ok()) status = Finish(sync, file.get());
  return status;
}

Status CompareEnds(Env* a_env, const std::string& a, Env* b_env,
                   const std::string& b, uint64_t size, bool* same) {
  *same = false;
  const uint64_t count = std::min(size, kEndBytes);
  const auto scratch = std::make_unique<char[]>(2 * kEndBytes);
  Slice ends[2];
  const std::pair<Env*, const std::string*> files[2] = {{a_env, &a},
                                                        {b_env, &b}};
  for (int i = 0; i < 2; ++i) {
    std::unique_ptr<RandomAccessFile> file;
    Status status = files[i].first->NewRandomAccessFile(*files[i].second,
                                                        FileOptions(), &file);
    char* const own = scratch.get() + i * kEndBytes;
    if (status.ok()) {
      status =
          file->Read(size - count, static_cast<size_t>(count), &ends[i], own);
    }
    if (!status.ok()) return status;
    // The bytes may be the file object's.
    if (ends[i].data() != own) memmove(own, ends[i].data(), ends[i].size());
    ends[i] = Slice(own, ends[i].size());
  }
  *same = ends[0].size() == count && ends[0] == ends[1];
  return Status::OK();
}

// ---- Threads ----------------------------------------------------------------

namespace {

// The tasks of one call.
class TransferRun {
 public:
  TransferRun(size_t count, int nice, const std::function<Status(size_t)>& task)
      : count_(count), nice_(nice), task_(task) {}

  static void* ThreadMain(void* run) {
    auto* const self = static_cast<TransferRun*>(run);
    if (self->nice_ != 0) {
      // Of this thread alone. Without the permission it stays as it is.
      const auto thread = static_cast<id_t>(syscall(SYS_gettid));
      const int present = getpriority(PRIO_PROCESS, thread);
      static_cast<void>(
          setpriority(PRIO_PROCESS, thread, present + self->nice_));
    }
    self->Work();
    return nullptr;
  }

  void Work() {
    while (true) {
      size_t index;
      {
        MutexLock lock(&mu_);
        if (next_ == count_ || !status_.ok()) return;
        index = next_++;
      }
      Status status = task_(index);
      MutexLock lock(&mu_);
      if (status_.ok()) status_ = std::move(status);
    }
  }

  Status status() {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  const size_t count_;
  const int nice_;
  const std::function<Status(size_t)>& task_;
  Mutex mu_;
  size_t next_ VARVE_GUARDED_BY(mu_) = 0;
  Status status_ VARVE_GUARDED_BY(mu_);
};

}  // namespace

Status RunTransfers(size_t count, int thread_count, int nice,
                    const std::function<Status(size_t)>& task) {
  TransferRun run(count, nice, task);
  std::vector<pthread_t> threads;
  const size_t wanted =
      std::min(count, static_cast<size_t>(std::max(thread_count, 1)));
  const size_t own = nice == 0 ? 1 : 0;
  while (threads.size() + own < wanted) {
    pthread_t thread;
    if (StartBackgroundThread(&thread, &TransferRun::ThreadMain, &run) != 0) {
      break;
    }
    threads.push_back(thread);
  }
  if (own == 1 || threads.empty()) run.Work();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return run.status();
}

}  // namespace varve
