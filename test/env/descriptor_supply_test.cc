// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads unsanitized

// Goal: opens that run out of descriptors get the ones that owners release, the
// program keeps its reserve, and waits end. Method: owners that hold
// descriptors of the process, under a limit that the test lowers; and calls
// that fail as often as the test sets.

#include "env/descriptor_supply.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/base/mutex.h"
#include "varve/env.h"

namespace varve {
namespace {

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Holds descriptors. Thread-safe.
class Holder : public DescriptorOwner {
 public:
  Holder() { AddDescriptorOwner(this); }
  ~Holder() override {
    RemoveDescriptorOwner(this);
    MutexLock lock(&mu_);
    for (const int descriptor : held_) close(descriptor);
  }
  void Take(int descriptor) {
    ASSERT_GE(descriptor, 0);
    MutexLock lock(&mu_);
    held_.push_back(descriptor);
  }
  size_t Held() const override {
    MutexLock lock(&mu_);
    return held_.size();
  }
  CloseResult GiveBack(size_t count, size_t keep) override {
    MutexLock lock(&mu_);
    ++calls_;
    CloseResult result;
    while (result.closed < count && held_.size() > keep) {
      close(held_.back());
      held_.pop_back();
      ++result.closed;
    }
    result.more_soon = pinned_;
    return result;
  }
  void Pin(bool pinned) {
    MutexLock lock(&mu_);
    pinned_ = pinned;
  }
  int calls() const {
    MutexLock lock(&mu_);
    return calls_;
  }

 private:
  mutable Mutex mu_;
  std::vector<int> held_ VARVE_GUARDED_BY(mu_);
  bool pinned_ VARVE_GUARDED_BY(mu_) = false;
  int calls_ VARVE_GUARDED_BY(mu_) = 0;
};

class DescriptorSupplyTest : public testing::Test {
 protected:
  DescriptorSupplyTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    first_ = OpenNull();
    close(first_);
  }
  ~DescriptorSupplyTest() override {
    setrlimit(RLIMIT_NOFILE, &before_);
    RefreshDescriptorLimit();
  }
  static void Limit(int count) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(count);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  rlimit before_{};
  int first_ = -1;  // The lowest number that is free at first.
};

TEST_F(DescriptorSupplyTest, TheReserveIsHalfOfTheLimit) {
  EXPECT_EQ(DescriptorReserveBegin(12), 4);
  EXPECT_EQ(DescriptorReserveBegin(33), 16);
  EXPECT_EQ(DescriptorReserveBegin(64), 32);
  EXPECT_EQ(DescriptorReserveBegin(1024), 512);
  EXPECT_EQ(DescriptorReserveBegin(20000), 10000);
  EXPECT_EQ(DescriptorReserveBegin(0), 1);
  EXPECT_EQ(DescriptorReserveBegin(8), 1);
  EXPECT_EQ(DescriptorReserveBegin(UINT64_MAX), INT_MAX);
}

TEST_F(DescriptorSupplyTest,
       HeldDescriptorsAreReturnedAndTheProgramHasItsReserve) {
  Holder large;
  Holder small;
  const int limit = 2 * (first_ + 50);
  Limit(limit);
  RefreshDescriptorLimit();
  const int begin = CurrentReserveBegin();
  ASSERT_EQ(begin, limit / 2);
  for (int i = 0; i < 3; ++i) small.Take(OpenDescriptor(&OpenNull));
  for (int i = 0; i < 400; ++i) large.Take(OpenDescriptor(&OpenNull));
  EXPECT_EQ(small.Held(), 3u);
  EXPECT_GT(large.Held(), 30u);
  // The reserve is there for open calls that give nothing back, but for the
  // few that had lower numbers since the last was given back.
  std::vector<int> own;
  for (int i = 0; i < (limit - begin) * 3 / 4; ++i) {
    own.push_back(OpenNull());
    EXPECT_GE(own.back(), 0) << i;
  }
  for (const int descriptor : own) close(descriptor);
}

TEST_F(DescriptorSupplyTest, AnOpenGetsADescriptorThoughThereIsNone) {
  Holder holder;
  while (true) {
    Limit(first_ + 60);
    const int descriptor = OpenNull();
    if (descriptor < 0) break;
    holder.Take(descriptor);
  }
  ASSERT_EQ(errno, EMFILE);
  const uint64_t before = DescriptorShortages();
  const int descriptor = OpenDescriptor(&OpenNull);
  EXPECT_GE(descriptor, 0);
  EXPECT_GT(DescriptorShortages(), before);
  close(descriptor);
}

TEST_F(DescriptorSupplyTest, ALimitThatIsLoweredFarBelowIsKept) {
  Holder holder;
  for (int i = 0; i < 300; ++i) holder.Take(OpenDescriptor(&OpenNull));
  Limit(first_ + 40);
  const int descriptor = OpenDescriptor(&OpenNull);
  EXPECT_GE(descriptor, 0);
  EXPECT_LT(descriptor, first_ + 40);
  close(descriptor);
}

TEST_F(DescriptorSupplyTest, EachCallOfTheEnvMayMeetTheShortage) {
  const test::TempDir directory;
  Env* const env = Env::Default();
  const std::string path = directory.Sub("file");
  ASSERT_TRUE(WriteStringToFile(env, "text", path, false).ok());
  Holder holder;
  const auto exhaust = [&] {
    for (int fd = OpenNull(); fd >= 0; fd = OpenNull()) holder.Take(fd);
  };
  Limit(first_ + 50);
  exhaust();
  std::unique_ptr<SequentialFile> sequential;
  EXPECT_TRUE(env->NewSequentialFile(path, {}, &sequential).ok());
  exhaust();
  std::unique_ptr<RandomAccessFile> random;
  EXPECT_TRUE(env->NewRandomAccessFile(path, {}, &random).ok());
  exhaust();
  std::unique_ptr<WritableFile> writable;
  EXPECT_TRUE(env->NewWritableFile(directory.Sub("new"), {}, &writable).ok());
  exhaust();
  std::unique_ptr<Directory> handle;
  EXPECT_TRUE(env->NewDirectory(directory.path(), &handle).ok());
  exhaust();
  std::vector<std::string> names;
  EXPECT_TRUE(env->GetChildren(directory.path(), &names).ok());
  EXPECT_EQ(names.size(), 2u);
  exhaust();
  std::unique_ptr<FileLock> lock;
  EXPECT_TRUE(env->LockFile(directory.Sub("LOCK"), &lock).ok());
  EXPECT_TRUE(env->UnlockFile(std::move(lock)).ok());
  exhaust();
  std::shared_ptr<Logger> logger;
  EXPECT_TRUE(env->NewLogger(directory.Sub("LOG"), &logger).ok());
}

TEST_F(DescriptorSupplyTest, APassingFailureIsNotReported) {
  for (const int error : {EMFILE, ENFILE}) {
    int failures = 3;
    const int descriptor = OpenDescriptor([&] {
      if (failures-- > 0) {
        errno = error;
        return -1;
      }
      return OpenNull();
    });
    EXPECT_GE(descriptor, 0);
    close(descriptor);
  }
}

TEST_F(DescriptorSupplyTest, AFailureForGoodIsReportedWithItsErrno) {
  int calls = 0;
  const auto refuse = [&calls](int error) {
    ++calls;
    errno = error;
    return -1;
  };
  EXPECT_LT(OpenDescriptor([&] { return refuse(ENOENT); }), 0);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(calls, 1);
  EXPECT_LT(OpenDescriptor([&] { return refuse(EMFILE); }), 0);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_GT(calls, 10);
  calls = 0;
  const NoDescriptorWait no_wait;
  EXPECT_LT(OpenDescriptor([&] { return refuse(ENFILE); }), 0);
  EXPECT_EQ(errno, ENFILE);
  EXPECT_LT(calls, 5);
}

// A read has all there is; the opening waits for its end.
TEST_F(DescriptorSupplyTest, PinnedObjectsAreWaitedFor) {
  Holder holder;
  holder.Pin(true);
  std::atomic<bool> free{false};
  std::thread reader([&] {
    while (holder.calls() < 80) std::this_thread::yield();
    free = true;
  });
  const int descriptor = OpenDescriptor([&] {
    errno = EMFILE;
    return free ? OpenNull() : -1;
  });
  reader.join();
  EXPECT_GE(descriptor, 0);
  close(descriptor);
}

TEST_F(DescriptorSupplyTest, AnOwnerMayLeaveAtAnyTime) {
  std::atomic<bool> stop{false};
  std::thread opener([&] {
    const NoDescriptorWait no_wait;
    while (!stop) {
      OpenDescriptor([] {
        errno = EMFILE;
        return -1;
      });
    }
  });
  for (int i = 0; i < 200; ++i) {
    Holder holder;
    holder.Take(OpenNull());
    std::this_thread::yield();
  }
  stop = true;
  opener.join();
}

TEST_F(DescriptorSupplyTest, ErrorsAreDistinguished) {
  EXPECT_TRUE(IsOutOfDescriptors(Status::FromErrno("open x", EMFILE)));
  EXPECT_TRUE(IsOutOfDescriptors(
      Status::FromErrno("open x", ENFILE).Annotate("a flush")));
  EXPECT_FALSE(IsOutOfDescriptors(Status::FromErrno("open x", EACCES)));
  EXPECT_FALSE(IsOutOfDescriptors(Status::OK()));
  EXPECT_FALSE(IsOutOfDescriptors(Status::NotFound("x")));
}

}  // namespace
}  // namespace varve
