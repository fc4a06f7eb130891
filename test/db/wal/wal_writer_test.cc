// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a log gives back no space that its buffered records need, and knows
// afterwards what it has to reserve again. Method: a file that writes down what
// it is asked for.

#include "db/wal/wal_writer.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class RecordingFile : public WritableFile {
 public:
  RecordingFile(std::vector<std::string>* calls, const Status* flush_status)
      : calls_(calls), flush_status_(flush_status) {}
  Status Append(const Slice& data) override {
    size_ += data.size();
    return Status::OK();
  }
  Status Flush() override {
    calls_->push_back("flush");
    return *flush_status_;
  }
  Status Sync() override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  Status Reserve(uint64_t offset, uint64_t length) override {
    calls_->push_back("reserve " + std::to_string(offset) + " " +
                      std::to_string(length));
    return Status::OK();
  }
  void Release() override { calls_->push_back("release"); }
  uint64_t Size() const override { return size_; }

 private:
  std::vector<std::string>* const calls_;
  const Status* const flush_status_;
  uint64_t size_ = 0;
};

class WalWriterTest : public ::testing::Test {
 protected:
  std::vector<std::string> TakeCalls() { return std::exchange(calls_, {}); }

  std::vector<std::string> calls_;
  Status flush_status_;
  wal::Writer writer_{std::make_unique<RecordingFile>(&calls_, &flush_status_),
                      1,
                      {.manual_flush = true, .allocate_bytes = 4096}};
};

using Calls = std::vector<std::string>;

TEST_F(WalWriterTest, ReleasesSpaceAfterAFlush) {
  ASSERT_TRUE(writer_.AddRecord(std::string(100, 'a')).ok());
  EXPECT_EQ(TakeCalls(), Calls{"reserve 0 4096"});
  writer_.ReleaseSpace();
  EXPECT_EQ(TakeCalls(), (Calls{"flush", "release"}));
  const uint64_t size = writer_.Size();
  ASSERT_TRUE(writer_.AddRecord(std::string(100, 'b')).ok());
  EXPECT_EQ(TakeCalls(), Calls{"reserve " + std::to_string(size) + " 4096"});
}

TEST_F(WalWriterTest, ReleasesNothingIfTheFlushFails) {
  ASSERT_TRUE(writer_.AddRecord(std::string(100, 'a')).ok());
  TakeCalls();
  flush_status_ = Status::IOError("test");
  writer_.ReleaseSpace();
  EXPECT_EQ(TakeCalls(), Calls{"flush"});
  EXPECT_TRUE(writer_.failed());
}

}  // namespace
}  // namespace varve::test
