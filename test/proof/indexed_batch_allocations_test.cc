// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an indexed batch that has been used before allocates nothing for its
// updates and reads, however many they are, and a new one allocates only when
// its memory doubles. Method: this program's malloc counts.

#include "test/testing/db_helpers.h"
#include "test/testing/machine/counted_malloc.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"
#include "varve/write_batch_with_index.h"

namespace varve::test {
namespace {

// Keys in an order of their own.
std::vector<std::string> MakeKeys(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) {
    keys.push_back(Key(static_cast<int>(i * 7919LL % count)));
  }
  return keys;
}

void Fill(const std::vector<std::string>& keys, WriteBatchWithIndex* batch) {
  for (const std::string& key : keys) {
    ASSERT_TRUE(batch->Put(key, "value").ok());
    ASSERT_TRUE(batch->Merge(key, "operand").ok());
    ASSERT_TRUE(batch->Delete(key).ok());
    ASSERT_TRUE(batch->Put(key, "another").ok());
  }
  ASSERT_TRUE(batch->DeleteRange(keys[0], keys[0] + "0").ok());
}

void Read(const std::vector<std::string>& keys, WriteBatchWithIndex* batch,
          WBWIIterator* it) {
  static const DBOptions kOptions;
  std::string value;
  for (const std::string& key : keys) {
    const Status status = batch->GetFromBatch(kOptions, key, &value);
    ASSERT_EQ(status.ok(), &key != keys.data());
  }
  size_t count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++count;
  ASSERT_EQ(count, 4 * (keys.size() - 1));
}

TEST(IndexedBatchAllocationsTest, GrowWithTheLogarithmOnly) {
  const std::vector<std::string> keys = MakeKeys(20000);
  const uint64_t before = allocations;
  WriteBatchWithIndex batch;
  Fill(keys, &batch);
  {
    const auto it = batch.NewIterator();
    Read(keys, &batch, it.get());
  }
  // About 20 doublings of the batch, and of the index.
  EXPECT_LE(allocations - before, 60U);
}

TEST(IndexedBatchAllocationsTest, AreNoneInABatchUsedAgain) {
  WriteBatchWithIndex batch;
  const auto it = batch.NewIterator();
  const std::vector<std::string> keys = MakeKeys(3000);
  for (int round = 0; round < 5; ++round) {
    const uint64_t before = allocations;
    batch.SetSavePoint();
    Fill(keys, &batch);
    Read(keys, &batch, it.get());
    ASSERT_TRUE(batch.Put("key", "value").ok());
    if (round >= 3) {
      EXPECT_EQ(allocations, before) << round;
    }
    batch.Clear();
  }
}

}  // namespace
}  // namespace varve::test
