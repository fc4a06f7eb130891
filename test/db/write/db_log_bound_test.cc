// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a log stays about as large as a write buffer, whatever is in it, and
// Flush frees it. Method: what reaches the log and no memtable (log data, empty
// ranges, empty batches), beside no updates, few, and updates without a log;
// and the bytes of all logs while and after it is written.

#include "test/testing/directory.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr uint64_t kBuffer = 256 << 10;

class DbLogBoundTest : public testing::Test {
 protected:
  void Open() {
    options_.create_if_missing = true;
    options_.write_buffer_size = kBuffer;
    path_ = dir_.Sub("db");
    ASSERT_TRUE(DB::Open(options_, path_, &db_).ok());
  }
  void Reopen() {
    db_.reset();
    ASSERT_TRUE(DB::Open(options_, path_, &db_).ok());
  }

  // Without the zeros in which logs that are open can end.
  uint64_t LogBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() != ".log") continue;
      // It is empty if the log was deleted in between.
      const std::string log = test::ReadWholeFile(entry.path());
      bytes += log.find_last_not_of('\0') + 1;
    }
    return bytes;
  }

  // Writes batches from `fill` until they have `bytes` bytes. The logs must
  // never be larger than the logs of the maximum number of buffers.
  void WriteBytes(uint64_t bytes, const std::function<void(WriteBatch*)>& fill,
                  const WriteOptions& options = WriteOptions()) {
    uint64_t checked = 0;
    for (uint64_t written = 0; written < bytes;) {
      WriteBatch batch;
      fill(&batch);
      ASSERT_TRUE(db_->Write(options, &batch).ok());
      written += batch.ApproximateSize();
      if (written < checked + kBuffer) continue;
      checked = written;
      ASSERT_LE(LogBytes(), 5 * kBuffer) << written << " bytes written";
    }
  }
  void FlushFreesTheLog() {
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    // Deleted by the job that flushes, after the flush is reported.
    ASSERT_TRUE(db_->WaitForCompact().ok());
    EXPECT_LE(LogBytes(), 4096u);
  }

  test::TempDir dir_;
  Options options_;
  std::string path_;
  std::unique_ptr<DB> db_;
};

void LogData(WriteBatch* batch) { batch->PutLogData(std::string(1000, 'x')); }

TEST_F(DbLogBoundTest, LogDataAloneIsBounded) {
  Open();
  WriteBytes(20 * kBuffer, LogData);
  FlushFreesTheLog();
  Reopen();
  WriteBytes(3 * kBuffer, LogData);
}

TEST_F(DbLogBoundTest, FlushFreesLogDataThatIsSmallerThanTheBuffer) {
  Open();
  WriteBytes(kBuffer / 2, LogData);
  EXPECT_GE(LogBytes(), kBuffer / 2);
  FlushFreesTheLog();
}

TEST_F(DbLogBoundTest, LogDataBesideAFewUpdatesIsBoundedAndKeepsThem) {
  Open();
  uint64_t key = 0;
  WriteBytes(20 * kBuffer, [&](WriteBatch* batch) {
    batch->PutLogData(std::string(20000, 'x'));
    batch->Put("key" + std::to_string(key++), "value");
  });
  std::string value;
  for (uint64_t i = 0; i < key; ++i) {
    ASSERT_TRUE(
        db_->Get(ReadOptions(), "key" + std::to_string(i), &value).ok());
  }
  Reopen();
  for (uint64_t i = 0; i < key; ++i) {
    ASSERT_TRUE(
        db_->Get(ReadOptions(), "key" + std::to_string(i), &value).ok());
  }
}

TEST_F(DbLogBoundTest, EmptyRangesAreBounded) {
  Open();
  WriteBytes(8 * kBuffer, [](WriteBatch* batch) {
    const std::string key(4000, 'k');
    batch->DeleteRange(key, key);
  });
  FlushFreesTheLog();
}

TEST_F(DbLogBoundTest, EmptyBatchesAreBounded) {
  options_.write_buffer_size = 64 << 10;
  Open();
  for (int i = 0; i < 100000; ++i) {
    WriteBatch batch;
    ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  }
  EXPECT_LE(LogBytes(), 4 * kBuffer);  // 1.9 MB were written.
  FlushFreesTheLog();
}

TEST_F(DbLogBoundTest, OneLargePieceIsFreedByTheNextWrite) {
  Open();
  WriteBatch batch;
  batch.PutLogData(std::string(16 * kBuffer, 'x'));
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  ASSERT_TRUE(db_->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(db_->WaitForCompact().ok());
  EXPECT_LE(LogBytes(), 4096u);
}

TEST_F(DbLogBoundTest, WritesThatMustNotWaitAreBoundedToo) {
  Open();
  WriteOptions options{.no_slowdown = true};
  for (int i = 0; i < 5000; ++i) {
    WriteBatch batch;
    LogData(&batch);
    const Status status = db_->Write(options, &batch);
    ASSERT_TRUE(status.ok() || status.IsIncomplete()) << status.ToString();
  }
  ASSERT_TRUE(db_->WaitForCompact().ok());
  EXPECT_LE(LogBytes(), 4 * kBuffer);
}

TEST_F(DbLogBoundTest, FollowsAWriteBufferThatIsMadeSmaller) {
  Open();
  ASSERT_TRUE(db_->SetOptions({{"write_buffer_size", "64M"}}).ok());
  WriteBatch batch;
  batch.PutLogData(std::string(8 * kBuffer, 'x'));
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  ASSERT_TRUE(db_->Put(WriteOptions(), "key", "value").ok());
  EXPECT_GE(LogBytes(), 8 * kBuffer);
  ASSERT_TRUE(db_->SetOptions({{"write_buffer_size", "256K"}}).ok());
  ASSERT_TRUE(db_->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(db_->WaitForCompact().ok());
  EXPECT_LE(LogBytes(), 4096u);
}

// A log of updates alone is never the first to be full: their memtable is.
TEST_F(DbLogBoundTest, UpdatesFillTheirMemtableFirst) {
  for (const size_t value_bytes : {0, 1, 100, 1000, 30000}) {
    SCOPED_TRACE(value_bytes);
    test::TempDir dir;
    Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 1 << 20;
    options.disable_auto_compactions = true;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, dir.Sub("db"), &db).ok());
    uint64_t immutable = 0;
    uint64_t before = 0;
    for (uint64_t i = 0; immutable == 0; ++i) {
      ASSERT_TRUE(
          db->GetIntProperty("varve.cur-size-active-mem-table", &before));
      char key[17];
      snprintf(key, sizeof(key), "%016llx",
               static_cast<unsigned long long>(i * 0x9E3779B97F4A7C15));
      ASSERT_TRUE(
          db->Put(WriteOptions(), Slice(key, 16), std::string(value_bytes, 'v'))
              .ok());
      uint64_t bytes = 0;
      ASSERT_TRUE(
          db->GetIntProperty("varve.cur-size-active-mem-table", &bytes));
      immutable = bytes < before ? 1 : 0;
    }
    EXPECT_GT(before, options.write_buffer_size);
  }
}

}  // namespace
}  // namespace varve
