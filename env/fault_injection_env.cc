// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/fault_injection_env.h"

#include <bit>
#include <utility>

#include "env/log_line.h"

namespace varve {

// --- Files ------------------------------------------------------------------

class FaultInjectionEnv::Sequential final : public SequentialFile {
 public:
  Sequential(FaultInjectionEnv* env, std::string path,
             std::unique_ptr<SequentialFile> file)
      : env_(env),
        path_(std::move(path)),
        generation_(env->generation()),
        file_(std::move(file)) {}

  Status Read(size_t count, Slice* result, char* scratch) override {
    Status status = env_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Read(count, result, scratch) : status;
  }
  Status Skip(uint64_t count) override {
    Status status = env_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Skip(count) : status;
  }

 private:
  FaultInjectionEnv* const env_;
  const std::string path_;
  const uint64_t generation_;
  const std::unique_ptr<SequentialFile> file_;
};

class FaultInjectionEnv::RandomAccess final : public RandomAccessFile {
 public:
  RandomAccess(FaultInjectionEnv* env, std::string path,
               std::unique_ptr<RandomAccessFile> file)
      : env_(env),
        path_(std::move(path)),
        generation_(env->generation()),
        file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    Status status = env_->Begin(kReadOperation, path_, generation_);
    return status.ok() ? file_->Read(offset, count, result, scratch) : status;
  }
  void MultiRead(ReadRequest* requests, size_t count) const override {
    // Runs of requests that do not fail stay together, so that the target's
    // way to do many at once is used.
    size_t start = 0;
    for (size_t i = 0; i < count; ++i) {
      Status status = env_->Begin(kReadOperation, path_, generation_);
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
  FaultInjectionEnv* const env_;
  const std::string path_;
  const uint64_t generation_;
  const std::unique_ptr<RandomAccessFile> file_;
};

class FaultInjectionEnv::Writable final : public WritableFile {
 public:
  Writable(FaultInjectionEnv* env, std::string path,
           std::unique_ptr<WritableFile> file, CrashModel::FileRef state)
      : env_(env),
        path_(std::move(path)),
        generation_(env->generation()),
        state_(std::move(state)),
        file_(std::move(file)) {}

  Status Append(const Slice& data) override {
    Status status = env_->Begin(kWriteOperation, path_, generation_);
    if (status.ok()) return env_->model_.Append(state_, file_.get(), data);
    if (env_->IsActive(generation_) && env_->LeavesPartialAppends()) {
      // The caller gets the injected error whatever becomes of this.
      env_->model_
          .Append(state_, file_.get(), Slice(data.data(), data.size() / 2))
          .IgnoreError();
    }
    return status;
  }
  Status Flush() override {
    // The model leaves nothing to flush; a closed file is told apart.
    Status status = env_->Begin(kWriteOperation, path_, generation_);
    return status.ok() ? file_->Flush() : status;
  }
  Status Sync() override {
    Status status = env_->Begin(kSyncOperation, path_, generation_);
    if (status.ok()) status = file_->Flush();
    env_->model_.NoteSync(state_, status.ok());
    return status;
  }
  Status Close() override {
    Status status = env_->Begin(kCloseOperation, path_, generation_);
    // As with close(), the handle is gone even if there is an error.
    Status closed = file_->Close();
    return status.ok() ? closed : status;
  }
  void Allocate(uint64_t offset, uint64_t length) override {
    if (env_->IsActive(generation_)) file_->Allocate(offset, length);
  }
  Status Reserve(uint64_t offset, uint64_t length) override {
    if (!env_->IsActive(generation_)) return Status::OK();
    return file_->Reserve(offset, length);
  }
  void Release() override {
    if (env_->IsActive(generation_)) file_->Release();
  }
  void RangeSync(uint64_t offset, uint64_t length) override {
    if (env_->IsActive(generation_)) file_->RangeSync(offset, length);
  }
  uint64_t Size() const override { return file_->Size(); }

 private:
  FaultInjectionEnv* const env_;
  const std::string path_;
  const uint64_t generation_;
  const CrashModel::FileRef state_;
  const std::unique_ptr<WritableFile> file_;
};

class FaultInjectionEnv::SyncedDirectory final : public Directory {
 public:
  SyncedDirectory(FaultInjectionEnv* env, std::string path,
                  CrashModel::DirectoryRef state)
      : env_(env),
        path_(std::move(path)),
        generation_(env->generation()),
        state_(std::move(state)) {}

  Status Sync() override {
    Status status = env_->Begin(kSyncDirectoryOperation, path_, generation_);
    env_->model_.NoteSync(state_, status.ok());
    return status;
  }

 private:
  FaultInjectionEnv* const env_;
  const std::string path_;
  const uint64_t generation_;
  const CrashModel::DirectoryRef state_;
};

class FaultInjectionEnv::InfoLogger final : public Logger {
 public:
  InfoLogger(FaultInjectionEnv* env, std::unique_ptr<WritableFile> file,
             CrashModel::FileRef state)
      : env_(env),
        generation_(env->generation()),
        state_(std::move(state)),
        file_(std::move(file)) {}

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    // With the date.
    const std::string line =
        FormatLogLine(level, env_->NowMicros(), format, arguments);
    if (!env_->IsActive(generation_)) return;
    MutexLock lock(&mu_);
    // Logging must not fail anybody.
    env_->model_.Append(state_, file_.get(), line).IgnoreError();
  }

 private:
  FaultInjectionEnv* const env_;
  const uint64_t generation_;
  const CrashModel::FileRef state_;
  Mutex mu_;
  const std::unique_ptr<WritableFile> file_ VARVE_PT_GUARDED_BY(mu_);
};

// --- Control ----------------------------------------------------------------

FaultInjectionEnv::FaultInjectionEnv(Env* target)
    : EnvWrapper(target), model_(target) {}

FaultInjectionEnv::~FaultInjectionEnv() = default;

void FaultInjectionEnv::SetFilesystemActive(bool active) {
  MutexLock lock(&mu_);
  active_ = active;
}

Status FaultInjectionEnv::CrashAndReset(const CrashOptions& options) {
  MutexLock lock(&mu_);
  ++generation_;
  active_ = true;
  failing_kinds_ = 0;
  return model_.Crash(options);
}

void FaultInjectionEnv::FailAfter(uint64_t operation_count, const Status& error,
                                  OperationMask kinds, FailureOptions options) {
  MutexLock lock(&mu_);
  operations_until_failure_ = operation_count;
  error_ = error;
  failing_kinds_ = kinds;
  failure_options_ = options;
}

void FaultInjectionEnv::ClearFailure() {
  MutexLock lock(&mu_);
  failing_kinds_ = 0;
}

void FaultInjectionEnv::SetPathFilter(const std::string& part) {
  MutexLock lock(&mu_);
  path_filter_ = part;
}

uint64_t FaultInjectionEnv::OperationCount(OperationMask kinds) const {
  MutexLock lock(&mu_);
  uint64_t sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if ((kinds & (OperationMask{1} << i)) != 0) sum += counts_[i];
  }
  return sum;
}

uint64_t FaultInjectionEnv::FailureCount() const {
  MutexLock lock(&mu_);
  return failure_count_;
}

Status FaultInjectionEnv::InjectedError() {
  return Status::IOError("injected error");
}

Status FaultInjectionEnv::Begin(FileOperation kind, const std::string& path) {
  MutexLock lock(&mu_);
  return BeginLocked(kind, path);
}

Status FaultInjectionEnv::Begin(FileOperation kind, const std::string& path,
                                uint64_t handle_generation) {
  MutexLock lock(&mu_);
  if (handle_generation != generation_) {
    return Status::IOError(path, "opened before the crash");
  }
  return BeginLocked(kind, path);
}

Status FaultInjectionEnv::BeginLocked(FileOperation kind,
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

bool FaultInjectionEnv::LeavesPartialAppends() const {
  MutexLock lock(&mu_);
  return failure_options_.partial_append;
}

bool FaultInjectionEnv::IsActive(uint64_t handle_generation) const {
  MutexLock lock(&mu_);
  return active_ && handle_generation == generation_;
}

uint64_t FaultInjectionEnv::generation() const {
  MutexLock lock(&mu_);
  return generation_;
}

// --- The file system --------------------------------------------------------

Status FaultInjectionEnv::NewSequentialFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<SequentialFile>* file) {
  Status status = Begin(kOpenOperation, path);
  std::unique_ptr<SequentialFile> inner;
  if (status.ok()) status = target()->NewSequentialFile(path, options, &inner);
  if (status.ok()) {
    *file = std::make_unique<Sequential>(this, path, std::move(inner));
  }
  return status;
}

Status FaultInjectionEnv::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<RandomAccessFile>* file) {
  Status status = Begin(kOpenOperation, path);
  std::unique_ptr<RandomAccessFile> inner;
  if (status.ok()) {
    status = target()->NewRandomAccessFile(path, options, &inner);
  }
  if (status.ok()) {
    *file = std::make_unique<RandomAccess>(this, path, std::move(inner));
  }
  return status;
}

Status FaultInjectionEnv::NewWritableFile(const std::string& path,
                                          const FileOptions& options,
                                          std::unique_ptr<WritableFile>* file) {
  Status status = Begin(kCreateOperation, path);
  std::unique_ptr<WritableFile> inner;
  CrashModel::FileRef state;
  if (status.ok()) {
    status = model_.NewWritableFile(path, options, &inner, &state);
  }
  if (status.ok()) {
    *file = std::make_unique<Writable>(this, path, std::move(inner),
                                       std::move(state));
  }
  return status;
}

Status FaultInjectionEnv::NewDirectory(const std::string& path,
                                       std::unique_ptr<Directory>* directory) {
  Status status = Begin(kOpenOperation, path);
  std::unique_ptr<Directory> inner;  // Only to see whether it can be opened.
  if (status.ok()) status = target()->NewDirectory(path, &inner);
  if (status.ok()) {
    *directory = std::make_unique<SyncedDirectory>(this, path,
                                                   model_.OpenDirectory(path));
  }
  return status;
}

Status FaultInjectionEnv::FileExists(const std::string& path) {
  Status status = Begin(kQueryOperation, path);
  return status.ok() ? target()->FileExists(path) : status;
}

Status FaultInjectionEnv::GetChildren(const std::string& path,
                                      std::vector<std::string>* names) {
  Status status = Begin(kQueryOperation, path);
  return status.ok() ? target()->GetChildren(path, names) : status;
}

Status FaultInjectionEnv::RemoveFile(const std::string& path) {
  Status status = Begin(kRemoveOperation, path);
  return status.ok() ? model_.RemoveFile(path) : status;
}

Status FaultInjectionEnv::CreateDirIfMissing(const std::string& path) {
  Status status = Begin(kCreateDirOperation, path);
  return status.ok() ? model_.CreateDirIfMissing(path) : status;
}

Status FaultInjectionEnv::RemoveDir(const std::string& path) {
  Status status = Begin(kRemoveOperation, path);
  return status.ok() ? model_.RemoveDir(path) : status;
}

Status FaultInjectionEnv::GetFileSize(const std::string& path, uint64_t* size) {
  Status status = Begin(kQueryOperation, path);
  return status.ok() ? target()->GetFileSize(path, size) : status;
}

Status FaultInjectionEnv::RenameFile(const std::string& source,
                                     const std::string& target_path) {
  Status status = Begin(kRenameOperation, source + " to " + target_path);
  return status.ok() ? model_.RenameFile(source, target_path) : status;
}

Status FaultInjectionEnv::LinkFile(const std::string& source,
                                   const std::string& target_path) {
  Status status = Begin(kLinkOperation, source + " to " + target_path);
  return status.ok() ? model_.LinkFile(source, target_path) : status;
}

Status FaultInjectionEnv::Truncate(const std::string& path, uint64_t size) {
  Status status = Begin(kTruncateOperation, path);
  return status.ok() ? model_.Truncate(path, size) : status;
}

Status FaultInjectionEnv::LockFile(const std::string& path,
                                   std::unique_ptr<FileLock>* lock) {
  Status status = Begin(kLockOperation, path);
  return status.ok() ? model_.LockFile(path, lock) : status;
}

Status FaultInjectionEnv::NewLogger(const std::string& path,
                                    std::shared_ptr<Logger>* logger) {
  Status status = Begin(kCreateOperation, path);
  std::unique_ptr<WritableFile> inner;
  CrashModel::FileRef state;
  if (status.ok()) {
    status = model_.NewWritableFile(path, FileOptions(), &inner, &state);
  }
  if (status.ok()) {
    *logger =
        std::make_shared<InfoLogger>(this, std::move(inner), std::move(state));
  }
  return status;
}

}  // namespace varve
