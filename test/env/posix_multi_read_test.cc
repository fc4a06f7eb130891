// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a batch of reads holds no descriptor when it comes to a Read that may
// wait for one. Method: files that count the descriptors they have lent, and a
// ring that does nothing, so that all is read plainly.

#include "env/posix_multi_read.h"

#include "env/io_ring.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve {
namespace {

class LendingFile : public RandomAccessFile {
 public:
  LendingFile(std::unique_ptr<RandomAccessFile> target, int* lent)
      : target_(std::move(target)), lent_(lent) {}
  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    EXPECT_EQ(*lent_, 0);
    return target_->Read(offset, count, result, scratch);
  }
  int AcquireDescriptor() const override {
    ++*lent_;
    return target_->AcquireDescriptor();
  }
  void ReleaseDescriptor(size_t bytes_read) const override {
    --*lent_;
    target_->ReleaseDescriptor(bytes_read);
  }

 private:
  const std::unique_ptr<RandomAccessFile> target_;
  int* const lent_;
};

int DoNothing(io_uring* /*ring*/, unsigned /*wait_count*/) { return -EAGAIN; }

TEST(PosixMultiReadTest, HoldsNoDescriptorWhenItReadsPlainly) {
  const test::TempDir directory;
  Env* const env = Env::Default();
  int lent = 0;
  std::vector<std::unique_ptr<LendingFile>> files;
  for (int i = 0; i < 20; ++i) {
    const std::string path = directory.Sub(std::to_string(i));
    ASSERT_TRUE(WriteStringToFile(env, path, path, false).ok());
    std::unique_ptr<RandomAccessFile> file;
    ASSERT_TRUE(env->NewRandomAccessFile(path, {}, &file).ok());
    files.push_back(std::make_unique<LendingFile>(std::move(file), &lent));
  }
  for (const bool calls_done : {false, true}) {
    std::vector<FileReadRequest> requests(files.size());
    std::vector<std::string> memory(files.size(), std::string(100, '\0'));
    for (size_t i = 0; i < files.size(); ++i) {
      requests[i].file = files[i].get();
      requests[i].read.length = memory[i].size();
      requests[i].read.scratch = memory[i].data();
    }
    std::vector<int> done(files.size());
    Env::ReadDone count;
    if (calls_done) {
      count = [&](const FileReadRequest* request) {
        ++done[static_cast<size_t>(request - requests.data())];
      };
    }
    const RingSubmit before = TEST_SetRingSubmit(&DoNothing);
    PosixMultiRead(requests.data(), requests.size(), count);
    TEST_SetRingSubmit(before);
    EXPECT_EQ(lent, 0);
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_TRUE(requests[i].read.status.ok());
      EXPECT_EQ(requests[i].read.result.ToString(),
                directory.Sub(std::to_string(i)));
      EXPECT_EQ(done[i], calls_done ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace varve
