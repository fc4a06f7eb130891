// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a file written through a mapping holds what was appended, is there for
// others at once, is as long as it should be when closed, and reports a full
// device as an error. Method: real files, read back by the path; a small
// tmpfs, where mounting is permitted.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "test/testing/env/small_file_system.h"
#include "test/testing/temp_dir.h"
#include "util/base/random.h"
#include "varve/env.h"

namespace varve {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class PosixMmapFileTest : public testing::Test {
 protected:
  std::unique_ptr<WritableFile> Make(const std::string& path) {
    FileOptions options;
    options.use_mmap_writes = true;
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(env_->NewWritableFile(path, options, &file).ok());
    return file;
  }
  std::string Read(const std::string& path) {
    std::string bytes;
    EXPECT_TRUE(ReadFileToString(env_, path, &bytes).ok());
    return bytes;
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

TEST_F(PosixMmapFileTest, HoldsBytesAppendedAcrossWindows) {
  const auto file = Make(path_);
  Random random(301);
  std::string expected;
  while (expected.size() < 5 * kMiB) {
    // Mostly small, some larger than a window.
    std::string piece(random.Uniform(random.Uniform(50) == 0 ? 3 * kMiB : 5000),
                      '\0');
    for (char& c : piece) c = static_cast<char>(random.Next());
    ASSERT_TRUE(file->Append(piece).ok());
    expected += piece;
    ASSERT_EQ(file->Size(), expected.size());
    if (random.Uniform(100) == 0) {
      ASSERT_TRUE(file->Sync().ok());
    }
  }
  ASSERT_TRUE(file->Flush().ok());
  const std::string open = Read(path_);
  ASSERT_GE(open.size(), expected.size());
  EXPECT_TRUE(open.compare(0, expected.size(), expected) == 0);
  EXPECT_EQ(open.find_first_not_of('\0', expected.size()), std::string::npos);
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected);
  EXPECT_LT(BlocksOf(path_), expected.size() + 64 * 1024);
  EXPECT_FALSE(file->Append("x").ok());
  EXPECT_FALSE(file->Sync().ok());
}

TEST_F(PosixMmapFileTest, IsEmptyUntilSomethingIsAppended) {
  const auto file = Make(path_);
  EXPECT_EQ(Read(path_), "");
  EXPECT_GE(BlocksOf(path_), kMiB);
  ASSERT_TRUE(file->Append("").ok());
  EXPECT_EQ(Read(path_), "");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), "");
  EXPECT_EQ(BlocksOf(path_), 0u);
}

TEST_F(PosixMmapFileTest, EndsExactlyAtAWindow) {
  const auto file = Make(path_);
  ASSERT_TRUE(file->Append(std::string(kMiB, 'a')).ok());
  EXPECT_EQ(Read(path_).size(), kMiB);
  ASSERT_TRUE(file->Append("b").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), std::string(kMiB, 'a') + "b");
}

TEST_F(PosixMmapFileTest, SurvivesTheProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto file = Make(path_);
    // Not a word to the system after this.
    if (!file->Append("written by the dead").ok()) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(Read(path_).starts_with("written by the dead"));
}

// The error of a device without space, not a signal by its mapping.
TEST_F(PosixMmapFileTest, FullDeviceIsAnErrorNotASignal) {
  const test::SmallFileSystem small(directory_.path(), "3m");
  // test/db/engine/db_resume_test.cc injects the error without a mount.
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_);
  Status status;
  uint64_t written = 0;
  for (; status.ok() && written < 10 * kMiB; written += 1000) {
    status = file->Append(std::string(1000, 'x'));
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_GT(written, 2 * kMiB);
  EXPECT_TRUE(file->Flush().IsNoSpace());
  EXPECT_TRUE(file->Sync().IsNoSpace());
  EXPECT_TRUE(file->Append("y").IsNoSpace());
  EXPECT_FALSE(file->Close().ok());
}

TEST_F(PosixMmapFileTest, ReservedSpaceExists) {
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

TEST_F(PosixMmapFileTest, ReleasesReservedSpace) {
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
    file->Release();
    EXPECT_TRUE(Read(path_) == expected);
    EXPECT_LT(BlocksOf(path_), expected.size() + 64 * 1024);
  }
  // With nothing reserved.
  ASSERT_TRUE(file->Append("end").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(Read(path_) == expected + "end");
}

TEST_F(PosixMmapFileTest, PlainFileWhereSpaceCannotBeAllocated) {
  const test::SmallFileSystem small(directory_.path(), "64k");
  if (!small.is_mounted()) GTEST_SKIP() << test::kMayNotMount;
  const auto file = Make(path_);
  ASSERT_TRUE(file->Append("small").ok());
  EXPECT_EQ(Read(path_), "");  // In the buffer of a plain file.
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Read(path_), "small");
}

}  // namespace
}  // namespace varve
