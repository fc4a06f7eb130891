// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a batch takes slices of its own bytes, and refuses more updates than
// its count of 32 bits can tell. Method: every operation with a slice of the
// batch's own bytes at every fill of its buffer, against the same operation
// with a copy; and batches whose header says that they are almost full.

#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"
#include "varve/write_batch.h"

namespace varve {
namespace {

using Operation = std::function<void(WriteBatch*, const Slice&)>;

const std::vector<Operation>& Operations() {
  static const std::vector<Operation> operations = {
      [](WriteBatch* b, const Slice& s) { b->Put(s, "value"); },
      [](WriteBatch* b, const Slice& s) { b->Put("key", s); },
      [](WriteBatch* b, const Slice& s) { b->Put(s, s); },
      [](WriteBatch* b, const Slice& s) { b->Delete(s); },
      [](WriteBatch* b, const Slice& s) { b->SingleDelete(s); },
      [](WriteBatch* b, const Slice& s) { b->DeleteRange(s, "z"); },
      [](WriteBatch* b, const Slice& s) { b->DeleteRange("a", s); },
      [](WriteBatch* b, const Slice& s) { b->PutLogData(s); }};
  return operations;
}

TEST(WriteBatchBoundsTest, TakesSlicesOfItsOwnBytes) {
  for (const Operation& operation : Operations()) {
    // Every size, so that each byte of a record is once the first that does not
    // fit into the buffer.
    for (size_t size = 0; size < 300; ++size) {
      WriteBatch batch;
      batch.Put("first", std::string(size, 'x'));
      const std::string before = batch.Data();
      WriteBatch expected(before);
      // All of it, header included; and its end.
      for (const size_t begin : {size_t{0}, before.size() / 2}) {
        const Slice own(batch.Data().data() + begin, before.size() - begin);
        operation(&expected, own.ToString());
        operation(&batch, own);
        ASSERT_EQ(batch.Data(), expected.Data()) << "size " << size;
      }
    }
  }
}

TEST(WriteBatchBoundsTest, AppendsItself) {
  for (size_t size = 0; size < 300; ++size) {
    WriteBatch batch;
    batch.Put("key", std::string(size, 'x'));
    batch.Delete("other");
    WriteBatch copy(batch);
    WriteBatch expected(batch);
    expected.Append(copy);
    batch.Append(batch);
    ASSERT_EQ(batch.Data(), expected.Data());
    ASSERT_EQ(batch.Count(), 4u);
    ASSERT_EQ(batch.Data().size(), 2 * copy.Data().size() - 12);
  }
}

TEST(WriteBatchBoundsTest, AssignsItself) {
  WriteBatch batch;
  batch.Put("key", "value");
  const std::string before = batch.Data();
  WriteBatch& same = batch;
  batch = same;
  EXPECT_EQ(batch.Data(), before);
  batch = std::move(same);
  EXPECT_EQ(batch.Data(), before);
}

std::string Header(uint32_t count) {
  std::string header;
  PutFixed64(&header, 0);
  PutFixed32(&header, count);
  return header;
}

class BatchCountTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(DB::Open(options, dir_.Sub("db"), &db_).ok());
  }

  test::TempDir dir_;
  std::unique_ptr<DB> db_;
};

TEST_F(BatchCountTest, RefusesAnUpdateThatThe32BitsCannotCount) {
  for (const Operation& operation : Operations()) {
    if (&operation == &Operations().back()) continue;  // No update.
    WriteBatch batch(Header(0xFFFFFFFF));
    operation(&batch, "key");
    EXPECT_EQ(batch.Count(), 0xFFFFFFFFu);  // It was 0.
    EXPECT_TRUE(IsInvalidArgument(db_->Write(WriteOptions(), &batch)));
  }
  // Nothing happened to the database, and an emptied batch is as new.
  WriteBatch batch(Header(0xFFFFFFFF));
  batch.Put("key", "value");
  batch.Clear();
  batch.Put("key", "value");
  EXPECT_TRUE(db_->Write(WriteOptions(), &batch).ok());
}

TEST_F(BatchCountTest, RefusesAnAppendThatThe32BitsCannotCount) {
  WriteBatch target(Header(0x80000000));
  const WriteBatch source(Header(0x80000000));
  target.Append(source);
  EXPECT_EQ(target.Count(), 0x80000000u);
  EXPECT_TRUE(db_->Write(WriteOptions(), &target).IsInvalidArgument());
  WriteBatch itself(Header(0x80000000));
  itself.Append(itself);
  EXPECT_TRUE(db_->Write(WriteOptions(), &itself).IsInvalidArgument());
  // One less is counted, and then found to be a lie.
  WriteBatch most(Header(0x7FFFFFFF));
  most.Append(WriteBatch(Header(0x80000000)));
  EXPECT_EQ(most.Count(), 0xFFFFFFFFu);
  EXPECT_TRUE(db_->Write(WriteOptions(), &most).IsCorruption());
  EXPECT_TRUE(db_->Put(WriteOptions(), "key", "value").ok());
}

}  // namespace
}  // namespace varve
