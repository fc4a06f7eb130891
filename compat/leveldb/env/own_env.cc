// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/env/own_env.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "compat/leveldb/convert.h"
#include "compat/leveldb/env/shared_env.h"

namespace varve::compat {
namespace {

class OwnSequentialFile final : public leveldb::SequentialFile {
 public:
  explicit OwnSequentialFile(std::unique_ptr<varve::SequentialFile> file)
      : file_(std::move(file)) {}
  leveldb::Status Read(size_t count, leveldb::Slice* result,
                       char* scratch) override {
    Slice read;
    leveldb::Status status = ToLevelDb(file_->Read(count, &read, scratch));
    *result = ToLevelDb(read);
    return status;
  }
  leveldb::Status Skip(uint64_t count) override {
    return ToLevelDb(file_->Skip(count));
  }

 private:
  const std::unique_ptr<varve::SequentialFile> file_;
};

class OwnRandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  explicit OwnRandomAccessFile(std::unique_ptr<varve::RandomAccessFile> file)
      : file_(std::move(file)) {}
  leveldb::Status Read(uint64_t offset, size_t count, leveldb::Slice* result,
                       char* scratch) const override {
    Slice read;
    leveldb::Status status =
        ToLevelDb(file_->Read(offset, count, &read, scratch));
    *result = ToLevelDb(read);
    return status;
  }

 private:
  const std::unique_ptr<varve::RandomAccessFile> file_;
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// LevelDB's interface has no call that syncs a directory. So the first Sync of
// a new file also makes its name durable.
class OwnWritableFile final : public leveldb::WritableFile {
 public:
  OwnWritableFile(Env* env, std::string directory,
                  std::unique_ptr<varve::WritableFile> file)
      : env_(env), directory_(std::move(directory)), file_(std::move(file)) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    return ToLevelDb(file_->Append(ToVarve(data)));
  }
  leveldb::Status Close() override { return ToLevelDb(file_->Close()); }
  leveldb::Status Flush() override { return ToLevelDb(file_->Flush()); }
  leveldb::Status Sync() override {
    Status status = file_->Sync();
    if (status.ok() && !is_name_durable_) {
      std::unique_ptr<Directory> directory;
      status = env_->NewDirectory(directory_, &directory);
      if (status.ok()) status = directory->Sync();
      is_name_durable_ = status.ok();
    }
    return ToLevelDb(status);
  }

 private:
  Env* const env_;
  const std::string directory_;
  const std::unique_ptr<varve::WritableFile> file_;
  bool is_name_durable_ = false;
};

class OwnFileLock final : public leveldb::FileLock {
 public:
  explicit OwnFileLock(std::unique_ptr<varve::FileLock> lock)
      : lock_(std::move(lock)) {}
  std::unique_ptr<varve::FileLock> Take() { return std::move(lock_); }

 private:
  std::unique_ptr<varve::FileLock> lock_;
};

class OwnLogger final : public leveldb::Logger {
 public:
  explicit OwnLogger(std::shared_ptr<varve::Logger> logger)
      : logger_(std::move(logger)) {}
  void Logv(const char* format, va_list arguments) override {
    logger_->Logv(LogLevel::kInfo, format, arguments);
  }

 private:
  const std::shared_ptr<varve::Logger> logger_;
};

// LevelDB's environment in memory has no directories: a file can be created
// anywhere. The engine's has them.
class MemoryEnv final : public EnvWrapper {
 public:
  explicit MemoryEnv(std::unique_ptr<Env> files)
      : EnvWrapper(files.get()), files_(std::move(files)) {}
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = CreateDirIfMissing(DirectoryOf(path));
    if (!status.ok()) return status;
    return target()->NewWritableFile(path, options, file);
  }
  Status CreateDirIfMissing(const std::string& path) override {
    if (target()->FileExists(path).ok()) return Status::OK();
    const std::string parent = DirectoryOf(path);
    if (parent != path && parent != "." && parent != "/") {
      Status status = CreateDirIfMissing(parent);
      if (!status.ok()) return status;
    }
    return target()->CreateDirIfMissing(path);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override {
    Status status = CreateDirIfMissing(DirectoryOf(path));
    if (!status.ok()) return status;
    return target()->LockFile(path, lock);
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    Status status = target()->GetChildren(path, names);
    return status.IsNotFound() ? Status::OK() : status;
  }

 private:
  const std::unique_ptr<Env> files_;
};

struct Call {
  void (*function)(void*);
  void* argument;
};

void* RunCall(void* call) {
  const std::unique_ptr<Call> owned(static_cast<Call*>(call));
  owned->function(owned->argument);
  return nullptr;
}

}  // namespace

OwnEnv::OwnEnv(varve::Env* files, std::unique_ptr<varve::Env> owner,
               leveldb::Env* base)
    : files_(files), owner_(std::move(owner)), base_(base) {}
OwnEnv::~OwnEnv() = default;

leveldb::Status OwnEnv::NewSequentialFile(const std::string& path,
                                          leveldb::SequentialFile** file) {
  *file = nullptr;
  std::unique_ptr<varve::SequentialFile> opened;
  const Status status = files_->NewSequentialFile(path, FileOptions(), &opened);
  if (status.ok()) *file = new OwnSequentialFile(std::move(opened));
  return ToLevelDb(status);
}

leveldb::Status OwnEnv::NewRandomAccessFile(const std::string& path,
                                            leveldb::RandomAccessFile** file) {
  *file = nullptr;
  std::unique_ptr<varve::RandomAccessFile> opened;
  const Status status =
      files_->NewRandomAccessFile(path, FileOptions(), &opened);
  if (status.ok()) *file = new OwnRandomAccessFile(std::move(opened));
  return ToLevelDb(status);
}

leveldb::Status OwnEnv::NewWritableFile(const std::string& path,
                                        leveldb::WritableFile** file) {
  *file = nullptr;
  std::unique_ptr<varve::WritableFile> opened;
  const Status status = files_->NewWritableFile(path, FileOptions(), &opened);
  if (status.ok()) {
    *file = new OwnWritableFile(files_, DirectoryOf(path), std::move(opened));
  }
  return ToLevelDb(status);
}

// The engine's environment has no call for it. So the new file is a copy of the
// old one, which is replaced when the copy is whole and durable.
leveldb::Status OwnEnv::NewAppendableFile(const std::string& path,
                                          leveldb::WritableFile** file) {
  *file = nullptr;
  std::string earlier;
  Status status = ReadFileToString(files_, path, &earlier);
  if (!status.ok() && !status.IsNotFound()) return ToLevelDb(status);
  if (earlier.empty()) return NewWritableFile(path, file);
  const std::string copy = path + ".append";
  std::unique_ptr<varve::WritableFile> opened;
  status = files_->NewWritableFile(copy, FileOptions(), &opened);
  if (!status.ok()) return ToLevelDb(status);
  status = opened->Append(earlier);
  if (status.ok()) status = opened->Sync();
  if (status.ok()) status = files_->RenameFile(copy, path);
  if (!status.ok()) {
    opened.reset();
    files_->RemoveFile(copy).IgnoreError();
    return ToLevelDb(status);
  }
  *file = new OwnWritableFile(files_, DirectoryOf(path), std::move(opened));
  return leveldb::Status();
}

bool OwnEnv::FileExists(const std::string& path) {
  return files_->FileExists(path).ok();
}

leveldb::Status OwnEnv::GetChildren(const std::string& path,
                                    std::vector<std::string>* names) {
  names->clear();
  return ToLevelDb(files_->GetChildren(path, names));
}

leveldb::Status OwnEnv::RemoveFile(const std::string& path) {
  return ToLevelDb(files_->RemoveFile(path));
}

leveldb::Status OwnEnv::CreateDir(const std::string& path) {
  // LevelDB's environment in memory has no directories, and never fails here.
  if (owner_ == nullptr && files_->FileExists(path).ok()) {
    return IOError(path, "File exists");
  }
  return ToLevelDb(files_->CreateDirIfMissing(path));
}

leveldb::Status OwnEnv::RemoveDir(const std::string& path) {
  return ToLevelDb(files_->RemoveDir(path));
}

leveldb::Status OwnEnv::GetFileSize(const std::string& path, uint64_t* size) {
  *size = 0;
  return ToLevelDb(files_->GetFileSize(path, size));
}

leveldb::Status OwnEnv::RenameFile(const std::string& source,
                                   const std::string& target) {
  return ToLevelDb(files_->RenameFile(source, target));
}

leveldb::Status OwnEnv::LockFile(const std::string& path,
                                 leveldb::FileLock** lock) {
  *lock = nullptr;
  std::unique_ptr<varve::FileLock> taken;
  const Status status = files_->LockFile(path, &taken);
  if (status.ok()) *lock = new OwnFileLock(std::move(taken));
  return ToLevelDb(status);
}

leveldb::Status OwnEnv::UnlockFile(leveldb::FileLock* lock) {
  const std::unique_ptr<OwnFileLock> owned(static_cast<OwnFileLock*>(lock));
  return ToLevelDb(files_->UnlockFile(owned->Take()));
}

void OwnEnv::Schedule(void (*function)(void*), void* argument) {
  if (base_ != nullptr) return base_->Schedule(function, argument);
  SharedEnv()
      ->Schedule([function, argument] { function(argument); },
                 varve::Env::Priority::kLow)
      .IgnoreError();  // LevelDB's call cannot fail.
}

void OwnEnv::StartThread(void (*function)(void*), void* argument) {
  if (base_ != nullptr) return base_->StartThread(function, argument);
  auto call = std::make_unique<Call>(function, argument);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &RunCall, call.get()) != 0) {
    // LevelDB's call cannot fail either, and ends the process here.
    abort();
  }
  (void)call.release();  // RunCall has it.
  pthread_detach(thread);
}

leveldb::Status OwnEnv::GetTestDirectory(std::string* path) {
  if (base_ != nullptr) return base_->GetTestDirectory(path);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): LevelDB reads it in the same way.
  const char* const given = getenv("TEST_TMPDIR");
  if (given == nullptr || *given == '\0') {
    *path = "/tmp/leveldbtest-" + std::to_string(geteuid());
    return ToLevelDb(files_->CreateDirIfMissing(*path));
  }
  *path = given;
  // It may be a link to a directory, since the user chose it.
  files_->CreateDirIfMissing(*path).IgnoreError();
  return leveldb::Status();
}

leveldb::Status OwnEnv::NewLogger(const std::string& path,
                                  leveldb::Logger** logger) {
  *logger = nullptr;
  std::shared_ptr<varve::Logger> opened;
  const Status status = files_->NewLogger(path, &opened);
  if (status.ok()) *logger = new OwnLogger(std::move(opened));
  return ToLevelDb(status);
}

uint64_t OwnEnv::NowMicros() { return files_->NowMicros(); }

void OwnEnv::SleepForMicroseconds(int duration_us) {
  if (duration_us > 0) {
    files_->SleepForMicroseconds(static_cast<uint64_t>(duration_us));
  }
}

}  // namespace varve::compat

namespace leveldb {

// Never destroyed, like the engine's.
Env* Env::Default() {
  static Env* const env =
      new varve::compat::OwnEnv(varve::compat::SharedEnv(), nullptr, nullptr);
  return env;
}

Env* NewMemEnv(Env* base) {
  auto files = std::make_unique<varve::compat::MemoryEnv>(
      varve::NewMemoryEnv(varve::compat::SharedEnv()));
  varve::Env* const target = files.get();
  return new varve::compat::OwnEnv(target, std::move(files), base);
}

}  // namespace leveldb
