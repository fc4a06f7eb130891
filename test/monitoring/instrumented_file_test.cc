// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: calls of a log that wait are counted with their time, others are not;
// each byte that is read is counted once. Method: a file whose calls sleep, and
// one of known length.

#include "monitoring/instrumented_file.h"

#include "monitoring/statistics.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve {
namespace {

class SleepyFile final : public WritableFile {
 public:
  explicit SleepyFile(const uint64_t* sleep_us) : sleep_us_(sleep_us) {}

  Status Append(const Slice& data) override {
    size_ += data.size();
    return Status::OK();
  }
  Status Flush() override { return Sleep(); }
  Status Sync() override { return Sleep(); }
  Status Close() override { return Status::OK(); }
  void Allocate(uint64_t /*offset*/, uint64_t /*length*/) override {
    Sleep().IgnoreError();
  }
  Status Reserve(uint64_t /*offset*/, uint64_t /*length*/) override {
    return Sleep();
  }
  void Release() override {}
  void RangeSync(uint64_t /*offset*/, uint64_t /*length*/) override {
    Sleep().IgnoreError();
  }
  uint64_t Size() const override { return size_; }

 private:
  Status Sleep() const {
    if (*sleep_us_ > 0) Env::Default()->SleepForMicroseconds(*sleep_us_);
    return Status::OK();
  }

  const uint64_t* const sleep_us_;
  uint64_t size_ = 0;
};

TEST(InstrumentedFileTest, CountsTheCallsThatWait) {
  const auto waits = std::make_shared<FileWaits>();
  uint64_t sleep_us = 0;
  const auto file = NewInstrumentedFile(std::make_unique<SleepyFile>(&sleep_us),
                                        Env::Default(), waits);
  const auto call_all = [&file] {
    EXPECT_TRUE(file->Append("record").ok());
    EXPECT_TRUE(file->Flush().ok());
    EXPECT_TRUE(file->Sync().ok());
    EXPECT_TRUE(file->Reserve(0, 4096).ok());
    file->Allocate(0, 4096);
    file->RangeSync(0, 4096);
  };
  call_all();
  const uint64_t before = waits->count();  // 0, if nobody else is busy.
  sleep_us = 50000;
  call_all();
  EXPECT_GE(waits->count(), before + 5);
  EXPECT_GE(waits->total_us(), 250000u);
  EXPECT_LT(waits->total_us(), 60000000u);
  EXPECT_GE(waits->longest_us(), 50000u);
  EXPECT_LE(waits->longest_us(), waits->total_us());
}

TEST(InstrumentedFileTest, CountsNothingWithoutAPlace) {
  uint64_t sleep_us = 50000;
  const auto file = NewInstrumentedFile(std::make_unique<SleepyFile>(&sleep_us),
                                        Env::Default());
  EXPECT_TRUE(file->Append("record").ok());
  EXPECT_TRUE(file->Flush().ok());
  EXPECT_EQ(file->Size(), 6u);
}

// A file of 100 bytes that has a descriptor.
class ReadableFile final : public RandomAccessFile {
 public:
  Status Read(uint64_t /*offset*/, size_t count, Slice* result,
              char* scratch) const override {
    *result = Slice(scratch, std::min<size_t>(count, 100));
    return Status::OK();
  }
  int AcquireDescriptor() const override { return 1; }
  void ReleaseDescriptor(size_t /*bytes_read*/) const override {}
};

TEST(InstrumentedFileTest, CountsEachByteReadOnce) {
  StatisticsImpl statistics{StatisticsOptions()};
  const auto file = NewInstrumentedFile(std::make_unique<ReadableFile>(),
                                        &statistics, Env::Default());
  auto counted = [&, before = uint64_t{0}]() mutable {
    const uint64_t now = statistics.getTickerCount(Ticker::kTableReadBytes);
    return now - std::exchange(before, now);
  };
  char scratch[200];
  Slice result;
  EXPECT_TRUE(file->Read(0, 70, &result, scratch).ok());
  EXPECT_EQ(counted(), 70u);
  EXPECT_TRUE(file->ReadAtLeast(0, 50, 200, &result, scratch).ok());
  EXPECT_EQ(counted(), 100u);
  ReadRequest requests[2];
  for (ReadRequest& request : requests) {
    request.length = 30;
    request.scratch = scratch;
  }
  file->MultiRead(requests, 2);
  EXPECT_EQ(counted(), 60u);
  // By others, with the descriptor.
  EXPECT_EQ(file->AcquireDescriptor(), 1);
  file->ReleaseDescriptor(40);
  EXPECT_EQ(counted(), 40u);
}

}  // namespace
}  // namespace varve
