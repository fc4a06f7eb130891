// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: rows of reads become few large ones, other reads stay as they are, and
// what is served is the file's. Method: reads of a file in memory that counts.
#include "table/cache/readahead_buffer.h"

#include <gtest/gtest.h>

#include "test/testing/env/string_random_access_file.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"

namespace varve {
namespace {

constexpr size_t kBlock = 4096;

class ReadaheadBufferTest : public ::testing::Test {
 protected:
  // Whether the part was served, and then that it is right.
  bool Serves(ReadaheadBuffer* buffer, uint64_t offset, size_t size) {
    Slice result;
    EXPECT_TRUE(Ok(buffer->Serve(offset, size, &result)));
    if (result.data() == nullptr) return false;
    EXPECT_EQ(result, Slice(bytes_.data() + offset, size));
    return true;
  }

  const std::string bytes_ = test::Rng(1).Bytes(4 << 20);
  testing::ReadLog log_;
  testing::StringRandomAccessFile file_{bytes_, &log_};
};

TEST_F(ReadaheadBufferTest, GrowsWithARow) {
  ReadaheadBuffer buffer(&file_, bytes_.size(), 0);
  EXPECT_FALSE(Serves(&buffer, 0, kBlock));
  EXPECT_FALSE(Serves(&buffer, kBlock, kBlock));
  for (uint64_t offset = 2 * kBlock; offset < bytes_.size(); offset += kBlock) {
    ASSERT_TRUE(Serves(&buffer, offset, kBlock));
  }
  // 16, 32, 64, 128 and then always 256 KiB.
  EXPECT_EQ(log_.reads.load(), 5 + 15);
  EXPECT_EQ(log_.bytes.load(), bytes_.size() - 2 * kBlock);
}

TEST_F(ReadaheadBufferTest, LeavesScatteredReadsAlone) {
  ReadaheadBuffer buffer(&file_, bytes_.size(), 0);
  for (uint64_t i = 100; i > 0; --i) {
    ASSERT_FALSE(Serves(&buffer, i * 8 * kBlock, kBlock));
  }
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_FALSE(Serves(&buffer, i * 8 * kBlock, kBlock));
  }
  EXPECT_EQ(log_.reads.load(), 0);
}

TEST_F(ReadaheadBufferTest, SmallGapsKeepTheRow) {
  ReadaheadBuffer buffer(&file_, bytes_.size(), 0);
  EXPECT_FALSE(Serves(&buffer, 0, kBlock));
  EXPECT_FALSE(Serves(&buffer, 2 * kBlock, kBlock));
  EXPECT_TRUE(Serves(&buffer, 4 * kBlock, kBlock));
  EXPECT_TRUE(Serves(&buffer, 6 * kBlock, kBlock));
}

TEST_F(ReadaheadBufferTest, FixedSizeReadsAheadAtOnce) {
  ReadaheadBuffer buffer(&file_, bytes_.size(), 1 << 20);
  for (uint64_t offset = 0; offset < bytes_.size(); offset += kBlock) {
    ASSERT_TRUE(Serves(&buffer, offset, kBlock));
  }
  EXPECT_EQ(log_.reads.load(), 4);
  // A walk back reads nothing ahead.
  for (uint64_t offset = 2 << 20; offset > 0; offset -= kBlock) {
    ASSERT_FALSE(Serves(&buffer, offset, kBlock));
  }
  EXPECT_EQ(log_.reads.load(), 4);
}

TEST_F(ReadaheadBufferTest, ServesFilledBytes) {
  ReadaheadBuffer buffer(&file_, bytes_.size(), 0);
  ASSERT_TRUE(buffer.Fill(1000, 500).ok());
  EXPECT_TRUE(Serves(&buffer, 1000, 500));
  EXPECT_TRUE(Serves(&buffer, 1499, 1));
  EXPECT_TRUE(Serves(&buffer, 1200, 0));
  EXPECT_FALSE(Serves(&buffer, 999, 2));
  EXPECT_FALSE(Serves(&buffer, 1499, 2));
}

TEST_F(ReadaheadBufferTest, ServesNothingWhereTheFileEndsEarly) {
  testing::StringRandomAccessFile shorter(bytes_.substr(0, 10000));
  ReadaheadBuffer buffer(&shorter, bytes_.size(), 1 << 20);
  EXPECT_TRUE(Serves(&buffer, 4096, 4096));
  EXPECT_FALSE(Serves(&buffer, 8192, 4096));
  EXPECT_FALSE(Serves(&buffer, 20000, 4096));
}

TEST_F(ReadaheadBufferTest, ReportsErrors) {
  log_.fail_from = 100000;
  ReadaheadBuffer buffer(&file_, bytes_.size(), 1 << 20);
  Slice result;
  EXPECT_TRUE(buffer.Serve(0, kBlock, &result).IsIOError());
}

}  // namespace
}  // namespace varve
