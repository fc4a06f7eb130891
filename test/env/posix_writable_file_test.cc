// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a file holds what was appended, in order, whatever the sizes of the
// parts, and a large append is not cut into pieces. Method: real files,
// random appends, and the kernel's count of a thread's write calls.

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve::test {
namespace {

class PosixWritableFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<WritableFile> Make(WriteMethod method) {
    FileOptions options{.write_method = method};
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(Ok(env_->NewWritableFile(path_, options, &file)));
    return file;
  }
  std::string Read() {
    std::string bytes;
    EXPECT_TRUE(Ok(ReadFileToString(env_, path_, &bytes)));
    return bytes;
  }
  // Returns how many write calls this thread has made.
  static uint64_t WriteCalls() {
    std::ifstream file("/proc/thread-self/io");
    std::string name;
    uint64_t number = 0;
    while (file >> name >> number) {
      if (name == "syscw:") return number;
    }
    return 0;
  }

  Env* const env_ = Env::Default();
  const TempDir directory_;
  const std::string path_ = directory_.path() + "/f";
};

TEST_F(PosixWritableFileTest, HoldsAppendsOfAllSizes) {
  Rng rng(TestSeed());
  for (const WriteMethod method : {WriteMethod::kCall, WriteMethod::kMap}) {
    const auto file = Make(method);
    std::string expected;
    for (int i = 0; i < 300; ++i) {
      std::vector<std::string> strings(rng.OneIn(10) ? 300 : rng.Below(6));
      const int most = rng.Pick({10, 5000, 70000});
      for (std::string& string : strings) {
        string = rng.Bytes(rng.Below(most / (strings.size() > 6 ? 10 : 1) + 1));
      }
      const bool flush = rng.OneIn(2);
      if (strings.size() == 1 && !flush) {
        ASSERT_TRUE(Ok(file->Append(strings[0])));
      } else {
        const std::vector<Slice> parts(strings.begin(), strings.end());
        ASSERT_TRUE(Ok(file->AppendParts(parts.data(), parts.size(), flush)));
      }
      for (const std::string& string : strings) expected += string;
      ASSERT_EQ(file->Size(), expected.size());
      if (!flush || !rng.OneIn(10)) continue;
      // Others see it. A mapped file may have zeros after it.
      ASSERT_EQ(Read().substr(0, expected.size()), expected);
    }
    ASSERT_TRUE(Ok(file->Close()));
    EXPECT_EQ(Read(), expected);
  }
}

TEST_F(PosixWritableFileTest, LargeAppendTakesFewCalls) {
  const auto file = Make(WriteMethod::kCall);
  const std::string large(1 << 20, 'l');
  ASSERT_TRUE(Ok(file->Append("small")));
  const uint64_t before = WriteCalls();
  if (before == 0) GTEST_SKIP() << "the kernel does not count calls";
  const Slice parts[] = {large, "x", large};
  ASSERT_TRUE(Ok(file->AppendParts(parts, 3, true)));
  // The kernel may write less than all at a time.
  EXPECT_LT(WriteCalls() - before, 8u);
  ASSERT_TRUE(Ok(file->Append(large)));
  EXPECT_LT(WriteCalls() - before, 12u);
  EXPECT_EQ(Read(), "small" + large + "x" + large + large);
}

TEST_F(PosixWritableFileTest, AppendWithoutFlushWaitsForAFullBuffer) {
  const auto file = Make(WriteMethod::kCall);
  const std::string part(30000, 'p');
  const Slice parts[] = {part};
  ASSERT_TRUE(Ok(file->AppendParts(parts, 1, false)));
  ASSERT_TRUE(Ok(file->AppendParts(parts, 1, false)));
  EXPECT_TRUE(Read().empty());
  ASSERT_TRUE(Ok(file->AppendParts(parts, 1, false)));
  EXPECT_EQ(Read().size(), 60000u);
}

TEST_F(PosixWritableFileTest, ErrorOfALargeAppendRemains) {
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(Ok(env_->NewWritableFile("/dev/full", {}, &file)));
  const Status status = file->Append(std::string(100000, 'x'));
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_TRUE(file->Append("x").IsNoSpace());
}

}  // namespace
}  // namespace varve::test
