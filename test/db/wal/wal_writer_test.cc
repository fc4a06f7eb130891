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

// Counts calls, and keeps the bytes.
class CountedParts : public WritableFile {
 public:
  explicit CountedParts(std::vector<size_t>* calls, const bool* fails = nullptr)
      : calls_(calls), fails_(fails) {}
  Status Append(const Slice& data) override {
    return AppendParts(&data, 1, false);
  }
  Status AppendParts(const Slice* parts, size_t count,
                     bool /*flush*/) override {
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) size += parts[i].size();
    if (fails_ != nullptr && *fails_) return Status::IOError("test");
    calls_->push_back(size);
    size_ += size;
    return Status::OK();
  }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  uint64_t Size() const override { return size_; }

 private:
  std::vector<size_t>* const calls_;
  const bool* const fails_;
  uint64_t size_ = 0;
};

// The next log names this size, and recovery demands so many bytes.
TEST(WalWriterCallsTest, ARecordThatFailsIsNotOfTheLogsSize) {
  std::vector<size_t> calls;
  bool fails = false;
  wal::Writer writer(std::make_unique<CountedParts>(&calls, &fails), 1);
  ASSERT_TRUE(writer.AddRecord("first").ok());
  const uint64_t size = writer.Size();
  fails = true;
  EXPECT_FALSE(writer.AddRecord(std::string(100000, 'l')).ok());
  EXPECT_EQ(writer.Size(), size);
}

TEST(WalWriterCallsTest, LargeRecordIsAppendedAtOnce) {
  std::vector<size_t> calls;
  wal::Writer writer(std::make_unique<CountedParts>(&calls), 1);
  ASSERT_TRUE(writer.AddRecord("first").ok());
  ASSERT_TRUE(writer.AddRecord(std::string(1000000, 'l')).ok());
  EXPECT_EQ(calls.size(), 2u);
  // 4 MB take some calls, each of about 1 MB.
  ASSERT_TRUE(writer.AddRecord(std::string(4000000, 'l')).ok());
  EXPECT_LE(calls.size(), 6u);
  size_t sum = 0;
  for (const size_t size : calls) sum += size;
  EXPECT_EQ(sum, writer.Size());
}

}  // namespace
}  // namespace varve::test
