// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a mapped file gives the bytes that pread gives, also at and beyond its
// end, keeps no descriptor, and shows a replaced file's old bytes. A truncated
// file is an error of a long read, and SIGBUS of a short one. Method: real
// files, truncated and replaced while they are mapped.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace varve {
namespace {

class PosixReadMapTest : public testing::Test {
 protected:
  std::unique_ptr<RandomAccessFile> Map(const std::string& bytes) {
    EXPECT_TRUE(WriteStringToFile(env_, bytes, path_, false).ok());
    return Open();
  }
  std::unique_ptr<RandomAccessFile> Open() {
    std::unique_ptr<RandomAccessFile> file;
    EXPECT_TRUE(env_->NewRandomAccessFile(path_, options_, &file).ok());
    return file;
  }
  static std::string RandomBytes(size_t size) {
    test::Rng rng(test::TestSeed() + size);
    return rng.Bytes(size);
  }
  static size_t Descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }

  Env* const env_ = Env::Default();
  const test::TempDir directory_;
  const std::string path_ = directory_.path() + "/f";
  FileOptions options_{.use_mmap_reads = true};
};

TEST_F(PosixReadMapTest, GivesTheFilesBytes) {
  for (const size_t size : {1u, 4096u, 4097u, 3000001u}) {
    SCOPED_TRACE(size);
    const std::string bytes = RandomBytes(size);
    const auto file = Map(bytes);
    ASSERT_EQ(file->Mapping().ToString(), bytes);
    test::Rng rng(test::TestSeed());
    for (int i = 0; i < 300; ++i) {
      const uint64_t offset = rng.Below(size + 10);
      const size_t count = rng.Below(size + 10);
      file->Prefetch(offset, count);
      Slice result;
      // No scratch is used.
      ASSERT_TRUE(file->Read(offset, count, &result, nullptr).ok());
      const size_t at = std::min<uint64_t>(offset, size);
      EXPECT_EQ(result.data(), file->Mapping().data() + at);
      EXPECT_EQ(result.size(), std::min(count, size - at));
    }
    Slice result;
    ASSERT_TRUE(file->Read(UINT64_MAX, SIZE_MAX, &result, nullptr).ok());
    EXPECT_TRUE(result.empty());
  }
}

TEST_F(PosixReadMapTest, KeepsNoDescriptor) {
  const size_t before = Descriptors();
  const auto file = Map("bytes");
  EXPECT_EQ(Descriptors(), before);
  EXPECT_LT(file->AcquireDescriptor(), 0);
  ReadRequest request;
  request.offset = 1;
  request.length = 3;
  file->MultiRead(&request, 1);
  ASSERT_TRUE(request.status.ok());
  EXPECT_EQ(request.result.ToString(), "yte");
}

TEST_F(PosixReadMapTest, ReadsAnEmptyFileByCalls) {
  const auto file = Map("");
  EXPECT_EQ(file->Mapping().data(), nullptr);
  char scratch[1];
  Slice result;
  ASSERT_TRUE(file->Read(0, 1, &result, scratch).ok());
  EXPECT_TRUE(result.empty());
}

TEST_F(PosixReadMapTest, ReadsByCallsWithDirectReads) {
  options_.use_direct_reads = true;
  EXPECT_EQ(Map("bytes")->Mapping().data(), nullptr);
}

TEST_F(PosixReadMapTest, MissingFileIsNotFound) {
  std::unique_ptr<RandomAccessFile> file;
  EXPECT_TRUE(env_->NewRandomAccessFile(path_, options_, &file).IsNotFound());
}

TEST_F(PosixReadMapTest, KeepsTheBytesOfAReplacedFile) {
  const auto file = Map("old");
  ASSERT_TRUE(WriteStringToFile(env_, "other", path_ + "2", false).ok());
  ASSERT_TRUE(env_->RenameFile(path_ + "2", path_).ok());
  EXPECT_EQ(file->Mapping(), Slice("old"));
  EXPECT_EQ(Open()->Mapping(), Slice("other"));
  ASSERT_TRUE(env_->RemoveFile(path_).ok());
  EXPECT_EQ(file->Mapping(), Slice("old"));
}

TEST_F(PosixReadMapTest, LongReadOfATruncatedFileIsAnError) {
  const size_t size = 1 << 20;
  const auto file = Map(RandomBytes(size));
  if (madvise(const_cast<char*>(file->Mapping().data()), 4096,
              MADV_POPULATE_READ) != 0) {
    GTEST_SKIP() << "needs Linux 5.14";
  }
  ASSERT_TRUE(env_->Truncate(path_, size / 2).ok());
  Slice result;
  EXPECT_TRUE(file->Read(0, size / 2, &result, nullptr).ok());
  const Status status = file->Read(100, size - 100, &result, nullptr);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find(path_), std::string::npos);
}

// As FileOptions::use_mmap_reads says.
TEST_F(PosixReadMapTest, AccessBeyondATruncatedFileRaisesSigbus) {
  const auto file = Map(RandomBytes(1 << 20));
  ASSERT_TRUE(env_->Truncate(path_, 0).ok());
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const rlimit no_core{};
        setrlimit(RLIMIT_CORE, &no_core);
        const volatile char* const bytes = file->Mapping().data();
        static_cast<void>(bytes[5000]);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace varve
