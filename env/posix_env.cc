// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "env/descriptor_supply.h"
#include "env/direct_io.h"
#include "env/io_ring.h"
#include "env/posix_file.h"
#include "env/posix_lock.h"
#include "env/posix_multi_read.h"
#include "env/posix_read_map.h"
#include "env/uncached_open.h"
#include "util/base/process_wide.h"
#include "util/threads/thread_pool.h"
#include "util/threads/thread_starter.h"
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

// Converts the result of a system call that returns 0 for success.
Status Outcome(int result, const char* call, const std::string& path) {
  if (result == 0) return Status::OK();
  return Status::FromErrno(std::string(call) + " " + path, errno);
}

// State that all environments of the process share.
struct PosixProcess {
  DirectIoAlignment direct_io_alignment;
  ThreadPool low_priority_pool{
      {.name = "varve:low", .lower_cpu_priority = true}};
  ThreadPool medium_priority_pool{
      {.name = "varve:medium", .lower_cpu_priority = false}};
  ThreadPool high_priority_pool{
      {.name = "varve:high", .lower_cpu_priority = false}};
};

class PosixEnv final : public DirectoryEnv {
 public:
  explicit PosixEnv(PosixProcess* process) : process_(process) {}
  // For `directory`, a path in `outer`, which must outlive this.
  PosixEnv(const PosixEnv* outer, std::string directory)
      : process_(outer->process_), outer_(outer), root_(std::move(directory)) {
    while (!root_.empty() && root_.back() == '/') root_.pop_back();
  }
  ~PosixEnv() override { CloseDirectory(); }
  PosixEnv(const PosixEnv&) = delete;
  PosixEnv& operator=(const PosixEnv&) = delete;

  Status Hold() override {
    const std::string path = root_.empty() ? "/" : root_;
    Status status =
        PosixOpen(outer_->Locate(path), O_RDONLY | O_DIRECTORY, &descriptor_);
    if (status.ok()) owner_ = FileOwner(descriptor_);
    return status;
  }
  void LetGo() override { CloseDirectory(); }

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
  Status RemoveFile(const std::string& path) override;
  Status CreateDirIfMissing(const std::string& path) override;
  Status RemoveDir(const std::string& path) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status GetFileId(const std::string& path, FileId* id) override;
  Status GetFileModificationTime(const std::string& path,
                                 uint64_t* time_s) override;
  Status RenameFile(const std::string& source,
                    const std::string& target) override;
  Status LinkFile(const std::string& source,
                  const std::string& target) override;
  Status SyncFile(const std::string& path) override;
  Status Truncate(const std::string& path, uint64_t size) override;
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override;
  Status UnlockFile(std::unique_ptr<FileLock> lock) override;
  std::string AbsolutePath(const std::string& path) override;
  std::unique_ptr<DirectoryEnv> NewDirectoryEnv(
      const std::string& directory) override {
    if (directory.empty()) return nullptr;
    return std::make_unique<PosixEnv>(this, directory);
  }
  Status Schedule(std::function<void()> work, Priority priority) override {
    return PoolOf(priority).Schedule(std::move(work));
  }
  void RaiseBackgroundThreads(int count, Priority priority) override {
    ThreadStarter::Get().InheritFromThisThread();
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
  void CloseDirectory() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }
  // Returns where to look up a path. The path must outlive the result.
  FilePlace Locate(const std::string& path) const;
  bool IsHeld(const FilePlace& place) const {
    return descriptor_ >= 0 && place.directory == descriptor_;
  }
  bool IsRoot(const FilePlace& place) const {
    return IsHeld(place) && std::string_view(place.name) == ".";
  }
  // Before a change of a name: checks that it would still be in the directory
  // that was locked.
  Status Verify(const FilePlace& place) const {
    return IsHeld(place) && lock_ != nullptr ? lock_->Verify() : Status::OK();
  }
  ThreadPool& PoolOf(Priority priority) {
    switch (priority) {
      case Priority::kHigh:
        return process_->high_priority_pool;
      case Priority::kMedium:
        return process_->medium_priority_pool;
      default:
        return process_->low_priority_pool;
    }
  }

  PosixProcess* const process_;
  // Only for an Env of one directory.
  const PosixEnv* const outer_ = nullptr;
  std::string root_;  // Without a slash at the end.
  int descriptor_ = -1;
  FileOwner owner_;
  const FileLock* lock_ = nullptr;  // On a file in it.
};

FilePlace PosixEnv::Locate(const std::string& path) const {
  if (outer_ == nullptr) return {path};
  if (descriptor_ < 0 || !path.starts_with(root_)) return outer_->Locate(path);
  const char* name = path.c_str() + root_.size();
  if (*name != '/' && *name != '\0') return outer_->Locate(path);
  while (*name == '/') ++name;
  return {path, descriptor_, *name == '\0' ? "." : name, &owner_};
}

Status PosixEnv::NewSequentialFile(const std::string& path,
                                   const FileOptions& /*options*/,
                                   std::unique_ptr<SequentialFile>* file) {
  // Always through the page cache: files read sequentially are small (CURRENT,
  // MANIFEST) or were just written (a WAL).
  int descriptor = -1;
  // Reading a device might never end.
  Status status = PosixOpenRegular(Locate(path), O_RDONLY, &descriptor);
  if (status.ok()) *file = NewPosixSequentialFile(path, descriptor);
  return status;
}

Status PosixEnv::NewRandomAccessFile(const std::string& path,
                                     const FileOptions& options,
                                     std::unique_ptr<RandomAccessFile>* file) {
  int descriptor = -1;
  if (options.uncached_open) {
    size_t alignment = 1;
    Status status = OpenUncached(Locate(path), options.use_direct_reads,
                                 &descriptor, &alignment);
    if (status.ok()) {
      *file = NewPosixRandomAccessFile(
          path, descriptor, options.use_direct_reads ? alignment : 1);
    }
    return status;
  }
  if (options.use_direct_reads) {
    Status status = PosixOpen(Locate(path), O_RDONLY | O_DIRECT, &descriptor);
    if (status.ok()) {
      const size_t alignment =
          process_->direct_io_alignment.Get(path, descriptor);
      if (alignment > 0) {
        *file = NewPosixRandomAccessFile(path, descriptor, alignment);
        return Status::OK();
      }
      close(descriptor);
    } else if (status.IsNotFound()) {
      return status;
    }
    // The file system refuses direct reads. Any other error will occur again.
  }
  Status status = PosixOpen(Locate(path), O_RDONLY, &descriptor);
  if (!status.ok()) return status;
  if (options.use_mmap_reads && !options.use_direct_reads) {
    *file = MapPosixFile(path, descriptor);
    if (*file != nullptr) return status;
  }
  *file = NewPosixRandomAccessFile(path, descriptor, 1);
  return status;
}

Status PosixEnv::NewWritableFile(const std::string& path,
                                 const FileOptions& options,
                                 std::unique_ptr<WritableFile>* file) {
  // Only a file that is open for reading can be mapped for writing.
  const int access =
      options.write_method == WriteMethod::kCall ? O_WRONLY : O_RDWR;
  int descriptor = -1;
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (status.ok()) {
    status = PosixCreate(place, access, &descriptor);
  }
  if (!status.ok()) return status;
  *file = NewPosixWritableFile(path, descriptor, options);
  return status;
}

Status PosixEnv::NewDirectory(const std::string& path,
                              std::unique_ptr<Directory>* directory) {
  const FilePlace place = Locate(path);
  if (IsRoot(place)) {
    *directory = NewPosixDirectory(path, descriptor_, /*owns=*/false);
    return Status::OK();
  }
  int descriptor = -1;
  Status status = PosixOpen(place, O_RDONLY | O_DIRECTORY, &descriptor);
  if (status.ok()) *directory = NewPosixDirectory(path, descriptor);
  return status;
}

Status PosixEnv::FileExists(const std::string& path) {
  const FilePlace place = Locate(path);
  if (faccessat(place.directory, place.name, F_OK, 0) == 0) return Status::OK();
  // A file in place of a directory of the path means that nothing is there.
  const int error = errno == ENOTDIR ? ENOENT : errno;
  return Status::FromErrno("access " + path, error);
}

Status PosixEnv::GetChildren(const std::string& path,
                             std::vector<std::string>* names) {
  int descriptor = -1;
  Status status = PosixOpen(Locate(path), O_RDONLY | O_DIRECTORY, &descriptor);
  if (!status.ok()) return status;
  std::vector<std::string> found;
  // A stream of the C library takes three more system calls, and 32 KiB of
  // memory. The kernel's format: the length of an entry is at offset 16, its
  // name at 19.
  char entries[16 << 10];
  long bytes = 0;
  while ((bytes = syscall(SYS_getdents64, descriptor, entries,
                          sizeof(entries))) > 0) {
    for (long place = 0; place < bytes;) {
      uint16_t length = 0;
      memcpy(&length, entries + place + 16, sizeof(length));
      const std::string_view name = entries + place + 19;
      if (name != "." && name != "..") found.emplace_back(name);
      place += length;
    }
  }
  const int error = errno;
  close(descriptor);
  if (bytes < 0) return Status::FromErrno("getdents " + path, error);
  *names = std::move(found);
  return Status::OK();
}

Status PosixEnv::CreateDirIfMissing(const std::string& path) {
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (!status.ok()) return status;
  if (mkdirat(place.directory, place.name, 0755) == 0) {
    int created = -1;
    if (IsHeld(place) && owner_.differs() &&
        PosixOpen(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &created).ok()) {
      place.Adopt(created);
      close(created);
    }
    return status;
  }
  const int error = errno;
  struct stat info;
  // Links are not followed: one may lead to another owner's directory.
  if (error == EEXIST &&
      fstatat(place.directory, place.name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(info.st_mode)) {
    return Status::OK();
  }
  return Status::FromErrno("mkdir " + path, error);
}

Status PosixEnv::GetFileSize(const std::string& path, uint64_t* size) {
  struct stat info;
  const FilePlace place = Locate(path);
  Status status =
      Outcome(fstatat(place.directory, place.name, &info, 0), "stat", path);
  const bool leads_nowhere =
      !status.ok() &&
      fstatat(place.directory, place.name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  if ((status.ok() || leads_nowhere) && !S_ISREG(info.st_mode)) {
    return Status::NotSupported("stat " + path, "is no regular file");
  }
  if (status.ok()) *size = static_cast<uint64_t>(info.st_size);
  return status;
}

Status PosixEnv::GetFileId(const std::string& path, FileId* id) {
  struct stat info;
  const FilePlace place = Locate(path);
  Status status =
      Outcome(fstatat(place.directory, place.name, &info, 0), "stat", path);
  if (!status.ok()) return status;
  id->device = static_cast<uint64_t>(info.st_dev);
  id->number = static_cast<uint64_t>(info.st_ino);
  id->changed_ns = static_cast<uint64_t>(info.st_ctim.tv_sec) * 1000000000 +
                   static_cast<uint64_t>(info.st_ctim.tv_nsec);
  return status;
}

Status PosixEnv::LinkFile(const std::string& source,
                          const std::string& target) {
  const FilePlace from = Locate(source);
  const FilePlace to = Locate(target);
  Status status = Verify(to);
  if (!status.ok()) return status;
  if (linkat(from.directory, from.name, to.directory, to.name, 0) == 0) {
    return status;
  }
  const int error = errno;
  status = Status::FromErrno("link " + source + " to " + target, error);
  // Another file system, or one without links, or the maximum number of links.
  // Or a sandbox or a protection of links (fs.protected_hardlinks) forbids it.
  if (error == EXDEV || error == EPERM || error == EOPNOTSUPP ||
      error == EMLINK || error == ENOSYS || error == EACCES) {
    return Status::NotSupported(status.message());
  }
  return status;
}

Status PosixEnv::NewLogger(const std::string& path,
                           std::shared_ptr<Logger>* logger) {
  int descriptor = -1;
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (status.ok()) {
    status = PosixCreate(place, O_WRONLY | O_APPEND, &descriptor);
  }
  if (status.ok()) *logger = NewPosixLogger(descriptor);
  return status;
}

Status PosixEnv::RemoveFile(const std::string& path) {
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (!status.ok()) return status;
  return Outcome(unlinkat(place.directory, place.name, 0), "unlink", path);
}

Status PosixEnv::RemoveDir(const std::string& path) {
  const FilePlace found = Locate(path);
  // A directory has no name in itself.
  const FilePlace place = IsRoot(found) ? outer_->Locate(path) : found;
  Status status = Verify(place);
  if (!status.ok()) return status;
  return Outcome(unlinkat(place.directory, place.name, AT_REMOVEDIR), "rmdir",
                 path);
}

Status PosixEnv::GetFileModificationTime(const std::string& path,
                                         uint64_t* time_s) {
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (!status.ok()) return status;
  struct stat found;
  status =
      Outcome(fstatat(place.directory, place.name, &found, 0), "stat", path);
  if (status.ok()) *time_s = static_cast<uint64_t>(found.st_mtim.tv_sec);
  return status;
}

Status PosixEnv::RenameFile(const std::string& source,
                            const std::string& target) {
  const FilePlace from = Locate(source);
  const FilePlace to = Locate(target);
  Status status = Verify(from);
  if (status.ok() && !IsHeld(from)) status = Verify(to);
  if (!status.ok()) return status;
  return Outcome(renameat(from.directory, from.name, to.directory, to.name),
                 "rename", source + " to " + target);
}

Status PosixEnv::SyncFile(const std::string& path) {
  int descriptor = -1;
  Status status = PosixOpen(Locate(path), O_RDONLY, &descriptor);
  if (!status.ok()) return status;
  status = Outcome(fdatasync(descriptor), "sync", path);
  close(descriptor);
  return status;
}

Status PosixEnv::Truncate(const std::string& path, uint64_t size) {
  int descriptor = -1;
  const FilePlace place = Locate(path);
  Status status = Verify(place);
  if (status.ok()) status = PosixOpen(place, O_WRONLY, &descriptor);
  if (!status.ok()) return status;
  status = Outcome(ftruncate(descriptor, static_cast<off_t>(size)), "truncate",
                   path);
  close(descriptor);
  return status;
}

Status PosixEnv::LockFile(const std::string& path,
                          std::unique_ptr<FileLock>* lock) {
  const FilePlace place = Locate(path);
  Status status = LockPosixFile(place, this, lock);
  if (status.ok() && IsHeld(place) &&
      std::string_view(place.name).find('/') == std::string_view::npos) {
    lock_ = lock->get();
  }
  return status;
}

Status PosixEnv::UnlockFile(std::unique_ptr<FileLock> lock) {
  if (lock.get() == lock_) lock_ = nullptr;
  return UnlockPosixFile(std::move(lock));
}

std::string PosixEnv::AbsolutePath(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char directory[PATH_MAX];
  // An unreachable directory is returned without a leading slash.
  if (getcwd(directory, sizeof(directory)) == nullptr || directory[0] != '/') {
    return path;
  }
  std::string absolute = directory;
  if (absolute.back() != '/') absolute += '/';
  absolute += path;
  return absolute.size() < PATH_MAX ? absolute : path;
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
  // Never destroyed: its threads may run during process exit.
  static constinit ProcessWide<PosixEnv> env;
  return &env.Get([] { return std::make_unique<PosixEnv>(new PosixProcess); });
}

}  // namespace varve
