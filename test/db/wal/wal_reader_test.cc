// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a log is read up to its last complete record, and its end is torn only
// if nothing after the damage was complete. Method: logs of single fragments,
// with their types and padding chosen by the test.

#include "db/wal/wal_reader.h"

#include "db/wal/wal_format.h"
#include "test/testing/test_headers.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"
#include "varve/env.h"

namespace varve::wal {
namespace {

constexpr uint32_t kNumber = 7;

bool IsRecyclable(int type) {
  return (type >= kRecyclableFull && type <= kRecyclableLast) ||
         type == kRecyclablePredecessorLog;
}
size_t HeaderSize(int type) {
  return IsRecyclable(type) ? kRecyclableHeaderSize : kHeaderSize;
}

class WalReaderTest : public ::testing::Test {
 protected:
  // Adds a fragment of `size` bytes, without its header.
  void Add(int type, size_t size) {
    std::string fragment(HeaderSize(type), '\0');
    fragment[4] = static_cast<char>(size & 0xff);
    fragment[5] = static_cast<char>(size >> 8);
    fragment[6] = static_cast<char>(type);
    if (IsRecyclable(type)) {
      EncodeFixed32(fragment.data() + kHeaderSize, kNumber);
    }
    fragment.append(size, 'r');
    EncodeFixed32(fragment.data(),
                  MaskCrc(Crc32c(fragment.data() + 6, fragment.size() - 6)));
    log_ += fragment;
  }
  // Adds a fragment that leaves `left` bytes of the block.
  void FillBlock(int type, size_t left) {
    Add(type, kBlockSize - log_.size() % kBlockSize - HeaderSize(type) - left);
  }

  void Open() {
    const std::string path = "/log";
    ASSERT_TRUE(WriteStringToFile(env_.get(), log_, path, false).ok());
    std::unique_ptr<SequentialFile> file;
    ASSERT_TRUE(env_->NewSequentialFile(path, {}, &file).ok());
    reader_ = std::make_unique<Reader>(std::move(file), path, kNumber);
  }
  // Reads all records. Returns the outcome after the last one.
  ReadOutcome ReadAll() {
    Open();
    sizes_.clear();
    Slice record;
    ReadOutcome outcome;
    while ((outcome = reader_->ReadRecord(&record)) == ReadOutcome::kRecord) {
      sizes_.push_back(record.size());
    }
    return outcome;
  }

  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  std::string log_;
  std::unique_ptr<Reader> reader_;
  std::vector<size_t> sizes_;  // The records' sizes.
};

using Sizes = std::vector<size_t>;

// RocksDB pads a block whose rest cannot hold a header of its type.
TEST_F(WalReaderTest, BlocksMayEndInPadding) {
  for (const int type : {kFull, kRecyclableFull}) {
    for (size_t left = 0; left < HeaderSize(type); ++left) {
      SCOPED_TRACE(left);
      log_.clear();
      FillBlock(type, left);
      const size_t size = log_.size() - HeaderSize(type);
      log_.append(left, '\0');
      Add(type, 10);
      EXPECT_EQ(ReadAll(), ReadOutcome::kEnd) << reader_->status().ToString();
      EXPECT_EQ(sizes_, (Sizes{size, 10}));
    }
  }
}

// The first fragment of a record is empty if only its header fits in a block.
TEST_F(WalReaderTest, ALogMayEndAfterAnEmptyFragment) {
  FillBlock(kFull, kHeaderSize);
  const size_t end = log_.size();
  Add(kFirst, 0);
  EXPECT_EQ(ReadAll(), ReadOutcome::kTornTail);
  EXPECT_EQ(sizes_.size(), 1u);
  EXPECT_EQ(reader_->RecordEnd(), end);
  EXPECT_TRUE(reader_->EndIsTorn(ReadOutcome::kTornTail));
  // The writer began the record again, or the next one.
  Add(kFull, 10);
  EXPECT_EQ(ReadAll(), ReadOutcome::kEnd);
  EXPECT_EQ(sizes_.size(), 2u);
}

// With track_and_verify_wals RocksDB begins a log so.
TEST_F(WalReaderTest, SkipsARecordAboutTheLogBefore) {
  for (const bool recyclable : {false, true}) {
    const int offset = recyclable ? kRecyclableFull - kFull : 0;
    const int type = recyclable ? kRecyclablePredecessorLog : kPredecessorLog;
    SCOPED_TRACE(type);
    log_.clear();
    Add(type, 20);
    EXPECT_EQ(ReadAll(), ReadOutcome::kEnd) << reader_->status().ToString();
    EXPECT_EQ(sizes_, Sizes{});
    const std::string whole = log_;
    log_.pop_back();
    EXPECT_EQ(ReadAll(), ReadOutcome::kTornTail);
    EXPECT_TRUE(reader_->EndIsTorn(ReadOutcome::kTornTail));
    log_ = whole;
    Add(kFull + offset, 10);
    Add(kFull + offset, 11);
    EXPECT_EQ(ReadAll(), ReadOutcome::kEnd) << reader_->status().ToString();
    EXPECT_EQ(sizes_, (Sizes{10, 11}));
    // It cannot be within another record.
    Add(kFirst + offset, 12);
    Add(type, 20);
    Add(kLast + offset, 12);
    EXPECT_EQ(ReadAll(), ReadOutcome::kDamage);
    EXPECT_EQ(sizes_, (Sizes{10, 11}));
  }
}

// The first sector of the last record was not written, but others were.
TEST_F(WalReaderTest, ATornRecordMayHaveItsContinuation) {
  for (const bool recyclable : {false, true}) {
    const int offset = recyclable ? kRecyclableFull - kFull : 0;
    SCOPED_TRACE(offset);
    log_.clear();
    Add(kFull + offset, 100);
    const size_t begin = log_.size();
    FillBlock(kFirst + offset, 0);
    FillBlock(kMiddle + offset, 0);
    Add(kLast + offset, 1000);
    log_.replace(begin, 512, 512, '\0');
    EXPECT_EQ(ReadAll(), ReadOutcome::kDamage);
    EXPECT_EQ(sizes_, Sizes{100});
    EXPECT_TRUE(reader_->EndIsTorn(ReadOutcome::kDamage));
    // A record that begins after it is evidence of damage.
    for (const int type : {kFull, kFirst}) {
      const size_t size = log_.size();
      Add(type + offset, 10);
      EXPECT_EQ(ReadAll(), ReadOutcome::kDamage);
      EXPECT_FALSE(reader_->EndIsTorn(ReadOutcome::kDamage));
      log_.resize(size);
    }
  }
}

}  // namespace
}  // namespace varve::wal
