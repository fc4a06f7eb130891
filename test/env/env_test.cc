// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: every Env keeps the contract of varve/env.h. Method: the same cases
// over the operating system, over memory, and over memory with the fault
// injector between.

#include "varve/env.h"

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/mutex.h"
#include "util/base/random.h"
#include "varve/testing/fault_injection_env.h"

namespace varve {
namespace {

enum class Kind { kPosix, kMemory, kFaultInjection };

class EnvTest : public testing::TestWithParam<Kind> {
 protected:
  EnvTest() : memory_(NewMemoryEnv(Env::Default())), faulty_(memory_.get()) {
    switch (GetParam()) {
      case Kind::kPosix:
        env_ = Env::Default();
        directory_ = on_disk_.path();
        break;
      case Kind::kMemory:
        env_ = memory_.get();
        directory_ = "/d";
        break;
      case Kind::kFaultInjection:
        env_ = &faulty_;
        directory_ = "/d";
        break;
    }
    EXPECT_TRUE(env_->CreateDirIfMissing(directory_).ok());
  }

  std::string Path(const std::string& name) const {
    return directory_ + "/" + name;
  }
  void Write(const std::string& path, const Slice& data) {
    ASSERT_TRUE(Ok(WriteStringToFile(env_, data, path, false)));
  }
  std::string Read(const std::string& path) {
    std::string data;
    const Status status = ReadFileToString(env_, path, &data);
    return status.ok() ? data : status.ToString();
  }
  std::vector<std::string> Children(const std::string& path) {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env_->GetChildren(path, &names)));
    std::sort(names.begin(), names.end());
    return names;
  }
  std::unique_ptr<WritableFile> NewFile(const std::string& name) {
    std::unique_ptr<WritableFile> file;
    const Status status =
        env_->NewWritableFile(Path(name), FileOptions(), &file);
    EXPECT_TRUE(Ok(status));
    return file;
  }

  test::TempDir on_disk_;
  std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  Env* env_ = nullptr;
  std::string directory_;
};

using Names = std::vector<std::string>;

TEST_P(EnvTest, ReadsBackWhatWasWrittenInPiecesOfAnySize) {
  Random random(test::TestSeed());
  std::string expected;
  auto file = NewFile("f");
  for (int i = 0; i < 60; ++i) {
    // Around the buffer's size and far above it, too.
    const size_t limits[] = {2, 100, 65537, 200000};
    std::string piece(random.Uniform(limits[i % 4]), '\0');
    for (char& c : piece) c = static_cast<char>(random.Next());
    expected += piece;
    ASSERT_TRUE(file->Append(piece).ok());
    ASSERT_EQ(file->Size(), expected.size());
    if (random.OneIn(5)) {
      ASSERT_TRUE(file->Flush().ok());
      uint64_t size = 0;
      ASSERT_TRUE(env_->GetFileSize(Path("f"), &size).ok());
      ASSERT_EQ(size, expected.size());
    }
    if (random.OneIn(20)) {
      ASSERT_TRUE(file->Sync().ok());
    }
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(Path("f")), expected);

  std::unique_ptr<RandomAccessFile> reader;
  ASSERT_TRUE(
      env_->NewRandomAccessFile(Path("f"), FileOptions(), &reader).ok());
  std::string scratch(70000, '\0');
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random.Uniform(expected.size() + 1000);
    const size_t count = random.Uniform(scratch.size());
    Slice result;
    reader->Prefetch(offset, count);
    ASSERT_TRUE(reader->Read(offset, count, &result, scratch.data()).ok());
    const std::string wanted =
        offset < expected.size() ? expected.substr(offset, count) : "";
    ASSERT_TRUE(result == Slice(wanted));
  }
}

TEST_P(EnvTest, MultiReadGivesEachRequestItsOwnResult) {
  Write(Path("f"), "0123456789");
  std::unique_ptr<RandomAccessFile> file;
  ASSERT_TRUE(env_->NewRandomAccessFile(Path("f"), FileOptions(), &file).ok());
  char scratch[3][4];
  ReadRequest requests[3];
  for (size_t i = 0; i < 3; ++i) {
    requests[i].offset = 4 * i;
    requests[i].length = 4;
    requests[i].scratch = scratch[i];
  }
  file->MultiRead(requests, 3);
  EXPECT_EQ(requests[0].result.ToString(), "0123");
  EXPECT_EQ(requests[1].result.ToString(), "4567");
  EXPECT_EQ(requests[2].result.ToString(), "89");
  for (const ReadRequest& request : requests) EXPECT_TRUE(request.status.ok());
}

TEST_P(EnvTest, SequentialFileSkipsAndStopsAtTheEnd) {
  Write(Path("f"), "0123456789");
  std::unique_ptr<SequentialFile> file;
  ASSERT_TRUE(env_->NewSequentialFile(Path("f"), FileOptions(), &file).ok());
  char scratch[16];
  Slice result;
  ASSERT_TRUE(file->Skip(3).ok());
  ASSERT_TRUE(file->Read(2, &result, scratch).ok());
  EXPECT_EQ(result.ToString(), "34");
  ASSERT_TRUE(file->Skip(UINT64_MAX).ok());
  ASSERT_TRUE(file->Read(2, &result, scratch).ok());
  EXPECT_TRUE(result.empty());
}

TEST_P(EnvTest, MissingFilesAreNotFound) {
  std::unique_ptr<SequentialFile> sequential;
  std::unique_ptr<RandomAccessFile> random_access;
  std::unique_ptr<WritableFile> writable;
  std::unique_ptr<Directory> directory;
  std::vector<std::string> names;
  std::string data = "untouched";
  uint64_t size = 7;
  const FileOptions options;
  const std::string path = Path("missing");
  EXPECT_TRUE(env_->NewSequentialFile(path, options, &sequential).IsNotFound());
  EXPECT_TRUE(
      env_->NewRandomAccessFile(path, options, &random_access).IsNotFound());
  EXPECT_TRUE(
      env_->NewWritableFile(path + "/f", options, &writable).IsNotFound());
  EXPECT_TRUE(env_->NewDirectory(path, &directory).IsNotFound());
  EXPECT_TRUE(env_->FileExists(path).IsNotFound());
  EXPECT_TRUE(env_->GetChildren(path, &names).IsNotFound());
  EXPECT_TRUE(env_->RemoveFile(path).IsNotFound());
  EXPECT_TRUE(env_->RemoveDir(path).IsNotFound());
  EXPECT_TRUE(env_->GetFileSize(path, &size).IsNotFound());
  EXPECT_TRUE(env_->RenameFile(path, Path("x")).IsNotFound());
  EXPECT_TRUE(env_->LinkFile(path, Path("x")).IsNotFound());
  EXPECT_TRUE(env_->Truncate(path, 1).IsNotFound());
  EXPECT_TRUE(env_->CreateDirIfMissing(path + "/d").IsNotFound());
  const Status status = ReadFileToString(env_, path, &data);
  EXPECT_TRUE(status.IsNotFound());
  EXPECT_NE(status.ToString().find(path), std::string::npos);
  EXPECT_EQ(data, "untouched");
  EXPECT_EQ(size, 7u);
  EXPECT_EQ(writable, nullptr);
}

TEST_P(EnvTest, DirectoriesAndFilesAreNotTakenForEachOther) {
  Write(Path("f"), "x");
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("sub")).ok());
  std::unique_ptr<WritableFile> writable;
  std::unique_ptr<Directory> directory;
  std::vector<std::string> names;
  EXPECT_TRUE(env_->CreateDirIfMissing(Path("sub")).ok());
  EXPECT_TRUE(env_->CreateDirIfMissing(Path("f")).IsIOError());
  EXPECT_TRUE(env_->NewDirectory(Path("f"), &directory).IsIOError());
  EXPECT_TRUE(env_->GetChildren(Path("f"), &names).IsIOError());
  EXPECT_TRUE(env_->RemoveFile(Path("sub")).IsIOError());
  EXPECT_TRUE(env_->RemoveDir(Path("f")).IsIOError());
  EXPECT_TRUE(env_->RenameFile(Path("f"), Path("sub")).IsIOError());
  EXPECT_TRUE(env_->RenameFile(Path("sub"), Path("f")).IsIOError());
  EXPECT_TRUE(env_->RenameFile(Path("sub"), Path("sub/x")).IsIOError());
  EXPECT_TRUE(
      env_->NewWritableFile(Path("sub"), FileOptions(), &writable).IsIOError());
  EXPECT_TRUE(env_->FileExists(Path("f/x")).IsNotFound());
  EXPECT_TRUE(env_->FileExists(Path("sub")).ok());
  Write(Path("sub/f"), "y");
  EXPECT_TRUE(env_->RemoveDir(Path("sub")).IsIOError());
  EXPECT_EQ(Children(directory_), (Names{"f", "sub"}));
}

TEST_P(EnvTest, ListsRemovesAndSyncsDirectories) {
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("sub")).ok());
  Write(Path("sub/a"), "1");
  Write(Path("sub//./b"), "2");
  EXPECT_EQ(Children(Path("sub/")), (Names{"a", "b"}));
  std::unique_ptr<Directory> directory;
  ASSERT_TRUE(env_->NewDirectory(Path("sub"), &directory).ok());
  EXPECT_TRUE(directory->Sync().ok());
  EXPECT_TRUE(env_->RemoveFile(Path("sub/a")).ok());
  EXPECT_TRUE(env_->RemoveFile(Path("sub/../sub/b")).ok() ||
              GetParam() == Kind::kFaultInjection);
  env_->RemoveFile(Path("sub/b")).IgnoreError();
  EXPECT_TRUE(env_->RemoveDir(Path("sub")).ok());
  EXPECT_EQ(Children(directory_), Names{});
}

TEST_P(EnvTest, RenameReplacesItsTarget) {
  Write(Path("a"), "new");
  Write(Path("b"), "old");
  ASSERT_TRUE(env_->RenameFile(Path("a"), Path("b")).ok());
  EXPECT_EQ(Children(directory_), Names{"b"});
  EXPECT_EQ(Read(Path("b")), "new");
  ASSERT_TRUE(env_->RenameFile(Path("b"), Path("b")).ok());
  EXPECT_EQ(Read(Path("b")), "new");
}

TEST_P(EnvTest, RenameMovesADirectoryWithItsFiles) {
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("a")).ok());
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("a/deep")).ok());
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("empty")).ok());
  Write(Path("a/deep/f"), "x");
  ASSERT_TRUE(env_->RenameFile(Path("a"), Path("empty")).ok());
  EXPECT_EQ(Children(directory_), Names{"empty"});
  EXPECT_EQ(Read(Path("empty/deep/f")), "x");
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("b")).ok());
  EXPECT_TRUE(env_->RenameFile(Path("b"), Path("empty")).IsIOError());
}

TEST_P(EnvTest, LinkSharesTheBytes) {
  Write(Path("a"), "0123456789");
  ASSERT_TRUE(env_->LinkFile(Path("a"), Path("b")).ok());
  EXPECT_TRUE(env_->LinkFile(Path("a"), Path("b")).IsIOError());
  ASSERT_TRUE(env_->Truncate(Path("a"), 4).ok());
  EXPECT_EQ(Read(Path("b")), "0123");
  // Both names of one file stay.
  ASSERT_TRUE(env_->RenameFile(Path("a"), Path("b")).ok());
  EXPECT_EQ(Children(directory_), (Names{"a", "b"}));
  ASSERT_TRUE(env_->RemoveFile(Path("a")).ok());
  EXPECT_EQ(Read(Path("b")), "0123");
}

TEST_P(EnvTest, SyncsAFileByItsName) {
  Write(Path("f"), "0123");
  EXPECT_TRUE(env_->SyncFile(Path("f")).ok());
  EXPECT_EQ(Read(Path("f")), "0123");
  EXPECT_TRUE(env_->SyncFile(Path("none")).IsNotFound());
}

TEST_P(EnvTest, TruncateCutsAndExtendsWithZeros) {
  Write(Path("f"), "0123");
  ASSERT_TRUE(env_->Truncate(Path("f"), 2).ok());
  ASSERT_TRUE(env_->Truncate(Path("f"), 4).ok());
  EXPECT_EQ(Read(Path("f")), std::string("01\0\0", 4));
}

TEST_P(EnvTest, NewWritableFileReplacesTheOldOne) {
  Write(Path("f"), "0123");
  auto file = NewFile("f");
  uint64_t size = 1;
  ASSERT_TRUE(env_->GetFileSize(Path("f"), &size).ok());
  EXPECT_EQ(size, 0u);
}

TEST_P(EnvTest, NewFilesLeaveOtherNamesOfTheOldOneAlone) {
  Write(Path("f"), "0123");
  ASSERT_TRUE(env_->LinkFile(Path("f"), Path("linked")).ok());
  auto file = NewFile("f");
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(Path("f")), "x");
  EXPECT_EQ(Read(Path("linked")), "0123");
  ASSERT_TRUE(env_->RemoveFile(Path("f")).ok());
  ASSERT_TRUE(env_->LinkFile(Path("linked"), Path("f")).ok());
  std::shared_ptr<Logger> logger;
  ASSERT_TRUE(env_->NewLogger(Path("f"), &logger).ok());
  Log(LogLevel::kInfo, logger.get(), "a line");
  EXPECT_EQ(Read(Path("linked")), "0123");
  EXPECT_NE(Read(Path("f")).find("a line"), std::string::npos);
  EXPECT_EQ(Children(directory_), (Names{"f", "linked"}));
}

TEST_P(EnvTest, OpenFilesOutliveTheirNames) {
  auto writer = NewFile("f");
  ASSERT_TRUE(writer->Append("before").ok());
  ASSERT_TRUE(writer->Flush().ok());
  std::unique_ptr<RandomAccessFile> reader;
  ASSERT_TRUE(
      env_->NewRandomAccessFile(Path("f"), FileOptions(), &reader).ok());
  ASSERT_TRUE(env_->RemoveFile(Path("f")).ok());
  ASSERT_TRUE(writer->Append(", after").ok());
  ASSERT_TRUE(writer->Close().ok());
  Write(Path("f"), "another");
  char scratch[32];
  Slice result;
  ASSERT_TRUE(reader->Read(0, sizeof(scratch), &result, scratch).ok());
  EXPECT_EQ(result.ToString(), "before, after");
}

TEST_P(EnvTest, AClosedFileRefusesEverything) {
  auto file = NewFile("f");
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(file->Append("y").IsIOError());
  EXPECT_TRUE(file->Flush().IsIOError());
  EXPECT_TRUE(file->Sync().IsIOError());
  EXPECT_TRUE(file->Close().IsIOError());
  file->Allocate(0, 100);
  file->RangeSync(0, 100);
  file.reset();
  EXPECT_EQ(Read(Path("f")), "x");
}

TEST_P(EnvTest, AllocateDoesNotChangeTheSize) {
  auto file = NewFile("f");
  file->Allocate(0, 1 << 20);
  ASSERT_TRUE(file->Append("abc").ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(Read(Path("f")), "abc");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(Path("f")), "abc");
}

TEST_P(EnvTest, LockExcludesOthersUntilUnlocked) {
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<FileLock> second;
  ASSERT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  EXPECT_TRUE(env_->FileExists(Path("LOCK")).ok());
  EXPECT_TRUE(env_->LockFile(Path("LOCK"), &second).IsBusy());
  // Another path and another name are still the same file.
  EXPECT_TRUE(env_->LockFile(Path(".//LOCK"), &second).IsBusy());
  ASSERT_TRUE(env_->LinkFile(Path("LOCK"), Path("alias")).ok());
  EXPECT_TRUE(env_->LockFile(Path("alias"), &second).IsBusy());
  EXPECT_EQ(second, nullptr);
  ASSERT_TRUE(env_->LockFile(Path("other"), &second).ok());
  ASSERT_TRUE(env_->UnlockFile(std::move(second)).ok());
  ASSERT_TRUE(env_->UnlockFile(std::move(lock)).ok());
  ASSERT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  ASSERT_TRUE(env_->UnlockFile(std::move(lock)).ok());
}

TEST_P(EnvTest, OfManyThreadsOneGetsTheLock) {
  std::atomic<int> holders = 0;
  std::atomic<int> successes = 0;
  test::RunThreads(4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      std::unique_ptr<FileLock> lock;
      const Status status = env_->LockFile(Path("LOCK"), &lock);
      if (!status.ok()) {
        EXPECT_TRUE(IsBusy(status));
        continue;
      }
      EXPECT_EQ(holders.fetch_add(1), 0);
      ++successes;
      holders.fetch_sub(1);
      EXPECT_TRUE(env_->UnlockFile(std::move(lock)).ok());
    }
  });
  EXPECT_GT(successes.load(), 0);
}

TEST_P(EnvTest, ThreadsWorkInOneDirectory) {
  test::RunThreads(4, [this](int t) {
    const std::string mine = Path(std::to_string(t));
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(WriteStringToFile(env_, mine, mine + ".tmp", false).ok());
      EXPECT_TRUE(env_->RenameFile(mine + ".tmp", mine).ok());
      std::vector<std::string> names;
      EXPECT_TRUE(env_->GetChildren(directory_, &names).ok());
      std::string data;
      EXPECT_TRUE(ReadFileToString(env_, mine, &data).ok());
      EXPECT_EQ(data, mine);
    }
  });
  EXPECT_EQ(Children(directory_), (Names{"0", "1", "2", "3"}));
}

TEST_P(EnvTest, LoggerWritesALineAMessage) {
  std::shared_ptr<Logger> logger;
  ASSERT_TRUE(env_->NewLogger(Path("LOG"), &logger).ok());
  Log(LogLevel::kInfo, nullptr, "nobody hears %d", 1);
  Log(LogLevel::kInfo, logger.get(), "number %d", 42);
  Log(LogLevel::kWarn, logger.get(), "ends its line itself\n\n");
  const std::string large(5000, 'x');
  Log(LogLevel::kError, logger.get(), "%s", large.c_str());
  Log(LogLevel::kDebug, logger.get(), "%s", "");
  logger.reset();

  const std::string log = Read(Path("LOG"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4);
  EXPECT_TRUE(log.ends_with(" [DEBUG] \n"));
  EXPECT_NE(log.find(" [WARN] ends its line itself\n"), std::string::npos);
  EXPECT_NE(log.find(" [ERROR] " + large + "\n"), std::string::npos);
  const std::string first = log.substr(0, log.find('\n'));
  EXPECT_TRUE(first.ends_with(" [INFO] number 42")) << first;
  // 2026/11/21-08:09:20.123456 4711 [INFO] number 42
  const std::string pattern = "0000/00/00-00:00:00.000000 ";
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool digit = first[i] >= '0' && first[i] <= '9';
    EXPECT_TRUE(pattern[i] == '0' ? digit : first[i] == pattern[i]) << first;
  }
}

TEST_P(EnvTest, SchedulesWorkOfBothPriorities) {
  Mutex mu;
  CondVar done;
  int left = 20;
  env_->RaiseBackgroundThreads(2, Env::Priority::kLow);
  for (int i = 0; i < 20; ++i) {
    const auto priority =
        i % 2 == 0 ? Env::Priority::kLow : Env::Priority::kHigh;
    const Status status = env_->Schedule(
        [&] {
          MutexLock lock(&mu);
          if (--left == 0) done.Signal();
        },
        priority);
    ASSERT_TRUE(status.ok());
  }
  MutexLock lock(&mu);
  while (left > 0) done.Wait(&mu);
}

TEST_P(EnvTest, HighPriorityWorkDoesNotWaitForLow) {
  Mutex mu;
  CondVar changed;
  bool high_done = false;
  bool low_done = false;
  ASSERT_TRUE(env_->Schedule(
                      [&] {
                        MutexLock lock(&mu);
                        while (!high_done) changed.Wait(&mu);
                        low_done = true;
                        changed.SignalAll();
                      },
                      Env::Priority::kLow)
                  .ok());
  ASSERT_TRUE(env_->Schedule(
                      [&] {
                        MutexLock lock(&mu);
                        high_done = true;
                        changed.SignalAll();
                      },
                      Env::Priority::kHigh)
                  .ok());
  MutexLock lock(&mu);
  while (!low_done) changed.Wait(&mu);
}

TEST_P(EnvTest, ClocksAgreeWithSleep) {
  const uint64_t nanos = env_->NowNanos();
  const uint64_t micros = env_->NowMicros();
  env_->SleepForMicroseconds(2000);
  EXPECT_GE(env_->NowNanos() - nanos, 2000000u);
  EXPECT_GT(micros, uint64_t{1600000000} * 1000000);
}

INSTANTIATE_TEST_SUITE_P(AllEnvs, EnvTest,
                         testing::Values(Kind::kPosix, Kind::kMemory,
                                         Kind::kFaultInjection),
                         [](const auto& parameter) -> std::string {
                           switch (parameter.param) {
                             case Kind::kPosix:
                               return "Posix";
                             case Kind::kMemory:
                               return "Memory";
                             case Kind::kFaultInjection:
                               return "FaultInjection";
                           }
                           return "Unknown";
                         });

TEST(WriteStringToFileTest, LeavesNoFilesWhenItFails) {
  const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env(memory.get());
  const OperationMask kinds[] = {kCreateOperation, kWriteOperation,
                                 kSyncOperation, kCloseOperation};
  for (const OperationMask kind : kinds) {
    env.FailAfter(0, FaultInjectionEnv::InjectedError(), kind);
    EXPECT_TRUE(WriteStringToFile(&env, "x", "/f", true).IsIOError());
    EXPECT_TRUE(env.FileExists("/f").IsNotFound());
  }
}

}  // namespace
}  // namespace varve
