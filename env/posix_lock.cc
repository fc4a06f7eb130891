// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "env/posix_file.h"
#include "util/mutex.h"
#include "util/thread_annotations.h"

namespace varve {

namespace {

using FileIdentity = std::pair<dev_t, ino_t>;

FileIdentity IdentityOf(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

struct PosixFileLock final : public FileLock {
  PosixFileLock(std::string lock_path, FileIdentity lock_identity, int fd)
      : path(std::move(lock_path)), identity(lock_identity), descriptor(fd) {}

  const std::string path;
  const FileIdentity identity;
  const int descriptor;
};

struct LockTable {
  Mutex mu;
  std::set<FileIdentity> held VARVE_GUARDED_BY(mu);
};

// Never destroyed: locks may be released while the process exits.
LockTable* Table() {
  static LockTable* const table = new LockTable;
  return table;
}

Status HeldByProcess(const std::string& path, pid_t pid) {
  std::string holder = "held by ";
  if (pid > 0) {
    holder += "process " + std::to_string(pid);
    if (pid == getpid()) holder += ", this one";
  } else {
    holder += "another process";
  }
  return Status::Busy("lock " + path, holder);
}

// Takes the record lock on an open file, or says who has it.
Status TakeRecordLock(const std::string& path, int descriptor) {
  struct flock request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;  // From 0, length 0: all of the file.
  if (fcntl(descriptor, F_SETLK, &request) == 0) return Status::OK();
  if (errno != EACCES && errno != EAGAIN) {
    return Status::FromErrno("lock " + path, errno);
  }
  // Unknown (-1 or 0) if the holder has gone meanwhile, is in another
  // namespace, or has another kind of lock.
  const bool answered =
      fcntl(descriptor, F_GETLK, &request) == 0 && request.l_type != F_UNLCK;
  return HeldByProcess(path, answered ? request.l_pid : -1);
}

enum class Attempt : uint8_t { kDone, kFileReplaced };

// One attempt; the table's mutex is held.
Status TryLock(const std::string& path, std::set<FileIdentity>* held,
               Attempt* attempt, std::unique_ptr<FileLock>* lock) {
  struct stat info;
  *attempt = Attempt::kDone;
  if (lstat(path.c_str(), &info) == 0 && held->contains(IdentityOf(info))) {
    return HeldByProcess(path, getpid());
  }
  int descriptor = -1;
  Status status = PosixOpen(path, O_RDWR | O_CREAT | O_NOFOLLOW, &descriptor);
  if (!status.ok()) return status;
  if (fstat(descriptor, &info) != 0) {
    status = Status::FromErrno("stat " + path, errno);
  } else if (!S_ISREG(info.st_mode)) {
    status = Status::IOError("open " + path, "is no regular file");
  } else {
    status = TakeRecordLock(path, descriptor);
  }
  if (status.ok()) {
    // Between open and lock the last holder may have removed the file. The
    // lock on what has no name any more excludes nobody.
    struct stat named;
    if (lstat(path.c_str(), &named) != 0 ||
        IdentityOf(named) != IdentityOf(info)) {
      *attempt = Attempt::kFileReplaced;
      status = Status::Busy("lock " + path, "the file keeps being replaced");
    }
  }
  if (!status.ok()) {
    close(descriptor);
    return status;
  }
  held->insert(IdentityOf(info));
  *lock = std::make_unique<PosixFileLock>(path, IdentityOf(info), descriptor);
  return Status::OK();
}

}  // namespace

Status LockPosixFile(const std::string& path, std::unique_ptr<FileLock>* lock) {
  constexpr int kMaxAttempts = 100;
  LockTable* const table = Table();
  MutexLock guard(&table->mu);
  Status status;
  Attempt attempt = Attempt::kFileReplaced;
  for (int i = 0; i < kMaxAttempts && attempt == Attempt::kFileReplaced; ++i) {
    status = TryLock(path, &table->held, &attempt, lock);
  }
  return status;
}

Status UnlockPosixFile(std::unique_ptr<FileLock> lock) {
  const auto* held = static_cast<const PosixFileLock*>(lock.get());
  LockTable* const table = Table();
  MutexLock guard(&table->mu);
  table->held.erase(held->identity);
  // Closing releases the record lock.
  if (close(held->descriptor) != 0 && errno != EINTR) {
    return Status::FromErrno("unlock " + held->path, errno);
  }
  return Status::OK();
}

}  // namespace varve
