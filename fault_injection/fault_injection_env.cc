// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/testing/fault_injection_env.h"

#include <array>
#include <bit>
#include <utility>

#include "env/log_line.h"
#include "fault_injection/crash_model.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"

namespace varve {

// --- The state that files share ----------------------------------------------

class FaultInjectionEnv::Core {
 public:
  class Sequential;
  class RandomAccess;
  class Writable;
  class SyncedDirectory;
  class InfoLogger;

  explicit Core(Env* target) : model_(target), target_(target) {}

  // Counts an operation and decides whether it fails. A handle passes the
  // generation in which it was opened.
  Status Begin(FileOperation kind, const std::string& path)
      VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return BeginLocked(kind, path);
  }
  Status Begin(FileOperation kind, const std::string& path,
               uint64_t handle_generation) VARVE_EXCLUDES(mu_);

  void SetActive(bool active) VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    active_ = active;
  }
  Status Crash(const CrashOptions& options) VARVE_EXCLUDES(mu_);
  void FailAfter(uint64_t operation_count, const Status& error,
                 OperationMask kinds, FailureOptions options)
      VARVE_EXCLUDES(mu_);
  void ClearFailure() VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    failing_kinds_ = 0;
  }
  void SetPathFilter(const std::string& part) VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    path_filter_ = part;
  }
  uint64_t OperationCount(OperationMask kinds) const VARVE_EXCLUDES(mu_);
  uint64_t failure_count() const VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return failure_count_;
  }

  bool LeavesPartialAppends() const VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return failure_options_.partial_append;
  }
  // Returns true if a handle may still change its file.
  bool IsActive(uint64_t handle_generation) const VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return active_ && handle_generation == generation_;
  }
  uint64_t generation() const VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return generation_;
  }
  CrashModel* model() { return &model_; }
  Env* target() const { return target_; }

 private:
  static constexpr size_t kKindCount = 14;
  static_assert(kAllOperations == (1u << kKindCount) - 1);

  Status BeginLocked(FileOperation kind, const std::string& path)
      VARVE_REQUIRES(mu_);

  CrashModel model_;
  Env* const target_;
  // Guarded by mu_.
  mutable Mutex mu_;
  bool active_ VARVE_GUARDED_BY(mu_) = true;
  uint64_t generation_ VARVE_GUARDED_BY(mu_) = 0;  // Crashes so far.
  std::string path_filter_ VARVE_GUARDED_BY(mu_);
  std::array<uint64_t, kKindCount> counts_ VARVE_GUARDED_BY(mu_) = {};
  uint64_t failure_count_ VARVE_GUARDED_BY(mu_) = 0;
  // The fault plan. No kinds means that there is none.
  OperationMask failing_kinds_ VARVE_GUARDED_BY(mu_) = 0;
  uint64_t operations_until_failure_ VARVE_GUARDED_BY(mu_) = 0;
  Status error_ VARVE_GUARDED_BY(mu_);
  FailureOptions failure_options_ VARVE_GUARDED_BY(mu_);
};

Status FaultInjectionEnv::Core::Begin(FileOperation kind,
                                      const std::string& path,
                                      uint64_t handle_generation) {
  MutexLock lock(&mu_);
  if (handle_generation != generation_) {
    return Status::IOError(path, "opened before the crash");
  }
  return BeginLocked(kind, path);
}

Status FaultInjectionEnv::Core::BeginLocked(FileOperation kind,
                                            const std::string& path) {
  if (!active_ && (kind & kReadingOperations) == 0) {
    return Status::IOError(path, "the file system is not active");
  }
  if (path.find(path_filter_) == std::string::npos) return Status::OK();
  ++counts_[static_cast<size_t>(std::countr_zero(OperationMask{kind}))];
  if ((failing_kinds_ & kind) == 0) return Status::OK();
  if (operations_until_failure_ > 0) {
    --operations_until_failure_;
    return Status::OK();
  }
  if (failure_options_.once) failing_kinds_ = 0;
  ++failure_count_;
  return error_.Annotate(path);
}

Status FaultInjectionEnv::Core::Crash(const CrashOptions& options) {
  MutexLock lock(&mu_);
  ++generation_;
  active_ = true;
  failing_kinds_ = 0;
  return model_.Crash(options);
}

void FaultInjectionEnv::Core::FailAfter(uint64_t operation_count,
                                        const Status& error,
                                        OperationMask kinds,
                                        FailureOptions options) {
  MutexLock lock(&mu_);
  operations_until_failure_ = operation_count;
  error_ = error;
  failing_kinds_ = kinds;
  failure_options_ = options;
}

uint64_t FaultInjectionEnv::Core::OperationCount(OperationMask kinds) const {
  MutexLock lock(&mu_);
  uint64_t sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if ((kinds & (OperationMask{1} << i)) != 0) sum += counts_[i];
  }
  return sum;
}

// --- Files ------------------------------------------------------------------

class FaultInjectionEnv::Core::Sequential final : public SequentialFile {
 public:
  Sequential(Core* core, std::string path, std::unique_ptr<SequentialFile> file)
      : core_(core),
        path_(std::move(path)),
        generation_(core->generation()),
        file_(std::move(file)) {}

  Status Read(size_t count, Slice* result, char* scratch) override {
    Status status = core_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Read(count, result, scratch) : status;
  }
  Status Skip(uint64_t count) override {
    Status status = core_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Skip(count) : status;
  }

 private:
  Core* const core_;
  const std::string path_;
  const uint64_t generation_;
  const std::unique_ptr<SequentialFile> file_;
};

class FaultInjectionEnv::Core::RandomAccess final : public RandomAccessFile {
 public:
  RandomAccess(Core* core, std::string path,
               std::unique_ptr<RandomAccessFile> file)
      : core_(core),
        path_(std::move(path)),
        generation_(core->generation()),
        file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    Status status = core_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Read(offset, count, result, scratch) : status;
  }
  void MultiRead(ReadRequest* requests, size_t count) const override {
    // Runs of requests that do not fail stay together, so that the target's
    // batched reads are used.
    size_t start = 0;
    for (size_t i = 0; i < count; ++i) {
      Status status = core_->Begin(kReadOperation, path_, generation_);
      if (status.ok()) continue;
      file_->MultiRead(requests + start, i - start);
      requests[i].status = std::move(status);
      start = i + 1;
    }
    file_->MultiRead(requests + start, count - start);
  }
  void Prefetch(uint64_t offset, size_t count) const override {
    file_->Prefetch(offset, count);
  }
  size_t RequiredAlignment() const override {
    return file_->RequiredAlignment();
  }

 private:
  Core* const core_;
  const std::string path_;
  const uint64_t generation_;
  const std::unique_ptr<RandomAccessFile> file_;
};

class FaultInjectionEnv::Core::Writable final : public WritableFile {
 public:
  Writable(Core* core, std::string path, std::unique_ptr<WritableFile> file,
           CrashModel::FileRef state)
      : core_(core),
        path_(std::move(path)),
        generation_(core->generation()),
        state_(std::move(state)),
        file_(std::move(file)) {}

  Status Append(const Slice& data) override {
    Status status = core_->Begin(kWriteOperation, path_, generation_);
    if (status.ok()) return core_->model()->Append(state_, file_.get(), data);
    if (core_->IsActive(generation_) && core_->LeavesPartialAppends()) {
      // The caller gets the injected error, whatever the result is.
      core_->model()
          ->Append(state_, file_.get(), Slice(data.data(), data.size() / 2))
          .IgnoreError();
    }
    return status;
  }
  Status Flush() override {
    // The model leaves nothing to flush. A closed file is detected.
    Status status = core_->Begin(kWriteOperation, path_, generation_);
    return status.ok() ? file_->Flush() : status;
  }
  Status Sync() override {
    Status status = core_->Begin(kSyncOperation, path_, generation_);
    if (status.ok()) status = file_->Flush();
    core_->model()->NoteSync(state_, status.ok());
    return status;
  }
  Status Close() override {
    Status status = core_->Begin(kCloseOperation, path_, generation_);
    // As with close(), the handle is closed even if there is an error.
    Status closed = file_->Close();
    return status.ok() ? closed : status;
  }
  void Allocate(uint64_t offset, uint64_t length) override {
    if (core_->IsActive(generation_)) file_->Allocate(offset, length);
  }
  Status Reserve(uint64_t offset, uint64_t length) override {
    if (!core_->IsActive(generation_)) return Status::OK();
    return file_->Reserve(offset, length);
  }
  void Release() override {
    if (core_->IsActive(generation_)) file_->Release();
  }
  void RangeSync(uint64_t offset, uint64_t length) override {
    if (core_->IsActive(generation_)) file_->RangeSync(offset, length);
  }
  uint64_t Size() const override { return file_->Size(); }

 private:
  Core* const core_;
  const std::string path_;
  const uint64_t generation_;
  const CrashModel::FileRef state_;
  const std::unique_ptr<WritableFile> file_;
};

class FaultInjectionEnv::Core::SyncedDirectory final : public Directory {
 public:
  SyncedDirectory(Core* core, std::string path, CrashModel::DirectoryRef state)
      : core_(core),
        path_(std::move(path)),
        generation_(core->generation()),
        state_(std::move(state)) {}

  Status Sync() override {
    Status status = core_->Begin(kSyncDirectoryOperation, path_, generation_);
    core_->model()->NoteSync(state_, status.ok());
    return status;
  }

 private:
  Core* const core_;
  const std::string path_;
  const uint64_t generation_;
  const CrashModel::DirectoryRef state_;
};

class FaultInjectionEnv::Core::InfoLogger final : public Logger {
 public:
  InfoLogger(Core* core, std::unique_ptr<WritableFile> file,
             CrashModel::FileRef state)
      : core_(core),
        generation_(core->generation()),
        state_(std::move(state)),
        file_(std::move(file)) {}

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    // With the date.
    const std::string line =
        FormatLogLine(level, core_->target()->NowMicros(), format, arguments);
    if (!core_->IsActive(generation_)) return;
    MutexLock lock(&mu_);
    // Logging must not fail its caller.
    core_->model()->Append(state_, file_.get(), line).IgnoreError();
  }

 private:
  Core* const core_;
  const uint64_t generation_;
  const CrashModel::FileRef state_;
  Mutex mu_;
  const std::unique_ptr<WritableFile> file_ VARVE_PT_GUARDED_BY(mu_);
};

// --- Control ----------------------------------------------------------------

FaultInjectionEnv::FaultInjectionEnv(Env* target)
    : EnvWrapper(target), core_(std::make_unique<Core>(target)) {}

FaultInjectionEnv::~FaultInjectionEnv() = default;

void FaultInjectionEnv::SetFilesystemActive(bool active) {
  core_->SetActive(active);
}

Status FaultInjectionEnv::CrashAndReset(const CrashOptions& options) {
  return core_->Crash(options);
}

void FaultInjectionEnv::FailAfter(uint64_t operation_count, const Status& error,
                                  OperationMask kinds, FailureOptions options) {
  core_->FailAfter(operation_count, error, kinds, options);
}

void FaultInjectionEnv::ClearFailure() { core_->ClearFailure(); }

void FaultInjectionEnv::SetPathFilter(const std::string& part) {
  core_->SetPathFilter(part);
}

uint64_t FaultInjectionEnv::OperationCount(OperationMask kinds) const {
  return core_->OperationCount(kinds);
}

uint64_t FaultInjectionEnv::FailureCount() const {
  return core_->failure_count();
}

Status FaultInjectionEnv::InjectedError() {
  return Status::IOError("injected error");
}

// --- The file system --------------------------------------------------------

Status FaultInjectionEnv::NewSequentialFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<SequentialFile>* file) {
  Status status = core_->Begin(kOpenOperation, path);
  std::unique_ptr<SequentialFile> inner;
  if (status.ok()) status = target()->NewSequentialFile(path, options, &inner);
  if (status.ok()) {
    *file =
        std::make_unique<Core::Sequential>(core_.get(), path, std::move(inner));
  }
  return status;
}

Status FaultInjectionEnv::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<RandomAccessFile>* file) {
  Status status = core_->Begin(kOpenOperation, path);
  std::unique_ptr<RandomAccessFile> inner;
  if (status.ok()) {
    status = target()->NewRandomAccessFile(path, options, &inner);
  }
  if (status.ok()) {
    *file = std::make_unique<Core::RandomAccess>(core_.get(), path,
                                                 std::move(inner));
  }
  return status;
}

Status FaultInjectionEnv::NewWritableFile(const std::string& path,
                                          const FileOptions& options,
                                          std::unique_ptr<WritableFile>* file) {
  Status status = core_->Begin(kCreateOperation, path);
  std::unique_ptr<WritableFile> inner;
  CrashModel::FileRef state;
  if (status.ok()) {
    status = core_->model()->NewWritableFile(path, options, &inner, &state);
  }
  if (status.ok()) {
    *file = std::make_unique<Core::Writable>(
        core_.get(), path, std::move(inner), std::move(state));
  }
  return status;
}

Status FaultInjectionEnv::NewDirectory(const std::string& path,
                                       std::unique_ptr<Directory>* directory) {
  Status status = core_->Begin(kOpenOperation, path);
  std::unique_ptr<Directory> inner;  // Only to check that it can be opened.
  if (status.ok()) status = target()->NewDirectory(path, &inner);
  if (status.ok()) {
    *directory = std::make_unique<Core::SyncedDirectory>(
        core_.get(), path, core_->model()->OpenDirectory(path));
  }
  return status;
}

Status FaultInjectionEnv::FileExists(const std::string& path) {
  Status status = core_->Begin(kQueryOperation, path);
  return status.ok() ? target()->FileExists(path) : status;
}

Status FaultInjectionEnv::GetChildren(const std::string& path,
                                      std::vector<std::string>* names) {
  Status status = core_->Begin(kQueryOperation, path);
  return status.ok() ? target()->GetChildren(path, names) : status;
}

Status FaultInjectionEnv::RemoveFile(const std::string& path) {
  Status status = core_->Begin(kRemoveOperation, path);
  return status.ok() ? core_->model()->RemoveFile(path) : status;
}

Status FaultInjectionEnv::CreateDirIfMissing(const std::string& path) {
  Status status = core_->Begin(kCreateDirOperation, path);
  return status.ok() ? core_->model()->CreateDirIfMissing(path) : status;
}

Status FaultInjectionEnv::RemoveDir(const std::string& path) {
  Status status = core_->Begin(kRemoveOperation, path);
  return status.ok() ? core_->model()->RemoveDir(path) : status;
}

Status FaultInjectionEnv::GetFileSize(const std::string& path, uint64_t* size) {
  Status status = core_->Begin(kQueryOperation, path);
  return status.ok() ? target()->GetFileSize(path, size) : status;
}

Status FaultInjectionEnv::GetFileId(const std::string& path, FileId* id) {
  Status status = core_->Begin(kQueryOperation, path);
  return status.ok() ? target()->GetFileId(path, id) : status;
}

Status FaultInjectionEnv::RenameFile(const std::string& source,
                                     const std::string& target_path) {
  Status status = core_->Begin(kRenameOperation, source + " to " + target_path);
  return status.ok() ? core_->model()->RenameFile(source, target_path) : status;
}

Status FaultInjectionEnv::LinkFile(const std::string& source,
                                   const std::string& target_path) {
  Status status = core_->Begin(kLinkOperation, source + " to " + target_path);
  return status.ok() ? core_->model()->LinkFile(source, target_path) : status;
}

Status FaultInjectionEnv::SyncFile(const std::string& path) {
  Status status = core_->Begin(kSyncOperation, path);
  return core_->model()->SyncFile(path, std::move(status));
}

Status FaultInjectionEnv::Truncate(const std::string& path, uint64_t size) {
  Status status = core_->Begin(kTruncateOperation, path);
  return status.ok() ? core_->model()->Truncate(path, size) : status;
}

Status FaultInjectionEnv::LockFile(const std::string& path,
                                   std::unique_ptr<FileLock>* lock) {
  Status status = core_->Begin(kLockOperation, path);
  return status.ok() ? core_->model()->LockFile(path, lock) : status;
}

Status FaultInjectionEnv::NewLogger(const std::string& path,
                                    std::shared_ptr<Logger>* logger) {
  Status status = core_->Begin(kCreateOperation, path);
  std::unique_ptr<WritableFile> inner;
  CrashModel::FileRef state;
  if (status.ok()) {
    status =
        core_->model()->NewWritableFile(path, FileOptions(), &inner, &state);
  }
  if (status.ok()) {
    *logger = std::make_shared<Core::InfoLogger>(core_.get(), std::move(inner),
                                                 std::move(state));
  }
  return status;
}

}  // namespace varve
