// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB obeys Varve's range deletions, and Varve obeys RocksDB's, in
// the log, in level 0 and below. Method: random updates of both engines, in
// turn, in one directory; after each turn both must match the model.

#include <string>

#include "test/testing/model_db.h"
#include "test/testing/seed.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

constexpr int kKeys = 3000;

class RangeDeletionInteropTest : public DbTestBase {
 protected:
  RangeDeletionInteropTest() : rng_(TestSeed()) { options_ = TinyOptions(); }

  void ChangeByVarve(int count) {
    Open();
    for (int i = 0; i < count; i++) {
      WriteBatch batch;
      const int key = rng_.Between(0, kKeys);
      if (rng_.OneIn(30)) {
        const int size = rng_.OneIn(20) ? kKeys / 4 : rng_.Between(1, 20);
        batch.DeleteRange(Key(key), Key(key + size));
      } else if (rng_.OneIn(10)) {
        batch.Delete(Key(key));
      } else {
        batch.Put(Key(key), rng_.Bytes(100));
      }
      ASSERT_TRUE(Ok(db_->Write({}, &batch)));
      ASSERT_TRUE(Ok(model_.Write(batch)));
    }
    EXPECT_TRUE(HasEntries(db_.get(), ToList(model_.entries())));
    Close();
  }

  void ChangeByRocksDb() {
    const int key = rng_.Between(0, kKeys);
    const int end = key + rng_.Between(1, kKeys / 8);
    RunOrFail({"ldb", "--db=" + path_, "deleterange", Key(key), Key(end)});
    model_.DeleteRange(Key(key), Key(end));
    const std::string kept = Key(key + 1);
    Ldb(path_, {"put", Hex(kept), Hex("by rocksdb")});
    model_.Put(kept, "by rocksdb");
  }

  void ExpectAllAgree() {
    const EntryList expected = ToList(model_.entries());
    ExpectRocksDbAgrees(path_, expected);
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(Options(), path_, &db)));
    EXPECT_TRUE(HasEntries(db.get(), expected));
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
  }

  // Range deletions in tables, as RocksDB lists them.
  size_t DeletionsInTables() {
    const std::string list = Ldb(path_, {"list_file_range_deletes"});
    size_t count = 0;
    for (size_t at = list.find("start: "); at != std::string::npos;
         at = list.find("start: ", at + 1)) {
      count++;
    }
    return count;
  }

  Rng rng_;
  ModelDb model_;
};

TEST_F(RangeDeletionInteropTest, InTheLogOnly) {
  Open();
  for (int i = 0; i < 30; i++) {
    Put(Key(i), "v");
    model_.Put(Key(i), "v");
  }
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(10), Key(20))));
  model_.DeleteRange(Key(10), Key(20));
  Put(Key(15), "new");
  model_.Put(Key(15), "new");
  Close();
  ExpectAllAgree();
  RunOrFail({"ldb", "--db=" + path_, "deleterange", Key(0), Key(5)});
  model_.DeleteRange(Key(0), Key(5));
  ExpectAllAgree();
}

TEST_F(RangeDeletionInteropTest, InATableWithNothingElse) {
  Open();
  for (int i = 0; i < 30; i++) {
    Put(Key(i), "v");
    model_.Put(Key(i), "v");
  }
  CompactAll();
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(10), Key(20))));
  model_.DeleteRange(Key(10), Key(20));
  Flush();
  Close();
  EXPECT_EQ(DeletionsInTables(), 1u);
  ExpectAllAgree();
  for (const std::string& table : FilesEndingIn(path_, ".sst")) {
    RunOrFail({"sst_dump", "--file=" + table, "--command=raw", "--output_hex"});
  }
  Ldb(path_, {"compact"});
  EXPECT_EQ(DeletionsInTables(), 0u);
  ExpectAllAgree();
}

TEST_F(RangeDeletionInteropTest, BothObeyTheOthers) {
  size_t seen = 0;
  for (int round = 0; round < 6; round++) {
    SCOPED_TRACE("round " + std::to_string(round));
    ChangeByVarve(rng_.Between(500, 4000));
    if (HasFailure()) return;
    seen += DeletionsInTables();
    ExpectAllAgree();
    ChangeByRocksDb();
    ExpectAllAgree();
    if (round == 3) {
      Ldb(path_, {"compact"});
      ExpectAllAgree();
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace varve::test
