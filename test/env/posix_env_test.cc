// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: what only the environment of the operating system does: direct reads,
// space given back, locks against other processes, descriptors that children
// do not inherit, logs of many threads. Method: real files, and a child
// process that holds a lock.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "env/direct_io.h"
#include "env/posix_file.h"
#include "test/testing/env/refuse_system_calls.h"
#include "test/testing/forked.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/random.h"
#include "varve/env.h"

namespace varve {
namespace {

class PosixEnvTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  Env* const env_ = Env::Default();
  test::TempDir directory_;
};

std::string RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

// Reads all over a file and compares. `scratch` has space for 2 MiB.
void CheckReads(const RandomAccessFile& file, const std::string& expected,
                char* scratch) {
  const size_t alignment = file.RequiredAlignment();
  Random random(expected.size());
  for (int i = 0; i < 150; ++i) {
    size_t offset = random.Uniform(expected.size() + 2 * alignment);
    size_t count = random.Uniform(i % 10 == 0 ? 2000000 : 20000);
    size_t shift = random.Uniform(alignment);
    if (i % 3 == 0) {
      offset -= offset % alignment;
      count -= count % alignment;
      shift = 0;
    }
    Slice result;
    ASSERT_TRUE(file.Read(offset, count, &result, scratch + shift).ok());
    const std::string wanted =
        offset < expected.size() ? expected.substr(offset, count) : "";
    ASSERT_TRUE(result == Slice(wanted)) << offset << " " << count;
  }
}

// A copy by hard links shares the LOCK of the original.
TEST_F(PosixEnvTest, ALockFileWithOtherNamesIsReplaced) {
  ASSERT_TRUE(WriteStringToFile(env_, "kept", Path("LOCK"), false).ok());
  ASSERT_TRUE(env_->LinkFile(Path("LOCK"), Path("copy")).ok());
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<FileLock> of_copy;
  std::unique_ptr<FileLock> second;
  ASSERT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  ASSERT_TRUE(env_->LockFile(Path("copy"), &of_copy).ok());
  EXPECT_TRUE(env_->LockFile(Path("LOCK"), &second).IsBusy());
  EXPECT_TRUE(env_->LockFile(Path("copy"), &second).IsBusy());
  EXPECT_TRUE(env_->UnlockFile(std::move(lock)).ok());
  EXPECT_TRUE(env_->UnlockFile(std::move(of_copy)).ok());
}

TEST_F(PosixEnvTest, ReplacesAFileThoughACrashLeftItsTemporaryName) {
  ASSERT_TRUE(WriteStringToFile(env_, "old", Path("f"), false).ok());
  ASSERT_TRUE(WriteStringToFile(env_, "left", Path("f.dbtmp"), false).ok());
  ASSERT_TRUE(env_->LinkFile(Path("f.dbtmp"), Path("linked")).ok());
  ASSERT_TRUE(WriteStringToFile(env_, "new", Path("f"), false).ok());
  std::string contents;
  ASSERT_TRUE(ReadFileToString(env_, Path("f"), &contents).ok());
  EXPECT_EQ(contents, "new");
  EXPECT_TRUE(env_->FileExists(Path("f.dbtmp")).IsNotFound());
  ASSERT_TRUE(ReadFileToString(env_, Path("linked"), &contents).ok());
  EXPECT_EQ(contents, "left");
}

ino_t InodeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_ino;
}

TEST_F(PosixEnvTest, AnEmptyFileIsUsedAgainUnlessItHasOtherNames) {
  std::unique_ptr<WritableFile> file;
  const auto create = [&](const std::string& path) {
    ASSERT_TRUE(env_->NewWritableFile(path, {}, &file).ok());
    ASSERT_TRUE(file->Append("text").ok());
    ASSERT_TRUE(file->Close().ok());
  };
  for (const bool has_link : {false, true}) {
    const std::string path = Path(has_link ? "linked" : "empty");
    ASSERT_TRUE(WriteStringToFile(env_, "", path, false).ok());
    if (has_link) {
      ASSERT_TRUE(env_->LinkFile(path, Path("copy")).ok());
    }
    const ino_t before = InodeOf(path);
    create(path);
    EXPECT_EQ(InodeOf(path) == before, !has_link);
  }
  uint64_t size = 1;
  ASSERT_TRUE(env_->GetFileSize(Path("copy"), &size).ok());
  EXPECT_EQ(size, 0u);
  // Others could write to it.
  ASSERT_TRUE(WriteStringToFile(env_, "", Path("open"), false).ok());
  ASSERT_EQ(chmod(Path("open").c_str(), 0666), 0);
  const ino_t before = InodeOf(Path("open"));
  create(Path("open"));
  EXPECT_NE(InodeOf(Path("open")), before);
}

TEST_F(PosixEnvTest, ListsADirectoryOfManyFiles) {
  std::vector<std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back(std::string(1 + i % 100, 'n') + std::to_string(i));
    std::unique_ptr<WritableFile> file;
    ASSERT_TRUE(env_->NewWritableFile(Path(expected.back()), {}, &file).ok());
  }
  std::vector<std::string> names;
  ASSERT_TRUE(env_->GetChildren(directory_.path(), &names).ok());
  std::sort(expected.begin(), expected.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, expected);
  EXPECT_FALSE(env_->GetChildren(Path(expected[0]), &names).ok());
}

TEST_F(PosixEnvTest, DirectReadsGiveTheSameBytes) {
  for (const size_t size : {0u, 1u, 511u, 512u, 4096u, 3000001u}) {
    SCOPED_TRACE(size);
    const std::string bytes = RandomBytes(size, size);
    ASSERT_TRUE(WriteStringToFile(env_, bytes, Path("f"), true).ok());
    FileOptions options{.use_direct_reads = true};
    std::unique_ptr<RandomAccessFile> file;
    ASSERT_TRUE(env_->NewRandomAccessFile(Path("f"), options, &file).ok());
    const size_t alignment = file->RequiredAlignment();
    EXPECT_EQ(alignment & (alignment - 1), 0u);
    file->Prefetch(0, size);
    struct FreeDeleter {
      void operator()(char* memory) const { free(memory); }
    };
    const std::unique_ptr<char, FreeDeleter> scratch(
        static_cast<char*>(aligned_alloc(alignment, 2 << 20)));
    CheckReads(*file, bytes, scratch.get());
  }
}

TEST_F(PosixEnvTest, DirectReadsFallBackWhereTheyAreRefused) {
  // Files of /proc do not have them.
  FileOptions options{.use_direct_reads = true};
  std::unique_ptr<RandomAccessFile> file;
  ASSERT_TRUE(
      env_->NewRandomAccessFile("/proc/self/status", options, &file).ok());
  EXPECT_EQ(file->RequiredAlignment(), 1u);
  char scratch[16];
  Slice result;
  ASSERT_TRUE(file->Read(0, 5, &result, scratch).ok());
  EXPECT_EQ(result.ToString(), "Name:");
  EXPECT_TRUE(
      env_->NewRandomAccessFile(Path("missing"), options, &file).IsNotFound());
}

TEST_F(PosixEnvTest, AnyAlignmentWorksThroughTheCopy) {
  // On a buffered descriptor, so that it does not depend on the device.
  const std::string bytes = RandomBytes(1500001, 3);
  ASSERT_TRUE(WriteStringToFile(env_, bytes, Path("f"), false).ok());
  std::vector<char> scratch(2100000);
  for (const size_t alignment : {size_t{512}, size_t{4096}, size_t{65536}}) {
    int descriptor = -1;
    ASSERT_TRUE(PosixOpen(Path("f"), O_RDONLY, &descriptor).ok());
    const auto file =
        NewPosixRandomAccessFile(Path("f"), descriptor, alignment);
    CheckReads(*file, bytes, scratch.data());
    Slice result;
    EXPECT_TRUE(
        file->Read(UINT64_MAX, 10, &result, scratch.data()).IsIOError());
    EXPECT_TRUE(
        file->Read(uint64_t{1} << 62, 10, &result, scratch.data()).ok());
    EXPECT_TRUE(result.empty());
  }
}

TEST_F(PosixEnvTest, DirectIoAlignmentIsAskedOnceForEachDirectory) {
  ASSERT_TRUE(WriteStringToFile(env_, "x", Path("f"), false).ok());
  int descriptor = -1;
  ASSERT_TRUE(PosixOpen(Path("f"), O_RDONLY, &descriptor).ok());
  DirectIoAlignment alignments;
  const size_t alignment = alignments.Get(Path("f"), descriptor);
  close(descriptor);
  // A descriptor that cannot be asked: the answer must be the kept one.
  EXPECT_EQ(alignments.Get(Path("g"), -1), alignment);
}

TEST_F(PosixEnvTest, CloseGivesBackPreallocatedSpace) {
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(env_->NewWritableFile(Path("f"), FileOptions(), &file).ok());
  file->Allocate(0, 8 << 20);
  ASSERT_TRUE(file->Append("abc").ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Close().ok());
  struct stat info;
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 3);
  EXPECT_LE(info.st_blocks, 64);
}

// It takes longer than it is worth.
TEST_F(PosixEnvTest, CloseKeepsLittlePreallocatedSpace) {
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(env_->NewWritableFile(Path("f"), FileOptions(), &file).ok());
  file->Allocate(0, 16 << 10);
  ASSERT_TRUE(file->Append("abc").ok());
  ASSERT_TRUE(file->Close().ok());
  struct stat info;
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 3);
  EXPECT_LE(info.st_blocks, 64);
}

TEST_F(PosixEnvTest, FileThatIsSyncedOftenEndsInZerosUntilItIsClosed) {
  constexpr size_t kAhead = 4096;
  FileOptions options{.sync_ahead_bytes = kAhead};
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(env_->NewWritableFile(Path("f"), options, &file).ok());
  const std::string bytes = RandomBytes(20000, 7);
  const auto append = [&](size_t count) {
    ASSERT_TRUE(file->Append(Slice(bytes.data() + file->Size(), count)).ok());
    ASSERT_TRUE(file->Sync().ok());
    std::string read;
    ASSERT_TRUE(ReadFileToString(env_, Path("f"), &read).ok());
    ASSERT_GE(read.size(), file->Size());
    ASSERT_LE(read.size(), file->Size() + 2 * kAhead);
    EXPECT_EQ(read.substr(0, file->Size()), bytes.substr(0, file->Size()));
    EXPECT_EQ(read.substr(file->Size()),
              std::string(read.size() - file->Size(), '\0'));
  };
  uint64_t size = 0;
  int longer = 0;
  for (int i = 0; i < 100; ++i) {
    append(100);
    ASSERT_TRUE(env_->GetFileSize(Path("f"), &size).ok());
    longer += size > file->Size() ? 1 : 0;
  }
  // All but the first few.
  EXPECT_GE(longer, 80);
  // Not for large ones: that would double what is written.
  append(8000);
  ASSERT_TRUE(env_->GetFileSize(Path("f"), &size).ok());
  EXPECT_EQ(size, file->Size());
  append(100);
  ASSERT_TRUE(env_->GetFileSize(Path("f"), &size).ok());
  EXPECT_GT(size, file->Size());
  ASSERT_TRUE(file->Close().ok());
  std::string read;
  ASSERT_TRUE(ReadFileToString(env_, Path("f"), &read).ok());
  EXPECT_EQ(read, bytes.substr(0, 18100));
}

TEST_F(PosixEnvTest, PushesPagesWhileTheFileGrows) {
  FileOptions options{.bytes_per_sync = 10000};
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(env_->NewWritableFile(Path("f"), options, &file).ok());
  const std::string bytes = RandomBytes(300000, 4);
  for (size_t i = 0; i < bytes.size(); i += 3000) {
    ASSERT_TRUE(file->Append(Slice(bytes.data() + i, 3000)).ok());
    ASSERT_TRUE(file->Flush().ok());
  }
  ASSERT_TRUE(file->Close().ok());
  std::string read;
  ASSERT_TRUE(ReadFileToString(env_, Path("f"), &read).ok());
  EXPECT_EQ(read, bytes);
}

TEST_F(PosixEnvTest, AFullDeviceIsNoSpaceAndStaysAnError) {
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(env_->NewWritableFile("/dev/full", FileOptions(), &file).ok());
  ASSERT_TRUE(file->Append("x").ok());
  EXPECT_TRUE(IsNoSpace(file->Flush(), "/dev/full"));
  EXPECT_TRUE(file->Append("y").IsNoSpace());
  EXPECT_TRUE(file->Sync().IsNoSpace());
  EXPECT_TRUE(file->Close().IsNoSpace());
}

TEST_F(PosixEnvTest, ChildrenInheritNoDescriptor) {
  std::unique_ptr<WritableFile> writable;
  std::unique_ptr<RandomAccessFile> random_access;
  std::unique_ptr<SequentialFile> sequential;
  std::unique_ptr<Directory> directory;
  std::unique_ptr<FileLock> lock;
  std::shared_ptr<Logger> logger;
  const FileOptions options;
  ASSERT_TRUE(env_->NewWritableFile(Path("f"), options, &writable).ok());
  ASSERT_TRUE(
      env_->NewRandomAccessFile(Path("f"), options, &random_access).ok());
  ASSERT_TRUE(env_->NewSequentialFile(Path("f"), options, &sequential).ok());
  ASSERT_TRUE(env_->NewDirectory(directory_.path(), &directory).ok());
  ASSERT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  ASSERT_TRUE(env_->NewLogger(Path("LOG"), &logger).ok());
  std::vector<std::string> descriptors;
  ASSERT_TRUE(env_->GetChildren("/proc/self/fd", &descriptors).ok());
  int ours = 0;
  for (const std::string& name : descriptors) {
    char target[4096] = {};
    const std::string link = "/proc/self/fd/" + name;
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (!std::string(target).starts_with(directory_.path())) continue;
    ++ours;
    const int flags = fcntl(std::stoi(name), F_GETFD);
    EXPECT_NE(flags & FD_CLOEXEC, 0) << target;
  }
  EXPECT_EQ(ours, 6);
  ASSERT_TRUE(env_->UnlockFile(std::move(lock)).ok());
}

// A program that has closed its standard output may print all the same.
TEST_F(PosixEnvTest, FilesTakeNoStandardDescriptors) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) close(fd);
    std::unique_ptr<WritableFile> written;
    std::unique_ptr<RandomAccessFile> read;
    std::unique_ptr<Directory> directory;
    std::unique_ptr<FileLock> lock;
    bool ok = env_->NewWritableFile(Path("a"), FileOptions(), &written).ok() &&
              env_->NewRandomAccessFile(Path("a"), FileOptions(), &read).ok() &&
              env_->NewDirectory(directory_.path(), &directory).ok() &&
              env_->LockFile(Path("lock"), &lock).ok();
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
      ok = ok && write(fd, "printed", 7) < 0;
    }
    _exit(ok ? 0 : 1);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
  uint64_t size = 0;
  ASSERT_TRUE(env_->GetFileSize(Path("a"), &size).ok());
  EXPECT_EQ(size, 0u);
}

TEST_F(PosixEnvTest, NewFilesHaveTheUsualMode) {
  ASSERT_TRUE(WriteStringToFile(env_, "x", Path("f"), false).ok());
  const mode_t mask = umask(0);
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644 & ~mask);
}

// A process that holds, or asks for, the record lock that RocksDB takes.
bool HasRecordLock(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR);
  struct flock request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  return descriptor >= 0 && fcntl(descriptor, F_SETLK, &request) == 0;
}

TEST_F(PosixEnvTest, LockNamesTheProcessThatHoldsIt) {
  ASSERT_TRUE(WriteStringToFile(env_, "", Path("LOCK"), false).ok());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const char answer = HasRecordLock(Path("LOCK")) ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  std::unique_ptr<FileLock> lock;
  const Status status = env_->LockFile(Path("LOCK"), &lock);
  EXPECT_TRUE(status.IsBusy());
  EXPECT_NE(status.ToString().find("process " + std::to_string(child)),
            std::string::npos)
      << status.ToString();
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  // The lock died with its holder.
  EXPECT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  EXPECT_TRUE(env_->UnlockFile(std::move(lock)).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(PosixEnvTest, ARefusedSecondLockKeepsTheFirst) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(env_->LockFile(Path("LOCK"), &lock).ok());
  std::unique_ptr<FileLock> second;
  const Status status = env_->LockFile(Path("LOCK"), &second);
  EXPECT_NE(status.ToString().find(std::to_string(getpid())),
            std::string::npos);
  const auto another_process_gets_it = [this] {
    const pid_t child = fork();
    if (child == 0) _exit(HasRecordLock(Path("LOCK")) ? 1 : 0);
    int outcome = 0;
    EXPECT_EQ(waitpid(child, &outcome, 0), child);
    return WEXITSTATUS(outcome) == 1;
  };
  EXPECT_FALSE(another_process_gets_it());
  ASSERT_TRUE(env_->UnlockFile(std::move(lock)).ok());
  EXPECT_TRUE(another_process_gets_it());
}

TEST_F(PosixEnvTest, LockDoesNotFollowALink) {
  ASSERT_TRUE(WriteStringToFile(env_, "x", Path("victim"), false).ok());
  ASSERT_EQ(symlink(Path("victim").c_str(), Path("LOCK").c_str()), 0);
  std::unique_ptr<FileLock> lock;
  EXPECT_TRUE(env_->LockFile(Path("LOCK"), &lock).IsIOError());
  EXPECT_EQ(lock, nullptr);
}

TEST_F(PosixEnvTest, LinksThatCannotBeAreNotSupported) {
  ASSERT_TRUE(WriteStringToFile(env_, "x", Path("a"), false).ok());
  for (const int error : {EPERM, ENOSYS, EACCES, EOPNOTSUPP, EXDEV, EMLINK}) {
    EXPECT_EQ(test::RunForked([this, error] {
                if (!test::RefuseSystemCalls({SYS_linkat}, error)) return 2;
                const Status status = env_->LinkFile(Path("a"), Path("b"));
                return status.IsNotSupported() ? 0 : 1;
              }),
              0)
        << error;
  }
  EXPECT_EQ(test::RunForked([this] {
              if (!test::RefuseSystemCalls({SYS_linkat}, EIO)) return 2;
              return env_->LinkFile(Path("a"), Path("b")).IsIOError() ? 0 : 1;
            }),
            0);
}

TEST_F(PosixEnvTest, OnlyRegularFilesHaveASize) {
  uint64_t size = 1;
  ASSERT_TRUE(WriteStringToFile(env_, "abc", Path("a"), false).ok());
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  ASSERT_TRUE(env_->GetFileSize(Path("link"), &size).ok());
  EXPECT_EQ(size, 3u);
  ASSERT_TRUE(env_->CreateDirIfMissing(Path("directory")).ok());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0644), 0);
  ASSERT_EQ(symlink("nowhere", Path("dangling").c_str()), 0);
  ASSERT_EQ(symlink("loop", Path("loop").c_str()), 0);
  ASSERT_EQ(symlink("/", Path("root").c_str()), 0);
  for (const char* name : {"directory", "pipe", "dangling", "loop", "root"}) {
    const Status status = env_->GetFileSize(Path(name), &size);
    EXPECT_TRUE(status.IsNotSupported()) << name << status.ToString();
  }
  EXPECT_TRUE(env_->GetFileSize(Path("missing"), &size).IsNotFound());
  EXPECT_TRUE(env_->GetFileSize(Path("a/b"), &size).IsIOError());
  EXPECT_EQ(size, 3u);
}

TEST_F(PosixEnvTest, LinesOfManyThreadsStayWhole) {
  std::shared_ptr<Logger> logger;
  ASSERT_TRUE(env_->NewLogger(Path("LOG"), &logger).ok());
  test::RunThreads(4, [&logger](int t) {
    const std::string text(static_cast<size_t>(50 + t), 'x');
    for (int i = 0; i < 100; ++i) {
      Log(LogLevel::kInfo, logger.get(), "<%s>", text.c_str());
    }
  });
  std::string log;
  ASSERT_TRUE(ReadFileToString(env_, Path("LOG"), &log).ok());
  size_t lines = 0;
  for (size_t start = 0; start < log.size(); ++lines) {
    const size_t end = log.find('\n', start);
    ASSERT_NE(end, std::string::npos);
    const std::string line = log.substr(start, end - start);
    EXPECT_NE(line.find(" [INFO] <x"), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with("x>")) << line;
    start = end + 1;
  }
  EXPECT_EQ(lines, 400u);
}

}  // namespace
}  // namespace varve
