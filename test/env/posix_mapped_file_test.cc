// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads

// Goal: a file written through a mapping holds what was appended, is there for
// others at once, is as long as it should be when closed, and reports a full or
// failing device as an error. It is mapped only when that is worth it. Method:
// real files, read back by the path; a small tmpfs, and ext4 on loop devices
// that fail, where mounting is permitted.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "test/testing/env/failing_file_system.h"
#include "test/testing/env/small_file_system.h"
#include "test/testing/forked.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"
#include "varve/env.h"

namespace varve {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPiece = 64 << 10;

class MappedFileFixture : public testing::Test {
 protected:
  std::unique_ptr<WritableFile> Make(const std::string& path,
                                     WriteMethod method) {
    FileOptions options{.write_method = method};
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(env_->NewWritableFile(path, options, &file).ok());
    return file;
  }
  // Appends until the file is mapped.
  std::string AppendUntilMapped(WritableFile* file) {
    std::string appended;
    for (int i = 0; i < 100000 && file->WritePath() != "mapped"; ++i) {
      appended += std::to_string(i) + ",";
      EXPECT_TRUE(AppendLast(file, appended).ok());
    }
    EXPECT_EQ(file->WritePath(), "mapped");
    return appended;
  }
  static Status AppendLast(WritableFile* file, const std::string& all) {
    const Slice part(all.data() + file->Size(), all.size() - file->Size());
    return file->AppendParts(&part, 1, /*flush=*/true);
  }
  std::string Read(const std::string& path) {
    std::string bytes;
    EXPECT_TRUE(ReadFileToString(env_, path, &bytes).ok());
    return bytes;
  }
  // Returns whether the file holds the bytes, and at most `most` zeros.
  testing::AssertionResult Holds(const std::string& bytes, uint64_t most) {
    const std::string found = Read(path_);
    if (found.size() < bytes.size() || found.size() > bytes.size() + most) {
      return testing::AssertionFailure()
             << found.size() << " bytes instead of " << bytes.size();
    }
    if (found.compare(0, bytes.size(), bytes) != 0 ||
        found.find_first_not_of('\0', bytes.size()) != std::string::npos) {
      return testing::AssertionFailure() << "other bytes";
    }
    return testing::AssertionSuccess();
  }
  static uint64_t BlocksOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }

  Env* const env_ = Env::Default();
  test::TempDir directory_;
  const std::string path_ = directory_.Sub("file");
};

// The tests of one method.
class MappingByItselfTest : public MappedFileFixture {};
class SignalOfAMappingTest : public MappedFileFixture {};

class PosixMappedFileTest : public MappedFileFixture,
                            public testing::WithParamInterface<WriteMethod> {
 protected:
  std::unique_ptr<WritableFile> Make(const std::string& path) {
    return MappedFileFixture::Make(path, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(All, PosixMappedFileTest,
                         testing::Values(WriteMethod::kMap, WriteMethod::kAuto),
                         [](const auto& test) {
                           return test.param == WriteMethod::kMap ? "Map"
                                                                  : "Auto";
                         });

TEST_P(PosixMappedFileTest, HoldsBytesAppendedAcrossWindows) {
  const auto file = Make(path_);
  Random random(301);
  std::string expected;
  bool mapped = false;
  while (expected.size() < 8 * kMiB) {
    // Mostly small, some larger than a window.
    std::string piece(random.Uniform(random.Uniform(200) == 0 ? 3 * kMiB : 900),
                      '\0');
    for (char& c : piece) c = static_cast<char>(random.Next());
    expected += piece;
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    ASSERT_EQ(file->Size(), expected.size());
    mapped |= file->WritePath() == "mapped";
    if (random.Uniform(500) == 0) {
      ASSERT_TRUE(file->Sync().ok());
    }
    if (random.Uniform(500) == 0) file->Release();
    if (random.Uniform(1000) == 0) {
      ASSERT_TRUE(Holds(expected, kPiece));
    }
  }
  EXPECT_TRUE(mapped);
  EXPECT_TRUE(Holds(expected, kPiece));
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected);
  EXPECT_LT(BlocksOf(path_), expected.size() + kPiece);
  EXPECT_FALSE(file->Append("x").ok());
  EXPECT_FALSE(file->Sync().ok());
}

// Bytes appended without a flush are in the buffer before it is mapped.
TEST_P(PosixMappedFileTest, KeepsTheOrderOfBufferedBytes) {
  const auto file = Make(path_);
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string number = std::to_string(i) + ",";
    ASSERT_TRUE(file->Append(number).ok());
    expected += number;
    if (i % 3 == 0) {
      ASSERT_TRUE(file->Flush().ok());
    }
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), expected);
}

TEST_P(PosixMappedFileTest, IsEmptyUntilSomethingIsAppended) {
  const auto file = Make(path_);
  EXPECT_EQ(Read(path_), "");
  EXPECT_EQ(BlocksOf(path_), 0u);
  ASSERT_TRUE(file->Append("").ok());
  EXPECT_EQ(Read(path_), "");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), "");
  EXPECT_EQ(BlocksOf(path_), 0u);
}

TEST_P(PosixMappedFileTest, EndsExactlyAtAPieceOrWindow) {
  const auto file = Make(path_);
  std::string expected;
  for (const uint64_t end : {kPiece, 2 * kPiece, kMiB, 3 * kMiB}) {
    while (expected.size() < end) {
      expected.append(std::min<uint64_t>(1000, end - expected.size()), 'a');
      ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    }
    EXPECT_TRUE(Holds(expected, 0)) << end;
    expected += 'b';
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    EXPECT_TRUE(Holds(expected, kPiece)) << end;
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected);
}

TEST_P(PosixMappedFileTest, SurvivesTheProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto file = Make(path_);
    std::string appended = AppendUntilMapped(file.get());
    appended += "written by the dead";
    // No system call after this one.
    if (!AppendLast(file.get(), appended).ok()) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(Read(path_).find(",written by the dead"), std::string::npos);
}

// A child of fork() shares the position at which write() continues.
TEST_P(PosixMappedFileTest, ClosingInAChildChangesNothing) {
  auto file = Make(path_);
  std::string expected = AppendUntilMapped(file.get());
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    const bool closed = file->Close().ok();
    const bool refused = !file->Append("x").ok();
    file.reset();
    _exit(closed && refused ? 0 : 1);
  }
  // By write() again, with a position after the child's.
  expected += std::string(100000, 'p');
  ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  ASSERT_EQ(write(go[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  expected += std::string(100000, 'q');
  ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected);
  close(go[0]);
  close(go[1]);
}

// Only a file that is appended to often is mapped by itself.
TEST_F(MappingByItselfTest, MapsByItselfOnlyWhatIsAppendedToOften) {
  const auto file = Make(path_, WriteMethod::kAuto);
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    expected += "seldom";
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    EXPECT_EQ(file->WritePath(), "write");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int i = 0; i < 100; ++i) {
    expected += "synced";
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    EXPECT_EQ(file->WritePath(), "write");
    ASSERT_TRUE(file->Sync().ok());
  }
  for (int i = 0; i < 100; ++i) {
    expected += std::string(20000, 'l');
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    EXPECT_EQ(file->WritePath(), "write");
  }
  EXPECT_EQ(Read(path_).size(), expected.size());
  for (int i = 0; i < 100000 && file->WritePath() != "mapped"; ++i) {
    expected += "often";
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  }
  EXPECT_EQ(file->WritePath(), "mapped");
  EXPECT_TRUE(Holds(expected, kPiece));
  // Pages are asked for again after a pause, and after a sync.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  expected += "late";
  ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  EXPECT_EQ(file->WritePath(), "write");
  for (int i = 0; i < 100000 && file->WritePath() != "mapped"; ++i) {
    expected += "often";
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  }
  ASSERT_TRUE(file->Sync().ok());
  expected += "synced";
  ASSERT_TRUE(AppendLast(file.get(), expected).ok());
  EXPECT_EQ(file->WritePath(), "write");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected);
}

// An allocation may wait for the device: only much space is worth it.
TEST_F(MappingByItselfTest, ReservesLittleByZerosAndMuchByAllocation) {
  const test::SmallFileSystem small(directory_.path(), "9m");
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_, WriteMethod::kAuto);
  ASSERT_TRUE(file->Append("head").ok());
  ASSERT_TRUE(file->Flush().ok());
  ASSERT_TRUE(file->Reserve(0, kPiece).ok());
  EXPECT_EQ(Read(path_), "head" + std::string(kPiece - 4, '\0'));
  ASSERT_TRUE(file->Reserve(kPiece, 4 * kMiB).ok());
  EXPECT_EQ(Read(path_).size(), kPiece);
  EXPECT_GE(BlocksOf(path_), 4 * kMiB);
  // Zeros where there is no space are no harm.
  const std::string filler = directory_.Sub("filler");
  std::unique_ptr<WritableFile> other;
  ASSERT_TRUE(env_->NewWritableFile(filler, {}, &other).ok());
  while (other->Append(std::string(4096, 'f')).ok()) {
  }
  EXPECT_TRUE(file->Reserve(4 * kMiB + kPiece, kPiece).IsNoSpace());
  ASSERT_TRUE(file->Append("body").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), "headbody");
}

TEST_F(MappingByItselfTest, TellsWhyAFileIsNotMapped) {
  // A device can be written, but neither mapped nor extended.
  const auto file = Make("/dev/null", WriteMethod::kMap);
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_TRUE(file->WritePath().starts_with("write (mapping: "))
      << file->WritePath();
}

// The error of a device without space, not a signal by its mapping.
TEST_P(PosixMappedFileTest, FullDeviceIsAnErrorNotASignal) {
  const test::SmallFileSystem small(directory_.path(), "3m");
  // test/db/engine/db_resume_test.cc injects the error without a mount.
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_);
  Status status;
  uint64_t written = 0;
  for (; status.ok() && written < 10 * kMiB; written += 1000) {
    status = file->Append(std::string(1000, 'x'));
  }
  EXPECT_TRUE(IsNoSpace(status));
  EXPECT_GT(written, 2 * kMiB);
  EXPECT_TRUE(file->Flush().IsNoSpace());
  EXPECT_TRUE(file->Sync().IsNoSpace());
  EXPECT_TRUE(file->Append("y").IsNoSpace());
  EXPECT_FALSE(file->Close().ok());
}

TEST_P(PosixMappedFileTest, ReservedSpaceExists) {
  const test::SmallFileSystem small(directory_.path(), "3m");
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_);
  ASSERT_TRUE(file->Append("head").ok());
  ASSERT_TRUE(file->Reserve(0, kMiB + kMiB / 2).ok());
  const std::string filler = directory_.Sub("filler");
  std::unique_ptr<WritableFile> other;
  ASSERT_TRUE(env_->NewWritableFile(filler, {}, &other).ok());
  while (other->Append(std::string(4096, 'f')).ok()) {
  }
  const uint64_t blocks = BlocksOf(path_);
  EXPECT_TRUE(file->Reserve(0, 2 * kMiB).IsNoSpace());
  EXPECT_EQ(BlocksOf(path_), blocks);
  // Refused only where nothing was written.
  const std::string body(kMiB + kMiB / 2 - 4, 'b');
  ASSERT_TRUE(file->Append(body).ok());
  ASSERT_TRUE(env_->RemoveFile(filler).ok());
  other.reset();
  ASSERT_TRUE(file->Reserve(0, 2 * kMiB).ok());
  ASSERT_TRUE(file->Append("tail").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == "head" + body + "tail");
}

TEST_P(PosixMappedFileTest, ReleasesReservedSpace) {
  const auto file = Make(path_);
  file->Release();
  EXPECT_EQ(BlocksOf(path_), 0u);
  std::string expected;
  for (const size_t size : {size_t{10}, size_t{5000}, size_t{4096}, size_t{1},
                            size_t{2 * kMiB}, size_t{7}, size_t{kMiB - 7}}) {
    SCOPED_TRACE(size);
    const std::string piece(size,
                            static_cast<char>('a' + expected.size() % 26));
    ASSERT_TRUE(file->Reserve(file->Size(), 3 * kMiB).ok());
    ASSERT_TRUE(file->Append(piece).ok());
    expected += piece;
    ASSERT_TRUE(file->Flush().ok());
    file->Release();
    EXPECT_TRUE(Read(path_) == expected);
    EXPECT_LT(BlocksOf(path_), expected.size() + 64 * 1024);
  }
  // With nothing reserved.
  ASSERT_TRUE(file->Append("end").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected + "end");
}

TEST_P(PosixMappedFileTest, WritesWhereSpaceIsShort) {
  const test::SmallFileSystem small(directory_.path(), "32k");
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_);
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    expected += "small";
    ASSERT_TRUE(AppendLast(file.get(), expected).ok());
    EXPECT_EQ(file->WritePath(), "write");
  }
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), expected);
}

// The first error of an append, a flush or a sync is returned, and no signal
// comes, whenever a device or file system fails.
class FailingDeviceTest : public PosixMappedFileTest {
 protected:
  // Runs in a child. Returns 0 for an error as expected.
  int AppendUntilItFails(test::FailingFileSystem* system, bool device,
                         int after_ms) {
    const std::string path = system->path() + "/file";
    const auto file = Make(path);
    std::atomic<bool> failed = false;
    std::thread saboteur([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      failed = device ? system->FailDevice() : system->ShutDown();
      if (!failed) _exit(3);
    });
    const std::string piece(100, 'x');
    const Slice part(piece);
    Status status;
    for (int i = 0; status.ok() && file->Size() < 14 * kMiB; ++i) {
      status = file->AppendParts(&part, 1, true);
      if (i % 3000 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (failed && status.ok() && i % 100 == 0) status = file->Sync();
    }
    saboteur.join();
    if (status.ok()) status = file->Sync();
    return status.IsIOError() && !status.IsNoSpace() ? 0 : 2;
  }
};

INSTANTIATE_TEST_SUITE_P(All, FailingDeviceTest,
                         testing::Values(WriteMethod::kMap, WriteMethod::kAuto),
                         [](const auto& test) {
                           return test.param == WriteMethod::kMap ? "Map"
                                                                  : "Auto";
                         });

TEST_P(FailingDeviceTest, IsAnErrorNotASignal) {
  for (const bool device : {true, false}) {
    for (const int after_ms : {1, 7, 20, 50}) {
      SCOPED_TRACE(std::to_string(device) + " " + std::to_string(after_ms));
      test::TempDir place;
      test::FailingFileSystem system(place.path(), 32);
      if (!system.is_mounted()) GTEST_SKIP() << test::kMayNotUseDevices;
      const pid_t child = fork();
      if (child == 0) {
        _exit(AppendUntilItFails(&system, device, after_ms));
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_FALSE(WIFSIGNALED(status)) << WTERMSIG(status);
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
  }
}

// What docs/trust.md says of SIGBUS: a page is lost within the 10 ms for which
// it was asked for.
TEST_F(SignalOfAMappingTest, NeedsAPageThatIsLostAtOnce) {
  for (const bool at_once : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGBUS, SIG_DFL);  // Sanitizers have a handler.
      const auto file = Make(path_, WriteMethod::kMap);
      std::string appended = "x";
      if (!AppendLast(file.get(), appended).ok()) _exit(1);
      if (truncate(path_.c_str(), 0) != 0) _exit(1);
      if (!at_once) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      appended += "y";
      _exit(AppendLast(file.get(), appended).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    // A slow machine can need more than 10 ms.
    EXPECT_TRUE(WIFSIGNALED(status) ? at_once && WTERMSIG(status) == SIGBUS
                                    : WEXITSTATUS(status) == 0)
        << status;
  }
}

// A sync lets the device fail. So the page is asked for again.
TEST_F(SignalOfAMappingTest, DoesNotComeAfterASync) {
  EXPECT_EQ(test::RunForked([this] {
              const auto file = Make(path_, WriteMethod::kMap);
              std::string appended = "x";
              if (!AppendLast(file.get(), appended).ok()) return 1;
              if (!file->Sync().ok()) return 2;
              if (truncate(path_.c_str(), 0) != 0) return 3;
              appended += "y";
              return AppendLast(file.get(), appended).ok() ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace varve
