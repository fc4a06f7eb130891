// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "env/process_name.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"

namespace varve {

namespace {

using FileIdentity = std::pair<dev_t, ino_t>;

FileIdentity IdentityOf(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

enum class LockKind : uint8_t { kDescription, kRecord };

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(const FilePlace& place, FileIdentity lock_identity,
                LockKind lock_kind, int fd)
      : path(place.path),
        directory(place.directory),
        name(place.name),
        identity(lock_identity),
        kind(lock_kind),
        owner(getpid()),
        descriptor(fd) {}

  Status Verify() const override {
    struct stat named;
    if (fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) {
        return Status::FromErrno("stat " + path, errno);
      }
    } else if (IdentityOf(named) == identity) {
      return Status::OK();
    }
    return Status::IOError(
        path,
        "was removed or replaced while it was locked, or its directory "
        "was moved or removed");
  }

  const char* Caveat() const override {
    if (kind == LockKind::kDescription) return nullptr;
    return "a record lock, for want of locks of open file descriptions: if "
           "this "
           "process opens and closes the file elsewhere, it is lost";
  }

  const std::string path;
  const int directory;
  const std::string name;
  const FileIdentity identity;
  const LockKind kind;
  const pid_t owner;
  const int descriptor;
};

struct LockTable final : private ForkWatch {
  // A thread of the parent may have been opening a database.
  void InForkedChild() override {
    if (MakeFree(&mu)) return;
    // It may have been changing them. A child has none of its parent's record
    // locks.
    new (&held) std::set<FileIdentity>;
    new (&deferred) std::map<FileIdentity, int>;
  }

  Mutex mu;
  // Files with record locks.
  std::set<FileIdentity> held VARVE_GUARDED_BY(mu);
  // Descriptors of files on which other code of this process has a record lock,
  // which it would lose if they were closed. Each is used by the next attempt.
  std::map<FileIdentity, int> deferred VARVE_GUARDED_BY(mu);
  Registration fork_watch{this};  // Last: see ForkWatch.
};

// Never destroyed: locks may be released while the process exits.
LockTable* Table() {
  static constinit ProcessWide<LockTable> table;
  return &table.Get();
}

Status HeldBy(const std::string& path, const std::string& holder) {
  return Status::Busy("lock " + path, "held by " + holder);
}

// The holder of a lock that is not free.
enum class Holder : uint8_t {
  kOther,
  kRecordLockOfThisProcess,
  kEndedProcess,  // By the name in the file. A child of it holds the lock.
};

// Takes a lock on an open file, or returns an error that names the holder.
Status TakeLock(const std::string& path, int descriptor, LockKind* kind,
                Holder* holder) {
  struct flock request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;  // From 0, length 0: all of the file.
  *kind = LockKind::kDescription;
  int result = fcntl(descriptor, F_OFD_SETLK, &request);
  if (result != 0 && errno == EINVAL) {
    *kind = LockKind::kRecord;
    result = fcntl(descriptor, F_SETLK, &request);
  }
  if (result == 0) return Status::OK();
  if (errno != EACCES && errno != EAGAIN) {
    return Status::FromErrno("lock " + path, errno);
  }
  const int query = *kind == LockKind::kDescription ? F_OFD_GETLK : F_GETLK;
  if (fcntl(descriptor, query, &request) == 0 && request.l_type != F_UNLCK &&
      request.l_pid > 0) {
    if (request.l_pid == getpid()) *holder = Holder::kRecordLockOfThisProcess;
    return HeldBy(path, DescribePid(static_cast<uint64_t>(request.l_pid)));
  }
  // -1: an open file description lock, whose holder wrote its name. 0: a
  // process of another namespace. Or the holder has just unlocked it.
  const std::string name = ReadProcessName(descriptor);
  if (IsNameOfEndedProcess(name)) *holder = Holder::kEndedProcess;
  return HeldBy(path, DescribeProcess(name));
}

// One attempt to lock. again() is true if the file lost its name during it.
class Attempt {
 public:
  // `may_unlink`: a name of a file that has others may be removed.
  Attempt(const FilePlace& place, bool may_unlink)
      : place_(place), may_unlink_(may_unlink) {}
  ~Attempt() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  bool again() const { return again_; }
  Holder holder() const { return holder_; }

  Status Run(LockTable* table, std::unique_ptr<FileLock>* lock)
      VARVE_REQUIRES(table->mu) {
    Status status = Open(table);
    LockKind kind = LockKind::kDescription;
    if (status.ok()) {
      status = TakeLock(place_.path, descriptor_, &kind, &holder_);
      if (holder_ == Holder::kRecordLockOfThisProcess) {
        table->deferred[IdentityOf(info_)] = std::exchange(descriptor_, -1);
      }
    }
    if (status.ok()) status = CheckNames();
    if (!status.ok()) return status;
    if (kind == LockKind::kRecord) table->held.insert(IdentityOf(info_));
    *lock = std::make_unique<PosixFileLock>(place_, IdentityOf(info_), kind,
                                            std::exchange(descriptor_, -1));
    return status;
  }

 private:
  Status Open(LockTable* table) VARVE_REQUIRES(table->mu) {
    // Few kernels and file systems need these tables.
    if ((!table->held.empty() || !table->deferred.empty()) && Named(&info_)) {
      if (table->held.contains(IdentityOf(info_))) {
        return HeldBy(place_.path,
                      DescribePid(static_cast<uint64_t>(getpid())));
      }
      const auto deferred = table->deferred.find(IdentityOf(info_));
      if (deferred != table->deferred.end()) {
        descriptor_ = deferred->second;
        table->deferred.erase(deferred);
        return Status::OK();
      }
    }
    Status status =
        PosixOpen(place_, O_RDWR | O_CREAT | O_NOFOLLOW, &descriptor_);
    if (!status.ok()) return status;
    if (fstat(descriptor_, &info_) != 0) {
      return Status::FromErrno("stat " + place_.path, errno);
    }
    if (!S_ISREG(info_.st_mode)) {
      return Status::IOError("open " + place_.path, "is no regular file");
    }
    // It may just have been created. Later it has the holder's line.
    if (info_.st_size == 0) place_.Adopt(descriptor_);
    return status;
  }

  // The locked file must be the one that other processes will try to lock, and
  // must not belong to another directory.
  Status CheckNames() {
    // The last holder may have removed it between open and lock. A lock on a
    // file without a name excludes nobody.
    struct stat named;
    if (!Named(&named) || IdentityOf(named) != IdentityOf(info_)) {
      return TryAgain();
    }
    if (named.st_nlink <= 1) {
      WriteHolder();
    } else if (may_unlink_ && unlinkat(place_.directory, place_.name, 0) == 0) {
      // Only the holder of the lock on the file of this name may remove it.
      // Concurrent attempts find that their file has no name, or create a new
      // one. The next attempt then uses that.
      return TryAgain();
    }
    return Status::OK();
  }

  Status TryAgain() {
    again_ = true;
    return Status::Busy("lock " + place_.path, "the file keeps being replaced");
  }

  // Only for messages, so a failure changes nothing.
  void WriteHolder() {
    const std::string text = NameThisProcess();
    const ssize_t size = pwrite(descriptor_, text.data(), text.size(), 0);
    // The last holder emptied it, unless it was killed.
    if (info_.st_size > size &&
        ftruncate(descriptor_, std::max<ssize_t>(size, 0)) != 0) {
      return;
    }
  }

  bool Named(struct stat* info) const {
    return fstatat(place_.directory, place_.name, info, AT_SYMLINK_NOFOLLOW) ==
           0;
  }

  const FilePlace& place_;
  const bool may_unlink_;
  int descriptor_ = -1;
  struct stat info_ = {};
  bool again_ = false;
  Holder holder_ = Holder::kOther;
};

Status TryToLock(const FilePlace& place, std::unique_ptr<FileLock>* lock,
                 Holder* holder) {
  constexpr int kMaxAttempts = 100;
  LockTable* const table = Table();
  MutexLock guard(&table->mu);
  Status status;
  bool again = true;
  for (int i = 0; i < kMaxAttempts && again; ++i) {
    // Some file systems report link counts that are not reliable.
    Attempt attempt(place, i < kMaxAttempts / 2);
    status = attempt.Run(table, lock);
    again = attempt.again();
    *holder = attempt.holder();
  }
  return status;
}

}  // namespace

Status LockPosixFile(const FilePlace& place, Env* clock,
                     std::unique_ptr<FileLock>* lock) {
  constexpr uint64_t kPollUs = 2000;
  constexpr uint64_t kMaxWaitUs = 1000000;
  Holder holder;
  Status status = TryToLock(place, lock, &holder);
  for (uint64_t waited_us = 0;
       holder == Holder::kEndedProcess && waited_us < kMaxWaitUs;
       waited_us += kPollUs) {
    clock->SleepForMicroseconds(kPollUs);
    status = TryToLock(place, lock, &holder);
  }
  return status;
}

Status UnlockPosixFile(std::unique_ptr<FileLock> lock) {
  const auto* held = static_cast<const PosixFileLock*>(lock.get());
  if (held->owner != getpid()) {
    // A forked child only gives up its share. It must not wait for the table,
    // whose mutex a thread may have held that does not exist in the child.
    close(held->descriptor);
    return Status::OK();
  }
  if (held->kind == LockKind::kRecord) {
    LockTable* const table = Table();
    MutexLock guard(&table->mu);
    table->held.erase(held->identity);
  } else {
    struct stat info;
    if (fstat(held->descriptor, &info) == 0 && info.st_nlink <= 1 &&
        ftruncate(held->descriptor, 0) != 0) {
      // Only for messages. The next holder overwrites it.
    }
    // Explicit, since a child may have the description open.
    struct flock request = {};
    request.l_type = F_UNLCK;
    request.l_whence = SEEK_SET;
    if (fcntl(held->descriptor, F_OFD_SETLK, &request) != 0) {
      const int error_number = errno;
      close(held->descriptor);
      return Status::FromErrno("unlock " + held->path, error_number);
    }
  }
  close(held->descriptor);  // Releases a record lock.
  return Status::OK();
}

}  // namespace varve
