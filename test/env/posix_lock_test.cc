// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a lock is held until it is released, whatever its process and others do
// with the file. It excludes the record locks of other engines, in other
// processes and in this one. Its messages name the right process. Method:
// children and the same process try locks of both kinds.

#include "env/posix_lock.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "env/lock_holder.h"
#include "env/process_name.h"
#include "test/testing/forked.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/env.h"

namespace varve::test {
namespace {

// Takes the lock that RocksDB and LevelDB take. The descriptor, or -1.
int TakeRecordLock(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  struct flock request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  if (descriptor >= 0 && fcntl(descriptor, F_SETLK, &request) == 0) {
    return descriptor;
  }
  close(descriptor);
  return -1;
}

std::string Contents(const std::string& path) {
  std::string text;
  EXPECT_TRUE(ReadFileToString(Env::Default(), path, &text).ok());
  return text;
}

// Sleeps by a function.
class SleepEnv final : public EnvWrapper {
 public:
  explicit SleepEnv(std::function<void(int number)> sleep)
      : EnvWrapper(Env::Default()), sleep_(std::move(sleep)) {}
  void SleepForMicroseconds(uint64_t duration_us) override {
    slept_us_ += duration_us;
    if (sleep_ != nullptr) sleep_(++sleeps_);
  }
  int sleeps() const { return sleeps_; }
  uint64_t slept_us() const { return slept_us_; }

 private:
  const std::function<void(int)> sleep_;
  int sleeps_ = 0;
  uint64_t slept_us_ = 0;
};

class PosixLockTest : public ::testing::Test {
 protected:
  Status Lock(std::unique_ptr<FileLock>* lock) {
    return env_->LockFile(path_, lock);
  }
  Status Unlock(std::unique_ptr<FileLock> lock) {
    return env_->UnlockFile(std::move(lock));
  }
  // Whether a process of its own gets the lock, of either kind.
  bool AnotherProcessGetsIt() {
    const int answers = RunForked([this] {
      std::unique_ptr<FileLock> lock;
      const bool ours = Lock(&lock).ok();
      if (ours) Unlock(std::move(lock)).IgnoreError();
      const bool record = TakeRecordLock(path_) >= 0;
      return (ours ? 1 : 0) + (record ? 2 : 0);
    });
    EXPECT_TRUE(answers == 0 || answers == 3) << answers;
    return answers != 0;
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("LOCK");
  Env* const env_ = Env::Default();
};

TEST_F(PosixLockTest, StaysWhenTheProcessOpensAndClosesTheFile) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_FALSE(AnotherProcessGetsIt());
  for (const int flags : {O_RDONLY, O_RDWR, O_WRONLY}) {
    const int descriptor = open(path_.c_str(), flags | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    close(descriptor);
    EXPECT_FALSE(AnotherProcessGetsIt()) << flags;
  }
  std::filesystem::copy_file(path_, dir_.Sub("copy"));
  std::unique_ptr<FileLock> second;
  EXPECT_TRUE(Lock(&second).IsBusy());
  EXPECT_FALSE(AnotherProcessGetsIt());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_TRUE(AnotherProcessGetsIt());
}

TEST_F(PosixLockTest, RecordLockOfThisProcessExcludesItAndIsNotLost) {
  const int record = TakeRecordLock(path_);
  ASSERT_GE(record, 0);
  std::unique_ptr<FileLock> lock;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(IsBusy(Lock(&lock), "this one"));
    EXPECT_FALSE(AnotherProcessGetsIt()) << "the refusal dropped the lock";
  }
  close(record);
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_FALSE(AnotherProcessGetsIt());
  EXPECT_EQ(TakeRecordLock(path_), -1);
  EXPECT_TRUE(Unlock(std::move(lock)).ok());
}

TEST_F(PosixLockTest, MessageNamesTheHolderOfEitherKind) {
  for (const bool ours : {true, false}) {
    ForkedHolder holder([&] {
      std::unique_ptr<FileLock> lock;
      const bool got = ours ? Lock(&lock).ok() : TakeRecordLock(path_) >= 0;
      static_cast<void>(lock.release());  // As long as the process runs.
      // The kernel keeps 15 bytes of it.
      return prctl(PR_SET_NAME, "a b)\n\xFF the holder") == 0 && got;
    });
    ASSERT_TRUE(holder.ok());
    std::unique_ptr<FileLock> lock;
    const Status status = Lock(&lock);
    EXPECT_TRUE(status.IsBusy());
    const std::string name =
        "process " + std::to_string(holder.pid()) + " (a b)?? the hold)";
    EXPECT_TRUE(status.ToString().ends_with(": held by " + name))
        << status.ToString();
    LockHolder found;
    ASSERT_TRUE(FindLockHolder(path_, &found));
    EXPECT_EQ(found.description, name);
    EXPECT_EQ(found.pid, static_cast<uint64_t>(holder.pid()));
  }
}

TEST_F(PosixLockTest, FileIsEmptyWhileTheLockIsFree) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_TRUE(Contents(path_).starts_with(std::to_string(getpid()) + " "));
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_EQ(Contents(path_), "");
  // The text that a killed process left is overwritten.
  ASSERT_TRUE(
      WriteStringToFile(env_, "123456789 987654321\nmore", path_, false).ok());
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_EQ(Contents(path_), NameThisProcess());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
}

TEST_F(PosixLockTest, TextOfOthersIsNotTakenForAHolder) {
  for (const char* text : {"", "x", "0", "7", " 7 8", "99999999999999999999 1",
                           "-1 5", "\n\n\n"}) {
    EXPECT_EQ(DescribeProcess(text), "another process") << text;
  }
  // The pid is given to other processes in time.
  EXPECT_NE(DescribeProcess(std::to_string(getpid()) + " 1\n").find("ended"),
            std::string::npos);
  EXPECT_EQ(DescribeProcess(NameThisProcess()),
            "process " + std::to_string(getpid()) + ", this one");
  // Another process whose name has the pid only.
  EXPECT_EQ(DescribePid(uint64_t{1} << 40),
            "process " + std::to_string(uint64_t{1} << 40));
}

TEST_F(PosixLockTest, AForkedChildHasANameOfItsOwn) {
  const std::string own = NameThisProcess();
  EXPECT_EQ(NameThisProcess(), own);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Twice, since it is remembered.
    const std::string pid = std::to_string(getpid());
    for (int i = 0; i < 2; ++i) {
      const std::string name = NameThisProcess();
      if (!name.starts_with(pid + " ") ||
          DescribeProcess(name) != "process " + pid + ", this one") {
        _exit(1);
      }
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(NameThisProcess(), own);
}

TEST_F(PosixLockTest, LinkedCopyHasALockOfItsOwn) {
  ASSERT_TRUE(WriteStringToFile(env_, "", path_, false).ok());
  const std::string copy = dir_.Sub("copy");
  std::filesystem::create_hard_link(path_, copy);
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_TRUE(lock->Verify().ok());
  EXPECT_FALSE(AnotherProcessGetsIt());
  EXPECT_EQ(Contents(copy), "") << "the copy was written to";
  std::unique_ptr<FileLock> other;
  ASSERT_TRUE(env_->LockFile(copy, &other).ok());
  EXPECT_FALSE(AnotherProcessGetsIt());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_TRUE(AnotherProcessGetsIt());
  ASSERT_TRUE(Unlock(std::move(other)).ok());
}

TEST_F(PosixLockTest, CopyLinkedWhileHeldIsNotEmptied) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  const std::string copy = dir_.Sub("copy");
  std::filesystem::create_hard_link(path_, copy);
  std::unique_ptr<FileLock> other;
  EXPECT_TRUE(env_->LockFile(copy, &other).IsBusy());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_EQ(Contents(copy), NameThisProcess());
  ASSERT_TRUE(env_->LockFile(copy, &other).ok());
  EXPECT_TRUE(Unlock(std::move(other)).ok());
}

// The lock of a process that has ended, held by a child of it.
class OrphanedLock {
 public:
  explicit OrphanedLock(const std::string& path) {
    EXPECT_EQ(pipe(done_), 0);
    ForkedHolder parent([&] {
      std::unique_ptr<FileLock> lock;
      if (!Env::Default()->LockFile(path, &lock).ok()) return false;
      const pid_t child = fork();
      if (child == 0) {
        char byte;
        close(done_[1]);
        _exit(read(done_[0], &byte, 1) == 0 ? 0 : 1);
      }
      return child > 0;
    });
    EXPECT_TRUE(parent.ok());
    owner_ = parent.pid();
  }
  OrphanedLock(const OrphanedLock&) = delete;
  OrphanedLock& operator=(const OrphanedLock&) = delete;
  ~OrphanedLock() { LetGo(); }

  pid_t owner() const { return owner_; }
  // The child ends some time from now.
  void LetGo() {
    for (int& end : done_) {
      if (end >= 0) close(std::exchange(end, -1));
    }
  }

 private:
  int done_[2] = {-1, -1};
  pid_t owner_ = -1;
};

TEST_F(PosixLockTest, ForkedChildKeepsItWhenItsParentEnds) {
  const OrphanedLock orphaned(path_);
  SleepEnv clock(nullptr);
  std::unique_ptr<FileLock> lock;
  const Status status = LockPosixFile(path_, &clock, &lock);
  EXPECT_TRUE(IsBusy(status));
  // Its pid may be another's by now.
  EXPECT_NE(status.ToString().find(std::to_string(orphaned.owner()) +
                                   ", which has ended"),
            std::string::npos)
      << status.ToString();
  EXPECT_EQ(clock.slept_us(), 1000000);
  EXPECT_EQ(TakeRecordLock(path_), -1);
}

TEST_F(PosixLockTest, IsWaitedForIfItsOwnerHasEnded) {
  OrphanedLock orphaned(path_);
  SleepEnv clock([&](int number) {
    // Another lock can be taken and given back during the wait.
    std::unique_ptr<FileLock> other;
    EXPECT_TRUE(env_->LockFile(dir_.Sub("other"), &other).ok());
    EXPECT_TRUE(env_->UnlockFile(std::move(other)).ok());
    if (number == 3) {
      orphaned.LetGo();
      int record;
      while ((record = TakeRecordLock(path_)) < 0) sched_yield();
      close(record);
    }
  });
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Ok(LockPosixFile(path_, &clock, &lock)));
  EXPECT_EQ(clock.sleeps(), 3);
  EXPECT_EQ(Contents(path_), NameThisProcess());
  EXPECT_TRUE(Unlock(std::move(lock)).ok());
}

TEST_F(PosixLockTest, IsNotWaitedForIfItsOwnerRunsOrIsUnknown) {
  SleepEnv clock([](int) { FAIL(); });
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<FileLock> second;
  for (const bool ours : {true, false}) {
    // The name of a process that has ended is left in the file.
    ASSERT_TRUE(WriteStringToFile(env_, "1 1\n", path_, false).ok());
    const ForkedHolder holder([&] {
      const bool got = ours ? Lock(&lock).ok() : TakeRecordLock(path_) >= 0;
      static_cast<void>(lock.release());  // As long as the process runs.
      return got;
    });
    ASSERT_TRUE(holder.ok());
    EXPECT_TRUE(LockPosixFile(path_, &clock, &second).IsBusy());
  }
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_TRUE(LockPosixFile(path_, &clock, &second).IsBusy());
  // A program that has not written its name.
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_TRUE(LockPosixFile(path_, &clock, &second).IsBusy());
  EXPECT_TRUE(Unlock(std::move(lock)).ok());
}

TEST_F(PosixLockTest, ForkedChildDoesNotGiveBackTheLockOfItsParent) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_EQ(RunForked([&] { return Unlock(std::move(lock)).ok() ? 7 : 1; }), 7);
  EXPECT_FALSE(AnotherProcessGetsIt());
  EXPECT_EQ(Contents(path_), NameThisProcess());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
}

TEST_F(PosixLockTest, GivingItBackDoesNotWaitForForkedChildren) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  const ForkedHolder child([] { return true; });
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_TRUE(AnotherProcessGetsIt());
}

TEST_F(PosixLockTest, VerifyTellsWhetherThePathStillNamesTheFile) {
  std::filesystem::create_directory(dir_.Sub("d"));
  const std::string path = dir_.Sub("d/LOCK");
  const auto expect_lost = [&](const std::function<void()>& act) {
    std::unique_ptr<FileLock> lock;
    ASSERT_TRUE(env_->LockFile(path, &lock).ok());
    EXPECT_TRUE(lock->Verify().ok());
    act();
    EXPECT_TRUE(IsIOError(lock->Verify(), path));
    EXPECT_TRUE(Unlock(std::move(lock)).ok());
  };
  expect_lost([&] { std::filesystem::remove(path); });
  expect_lost([&] {
    std::filesystem::rename(path, dir_.Sub("moved"));
    ASSERT_TRUE(WriteStringToFile(env_, "", path, false).ok());
  });
  expect_lost([&] {
    std::filesystem::rename(dir_.Sub("d"), dir_.Sub("e"));
    std::filesystem::create_directory(dir_.Sub("d"));
  });
  expect_lost([&] { std::filesystem::remove_all(dir_.Sub("d")); });
}

// Filters this thread's attempts to take locks of open file descriptions.
// Returns what seccomp(2) returns.
int FilterDescriptionLocks(uint32_t action, unsigned flags) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
      // The low half of the second argument.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
               offsetof(struct seccomp_data, args) + sizeof(uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {};
  program.len = sizeof(filter) / sizeof(filter[0]);
  program.filter = filter;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

// The file is replaced after it was opened and before it is locked.
TEST_F(PosixLockTest, LocksTheFileThatHasTheName) {
  for (const std::string& path : {path_, dir_.Sub("new")}) {
    ASSERT_TRUE(WriteStringToFile(env_, "", path, false).ok());
  }
  int listener = -1;
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  std::unique_ptr<FileLock> lock;
  Actor locker;
  locker.Do([&] {
    listener = FilterDescriptionLocks(SECCOMP_RET_USER_NOTIF,
                                      SECCOMP_FILTER_FLAG_NEW_LISTENER);
  });
  if (listener < 0) GTEST_SKIP() << "no notifications of system calls";
  locker.Start([&] {
    EXPECT_TRUE(Lock(&lock).ok());
    EXPECT_EQ(write(done[1], "d", 1), 1);
  });
  for (int calls = 0;; ++calls) {
    pollfd events[] = {{done[0], POLLIN, 0}, {listener, POLLIN, 0}};
    EXPECT_GT(poll(events, 2, -1), 0);
    if (events[0].revents != 0) break;
    seccomp_notif call = {};
    EXPECT_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
    if (calls == 0) std::filesystem::rename(dir_.Sub("new"), path_);
    seccomp_notif_resp response = {};
    response.id = call.id;
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    EXPECT_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response), 0);
  }
  locker.Wait();
  ASSERT_NE(lock, nullptr);
  EXPECT_TRUE(lock->Verify().ok());
  EXPECT_FALSE(AnotherProcessGetsIt());
  EXPECT_TRUE(Unlock(std::move(lock)).ok());
  for (const int descriptor : {listener, done[0], done[1]}) close(descriptor);
}

TEST_F(PosixLockTest, FallsBackToRecordLocksAndSaysSo) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(Lock(&lock).ok());
  EXPECT_EQ(lock->Caveat(), nullptr);
  ASSERT_TRUE(Unlock(std::move(lock)).ok());
  EXPECT_EQ(RunForked([this] {
              // A kernel without them.
              if (FilterDescriptionLocks(SECCOMP_RET_ERRNO | EINVAL, 0) != 0) {
                return 1;
              }
              std::unique_ptr<FileLock> first;
              std::unique_ptr<FileLock> second;
              if (!Lock(&first).ok() || first->Caveat() == nullptr) return 2;
              // The refusal does not open the file, so that nothing is lost.
              if (!Lock(&second).IsBusy()) return 3;
              if (AnotherProcessGetsIt()) return 4;
              if (!Unlock(std::move(first)).ok()) return 5;
              if (!AnotherProcessGetsIt()) return 6;
              return Lock(&second).ok() ? 0 : 7;
            }),
            0);
}

}  // namespace
}  // namespace varve::test
