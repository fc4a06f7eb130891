// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: a rollback restores a batch as it was at its save point. Method: each
// kind of update after a save point, and random updates against a stack of
// copies.

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/options.h"
#include "varve/write_batch.h"

namespace varve {
namespace {

TEST(WriteBatchSavePointsTest, AreNotFoundWithoutOne) {
  WriteBatch batch;
  batch.Put("key", "value");
  EXPECT_TRUE(IsNotFound(batch.RollbackToSavePoint()));
  EXPECT_TRUE(IsNotFound(batch.PopSavePoint()));
  batch.SetSavePoint();
  ASSERT_TRUE(Ok(batch.PopSavePoint()));
  EXPECT_TRUE(IsNotFound(batch.RollbackToSavePoint()));
  EXPECT_EQ(batch.Count(), 1U);
}

TEST(WriteBatchSavePointsTest, RollBackEachKindOfUpdate) {
  const std::vector<std::function<void(WriteBatch*)>> updates = {
      [](WriteBatch* b) { b->Put("a", "b"); },
      [](WriteBatch* b) { b->Delete("a"); },
      [](WriteBatch* b) { b->SingleDelete("a"); },
      [](WriteBatch* b) { b->Merge("a", "b"); },
      [](WriteBatch* b) { b->DeleteRange("a", "b"); },
      [](WriteBatch* b) { b->PutLogData("blob"); },
      [](WriteBatch* b) { b->Append(*b); }};
  for (const auto& update : updates) {
    WriteBatch batch;
    batch.Put("first", "value");
    const std::string before = batch.Data();
    batch.SetSavePoint();
    update(&batch);
    EXPECT_NE(batch.Data(), before);
    ASSERT_TRUE(Ok(batch.RollbackToSavePoint()));
    EXPECT_EQ(batch.Data(), before);
  }
}

TEST(WriteBatchSavePointsTest, NestLikeCopies) {
  const uint64_t seed = test::TestSeed();
  test::Rng random(seed);
  WriteBatch batch;
  std::vector<std::string> copies;
  for (int step = 0; step < 3000; ++step) {
    switch (random.Below(5)) {
      case 0:
        batch.SetSavePoint();
        copies.push_back(batch.Data());
        break;
      case 1: {
        const Status status = batch.RollbackToSavePoint();
        ASSERT_EQ(status.ok(), !copies.empty());
        if (copies.empty()) break;
        ASSERT_EQ(batch.Data(), copies.back()) << "seed " << seed;
        copies.pop_back();
        break;
      }
      case 2:
        ASSERT_EQ(batch.PopSavePoint().ok(), !copies.empty());
        if (!copies.empty()) copies.pop_back();
        break;
      case 3:
        batch.Delete(std::to_string(step));
        break;
      default:
        batch.Put(std::to_string(step), std::string(random.Below(50), 'v'));
    }
  }
}

TEST(WriteBatchSavePointsTest, AreClearedCopiedAndMoved) {
  WriteBatch batch;
  batch.SetSavePoint();
  batch.Put("key", "value");
  WriteBatch copy(batch);
  WriteBatch moved(std::move(batch));
  ASSERT_TRUE(Ok(copy.RollbackToSavePoint()));
  EXPECT_EQ(copy.Count(), 0U);
  ASSERT_TRUE(Ok(moved.RollbackToSavePoint()));
  EXPECT_EQ(moved.Count(), 0U);
  moved.SetSavePoint();
  moved.Clear();
  EXPECT_TRUE(IsNotFound(moved.PopSavePoint()));
}

// After the rollback the batch has no update of the family, and no merge
// operand, which its families do not accept.
TEST(WriteBatchSavePointsTest, RollBackFamiliesAndMerges) {
  test::TempDir dir;
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, dir.path(), &db)));
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db->CreateColumnFamily(options, "family", &family)));
  WriteBatch batch;
  batch.Put("key", "value");
  batch.SetSavePoint();
  batch.Put(family, "key", "value");
  batch.Merge("key", "operand");
  ASSERT_TRUE(Ok(batch.RollbackToSavePoint()));
  ASSERT_TRUE(Ok(db->DropColumnFamily(family)));
  ASSERT_TRUE(Ok(db->Write(WriteOptions(), &batch)));
  std::string value;
  ASSERT_TRUE(Ok(db->Get(ReadOptions(), "key", &value)));
  EXPECT_EQ(value, "value");
  ASSERT_TRUE(Ok(db->DestroyColumnFamilyHandle(family)));
}

}  // namespace
}  // namespace varve
