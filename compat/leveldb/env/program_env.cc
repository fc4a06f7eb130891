// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/env/program_env.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "compat/leveldb/convert.h"

namespace varve::compat {
namespace {

class ProgramSequentialFile final : public SequentialFile {
 public:
  explicit ProgramSequentialFile(leveldb::SequentialFile* file) : file_(file) {}
  Status Read(size_t count, Slice* result, char* scratch) override {
    // The engine takes fewer bytes for the end of the file. LevelDB's interface
    // does not say so, and a program's file may return less.
    size_t filled = 0;
    while (filled < count) {
      leveldb::Slice read;
      Status status =
          ToVarve(file_->Read(count - filled, &read, scratch + filled));
      if (!status.ok()) return status;
      if (read.empty()) break;
      if (filled == 0 && read.size() >= count) {
        *result = ToVarve(read);
        return status;
      }
      if (read.data() != scratch + filled) {
        memmove(scratch + filled, read.data(), read.size());
      }
      filled += read.size();
    }
    *result = Slice(scratch, filled);
    return Status::OK();
  }
  Status Skip(uint64_t count) override { return ToVarve(file_->Skip(count)); }

 private:
  const std::unique_ptr<leveldb::SequentialFile> file_;
};

class ProgramRandomAccessFile final : public RandomAccessFile {
 public:
  explicit ProgramRandomAccessFile(leveldb::RandomAccessFile* file)
      : file_(file) {}
  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    leveldb::Slice read;
    Status status = ToVarve(file_->Read(offset, count, &read, scratch));
    *result = ToVarve(read);
    return status;
  }

 private:
  const std::unique_ptr<leveldb::RandomAccessFile> file_;
};

class ProgramWritableFile final : public WritableFile {
 public:
  explicit ProgramWritableFile(leveldb::WritableFile* file) : file_(file) {}
  Status Append(const Slice& data) override {
    bytes_ += data.size();
    return ToVarve(file_->Append(ToLevelDb(data)));
  }
  Status Flush() override { return ToVarve(file_->Flush()); }
  Status Sync() override { return ToVarve(file_->Sync()); }
  Status Close() override { return ToVarve(file_->Close()); }
  uint64_t Size() const override { return bytes_; }

 private:
  const std::unique_ptr<leveldb::WritableFile> file_;
  uint64_t bytes_ = 0;
};

class ProgramDirectory final : public Directory {
 public:
  explicit ProgramDirectory(std::string path) : path_(std::move(path)) {}
  Status Sync() override {
    const int descriptor =
        open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // The program's Env may have its files elsewhere.
    if (descriptor < 0) return Status::OK();
    const int result = fsync(descriptor);
    const int error = errno;
    close(descriptor);
    // Some file systems cannot sync a directory, and need not.
    if (result == 0 || error == EINVAL) return Status::OK();
    return Status::FromErrno(path_, error);
  }

 private:
  const std::string path_;
};

class ProgramFileLock final : public FileLock {
 public:
  explicit ProgramFileLock(leveldb::FileLock* lock) : lock_(lock) {}
  leveldb::FileLock* Take() { return std::exchange(lock_, nullptr); }

 private:
  leveldb::FileLock* lock_;
};

class ProgramLogger final : public Logger {
 public:
  ProgramLogger(leveldb::Logger* logger, bool is_owner)
      : logger_(logger), is_owner_(is_owner) {}
  ~ProgramLogger() override {
    if (is_owner_) delete logger_;
  }
  void Logv(LogLevel /*level*/, const char* format,
            va_list arguments) override {
    logger_->Logv(format, arguments);
  }

 private:
  leveldb::Logger* const logger_;
  const bool is_owner_;
};

class ProgramEnv final : public Env {
 public:
  explicit ProgramEnv(leveldb::Env* target) : target_(target) {}

  Status NewSequentialFile(const std::string& path,
                           const FileOptions& /*options*/,
                           std::unique_ptr<SequentialFile>* file) override {
    leveldb::SequentialFile* opened = nullptr;
    Status status = ToVarve(target_->NewSequentialFile(path, &opened));
    if (status.ok()) *file = std::make_unique<ProgramSequentialFile>(opened);
    return status;
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& /*options*/,
                             std::unique_ptr<RandomAccessFile>* file) override {
    leveldb::RandomAccessFile* opened = nullptr;
    Status status = ToVarve(target_->NewRandomAccessFile(path, &opened));
    if (status.ok()) *file = std::make_unique<ProgramRandomAccessFile>(opened);
    return status;
  }
  Status NewWritableFile(const std::string& path,
                         const FileOptions& /*options*/,
                         std::unique_ptr<WritableFile>* file) override {
    if (target_->FileExists(path)) {
      Status status = ToVarve(target_->RemoveFile(path));
      if (!status.ok()) return status;
    }
    leveldb::WritableFile* opened = nullptr;
    Status status = ToVarve(target_->NewWritableFile(path, &opened));
    if (status.ok()) *file = std::make_unique<ProgramWritableFile>(opened);
    return status;
  }
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    *directory = std::make_unique<ProgramDirectory>(path);
    return Status::OK();
  }

  Status FileExists(const std::string& path) override {
    return target_->FileExists(path) ? Status::OK() : Status::NotFound(path);
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    Status status = ToVarve(target_->GetChildren(path, names));
    std::erase_if(*names, [](const std::string& name) {
      return name == "." || name == "..";
    });
    return status;
  }
  Status RemoveFile(const std::string& path) override {
    return ToVarve(target_->RemoveFile(path));
  }
  // LevelDB ignores the result of CreateDir: some programs return an error for
  // a directory that exists, and FileExists need not know directories.
  Status CreateDirIfMissing(const std::string& path) override {
    Status status = ToVarve(target_->CreateDir(path));
    if (status.ok()) return status;
    std::vector<std::string> names;
    return target_->GetChildren(path, &names).ok() ? Status::OK() : status;
  }
  Status RemoveDir(const std::string& path) override {
    return ToVarve(target_->RemoveDir(path));
  }
  Status GetFileSize(const std::string& path, uint64_t* size) override {
    return ToVarve(target_->GetFileSize(path, size));
  }
  Status RenameFile(const std::string& source,
                    const std::string& target) override {
    return ToVarve(target_->RenameFile(source, target));
  }
  Status LinkFile(const std::string& source,
                  const std::string& /*target*/) override {
    return Status::NotSupported(source, "the program's Env has no hard links");
  }
  Status Truncate(const std::string& path, uint64_t size) override {
    std::string bytes;
    Status status = ReadFileToString(this, path, &bytes);
    if (!status.ok()) return status;
    bytes.resize(size, '\0');
    return WriteStringToFile(this, bytes, path, /*sync=*/true);
  }

  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override {
    leveldb::FileLock* taken = nullptr;
    Status status = ToVarve(target_->LockFile(path, &taken));
    if (status.ok()) *lock = std::make_unique<ProgramFileLock>(taken);
    return status;
  }
  Status UnlockFile(std::unique_ptr<FileLock> lock) override {
    return ToVarve(
        target_->UnlockFile(static_cast<ProgramFileLock*>(lock.get())->Take()));
  }

  Status Schedule(std::function<void()> work, Priority /*priority*/) override {
    target_->Schedule(&RunWork, new std::function<void()>(std::move(work)));
    return Status::OK();
  }
  void RaiseBackgroundThreads(int /*count*/, Priority /*priority*/) override {}

  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override {
    leveldb::Logger* opened = nullptr;
    Status status = ToVarve(target_->NewLogger(path, &opened));
    if (status.ok()) {
      *logger = std::make_shared<ProgramLogger>(opened, /*is_owner=*/true);
    }
    return status;
  }

  uint64_t NowMicros() override { return target_->NowMicros(); }
  uint64_t NowNanos() override { return Env::Default()->NowNanos(); }
  void SleepForMicroseconds(uint64_t duration_us) override {
    Env::Default()->SleepForMicroseconds(duration_us);
  }

 private:
  static void RunWork(void* work) {
    const std::unique_ptr<std::function<void()>> owned(
        static_cast<std::function<void()>*>(work));
    (*owned)();
  }

  leveldb::Env* const target_;
};

}  // namespace

std::unique_ptr<Env> NewProgramEnv(leveldb::Env* target) {
  return std::make_unique<ProgramEnv>(target);
}

std::shared_ptr<Logger> NewProgramLogger(leveldb::Logger* target) {
  return std::make_shared<ProgramLogger>(target, /*is_owner=*/false);
}

}  // namespace varve::compat
