// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

#include "env/descriptor_supply.h"
#include "env/direct_io.h"
#include "env/io_ring.h"
#include "env/posix_file.h"
#include "env/posix_lock.h"
#include "env/posix_multi_read.h"
#include "env/uncached_open.h"
#include "util/thread_pool.h"
#include "varve/env.h"

namespace varve {

namespace {

uint64_t ReadClock(clockid_t clock, uint64_t units_per_second) {
  constexpr uint64_t kNanosPerSecond = 1000000000;
  struct timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * units_per_second +
         static_cast<uint64_t>(now.tv_nsec) /
             (kNanosPerSecond / units_per_second);
}

// Makes the status of a system call that returns 0 for success.
Status Outcome(int result, const char* call, const std::string& path) {
  if (result == 0) return Status::OK();
  return Status::FromErrno(std::string(call) + " " + path, errno);
}

class PosixEnv final : public Env {
 public:
  PosixEnv()
      : low_priority_pool_({.name = "varve:low", .lower_cpu_priority = true}),
        high_priority_pool_(
            {.name = "varve:high", .lower_cpu_priority = false}) {}

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override;
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override;
  void MultiRead(FileReadRequest* requests, size_t count,
                 const ReadDone& done) override {
    PosixMultiRead(requests, count, done);
  }
  std::string IoPath() override { return IoRingPath(); }
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override;
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override;
  Status FileExists(const std::string& path) override;
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override;
  Status RemoveFile(const std::string& path) override {
    return Outcome(unlink(path.c_str()), "unlink", path);
  }
  Status CreateDirIfMissing(const std::string& path) override;
  Status RemoveDir(const std::string& path) override {
    return Outcome(rmdir(path.c_str()), "rmdir", path);
  }
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status RenameFile(const std::string& source,
                    const std::string& target) override {
    return Outcome(rename(source.c_str(), target.c_str()), "rename",
                   source + " to " + target);
  }
  Status LinkFile(const std::string& source,
                  const std::string& target) override;
  Status Truncate(const std::string& path, uint64_t size) override {
    return Outcome(truncate(path.c_str(), static_cast<off_t>(size)), "truncate",
                   path);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override {
    return LockPosixFile(path, lock);
  }
  Status UnlockFile(std::unique_ptr<FileLock> lock) override {
    return UnlockPosixFile(std::move(lock));
  }
  Status Schedule(std::function<void()> work, Priority priority) override {
    return PoolOf(priority).Schedule(std::move(work));
  }
  void RaiseBackgroundThreads(int count, Priority priority) override {
    PoolOf(priority).SetThreads(count);
  }
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;
  uint64_t NowMicros() override { return ReadClock(CLOCK_REALTIME, 1000000); }
  uint64_t NowNanos() override {
    return ReadClock(CLOCK_MONOTONIC, 1000000000);
  }
  void SleepForMicroseconds(uint64_t duration_us) override;

 private:
  ThreadPool& PoolOf(Priority priority) {
    return priority == Priority::kHigh ? high_priority_pool_
                                       : low_priority_pool_;
  }

  DirectIoAlignment direct_io_alignment_;
  ThreadPool low_priority_pool_;
  ThreadPool high_priority_pool_;
};

Status PosixEnv::NewSequentialFile(const std::string& path,
                                   const FileOptions& /*options*/,
                                   std::unique_ptr<SequentialFile>* file) {
  // Always through the page cache: what is read from front to back is small
  // (CURRENT, MANIFEST) or was just written (a WAL).
  int descriptor = -1;
  // Reading a device might never end.
  Status status = PosixOpenRegular(path, O_RDONLY, &descriptor);
  if (status.ok()) *file = NewPosixSequentialFile(path, descriptor);
  return status;
}

Status PosixEnv::NewRandomAccessFile(const std::string& path,
                                     const FileOptions& options,
                                     std::unique_ptr<RandomAccessFile>* file) {
  int descriptor = -1;
  if (options.uncached_open) {
    size_t alignment = 1;
    Status status =
        OpenUncached(path, options.use_direct_reads, &descriptor, &alignment);
    if (status.ok()) {
      *file = NewPosixRandomAccessFile(
          path, descriptor, options.use_direct_reads ? alignment : 1);
    }
    return status;
  }
  if (options.use_direct_reads) {
    Status status = PosixOpen(path, O_RDONLY | O_DIRECT, &descriptor);
    if (status.ok()) {
      const size_t alignment = direct_io_alignment_.Get(path, descriptor);
      if (alignment > 0) {
        *file = NewPosixRandomAccessFile(path, descriptor, alignment);
        return Status::OK();
      }
      close(descriptor);
    } else if (status.IsNotFound()) {
      return status;
    }
    // The file system refuses direct reads; any other trouble comes again.
  }
  Status status = PosixOpen(path, O_RDONLY, &descriptor);
  if (status.ok()) *file = NewPosixRandomAccessFile(path, descriptor, 1);
  return status;
}

Status PosixEnv::NewWritableFile(const std::string& path,
                                 const FileOptions& options,
                                 std::unique_ptr<WritableFile>* file) {
  // Only what can also be read can be mapped for writing.
  const int access = options.use_mmap_writes ? O_RDWR : O_WRONLY;
  int descriptor = -1;
  Status status =
      PosixOpenRegular(path, access | O_CREAT | O_TRUNC, &descriptor);
  if (!status.ok()) return status;
  *file = options.use_mmap_writes
              ? NewPosixMmapFile(path, descriptor, options)
              : NewPosixWritableFile(path, descriptor, options);
  return status;
}

Status PosixEnv::NewDirectory(const std::string& path,
                              std::unique_ptr<Directory>* directory) {
  int descriptor = -1;
  Status status = PosixOpen(path, O_RDONLY | O_DIRECTORY, &descriptor);
  if (status.ok()) *directory = NewPosixDirectory(path, descriptor);
  return status;
}

Status PosixEnv::FileExists(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return Status::OK();
  // A file in the place of a directory of the path leaves no doubt either.
  const int error = errno == ENOTDIR ? ENOENT : errno;
  return Status::FromErrno("access " + path, error);
}

Status PosixEnv::GetChildren(const std::string& path,
                             std::vector<std::string>* names) {
  DIR* stream = nullptr;
  OpenDescriptor([&] {
    do {
      stream = opendir(path.c_str());
    } while (stream == nullptr && errno == EINTR);
    return stream == nullptr ? -1 : dirfd(stream);
  });
  if (stream == nullptr) return Status::FromErrno("opendir " + path, errno);
  std::vector<std::string> found;
  // Null means the end or an error; only errno tells which.
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is nobody else's.
  while (const struct dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") found.push_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) return Status::FromErrno("readdir " + path, error);
  *names = std::move(found);
  return Status::OK();
}

Status PosixEnv::CreateDirIfMissing(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return Status::OK();
  const int error = errno;
  struct stat info;
  // A link is not followed: it may lead to another's directory.
  if (error == EEXIST && lstat(path.c_str(), &info) == 0 &&
      S_ISDIR(info.st_mode)) {
    return Status::OK();
  }
  return Status::FromErrno("mkdir " + path, error);
}

Status PosixEnv::GetFileSize(const std::string& path, uint64_t* size) {
  struct stat info;
  Status status = Outcome(stat(path.c_str(), &info), "stat", path);
  if (status.ok()) *size = static_cast<uint64_t>(info.st_size);
  return status;
}

Status PosixEnv::LinkFile(const std::string& source,
                          const std::string& target) {
  if (link(source.c_str(), target.c_str()) == 0) return Status::OK();
  const int error = errno;
  Status status = Status::FromErrno("link " + source + " to " + target, error);
  // Another file system, or one that has no links, or no more of this file.
  if (error == EXDEV || error == EPERM || error == EOPNOTSUPP ||
      error == EMLINK) {
    return Status::NotSupported(status.message());
  }
  return status;
}

Status PosixEnv::NewLogger(const std::string& path,
                           std::shared_ptr<Logger>* logger) {
  int descriptor = -1;
  Status status = PosixOpenRegular(
      path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, &descriptor);
  if (status.ok()) *logger = NewPosixLogger(descriptor);
  return status;
}

void PosixEnv::SleepForMicroseconds(uint64_t duration_us) {
  struct timespec left = {
      .tv_sec = static_cast<time_t>(duration_us / 1000000),
      .tv_nsec = static_cast<long>(duration_us % 1000000 * 1000),
  };
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace

Env* Env::Default() {
  // Never destroyed: its threads may be at work while the process exits.
  static Env* const env = new PosixEnv;
  return env;
}

}  // namespace varve
