// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database with a bound of space refuses what would exceed it, loses
// nothing, and goes on when there is room; the manager counts the tables that
// are there; obsolete tables wait as they are told. Method: databases whose
// bound is below what they are given.

#include "db/space/sst_file_manager_impl.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"

namespace varve::test {
namespace {

class DbSpaceLimitTest : public DbTestBase {
 protected:
  DbSpaceLimitTest() : manager_(NewSstFileManager(Env::Default())) {
    options_.sst_file_manager = manager_;
    options_.compression = CompressionType::kNone;
    options_.disable_auto_compactions = true;
  }

  // Writes a table of at least 50,000 bytes.
  void WriteTable(char key) {
    Put(std::string(1, key), std::string(50000, key));
    Flush();
  }
  uint64_t TableBytes() {
    uint64_t bytes = 0;
    for (const std::string& path : FilesEndingIn(path_, ".sst")) {
      bytes += std::filesystem::file_size(path);
    }
    return bytes;
  }

  const std::shared_ptr<SstFileManager> manager_;
};

TEST_F(DbSpaceLimitTest, TotalSizeIsThatOfTheFiles) {
  Open();
  EXPECT_EQ(manager_->GetTotalSize(), 0u);
  for (const char key : {'a', 'b', 'a'}) {
    WriteTable(key);
    EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  }
  EXPECT_EQ(manager_->GetTrackedFiles().size(), 3u);
  CompactAll();
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  EXPECT_GT(TableBytes(), 100000u);
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "family", &family)));
  ASSERT_TRUE(Ok(db_->Put({}, family, "a", std::string(50000, 'x'))));
  ASSERT_TRUE(Ok(db_->Flush({}, family)));
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  ASSERT_TRUE(Ok(db_->DropColumnFamily(family)));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(family)));
  EXPECT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  Close();
  EXPECT_EQ(manager_->GetTotalSize(), 0u);
  Open();
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  EXPECT_GT(TableBytes(), 100000u);
}

TEST_F(DbSpaceLimitTest, FlushesThatWouldExceedItFail) {
  Open();
  WriteTable('a');
  manager_->SetMaxAllowedSpaceUsage(TableBytes() + 50000);
  Put("b", std::string(50000, 'b'));
  const Status flush = db_->Flush({});
  EXPECT_TRUE(flush.IsSpaceLimit()) << flush.ToString();
  EXPECT_TRUE(flush.IsIOError());
  EXPECT_THAT(flush.ToString(),
              ::testing::HasSubstr("Max allowed space was reached"));
  EXPECT_LE(TableBytes(), 100000u);
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  // Reads go on, and so do deletions.
  EXPECT_TRUE(db_->Put({}, "c", "c").IsSpaceLimit());
  EXPECT_EQ(Get("b").size(), 50000u);
  Delete("c");
  manager_->SetMaxAllowedSpaceUsage(0);
  EXPECT_TRUE(Ok(db_->Resume()));
  Put("c", "c");
  EXPECT_EQ(Get("b").size(), 50000u);
  EXPECT_GT(TableBytes(), 100000u);
  Reopen();
  EXPECT_EQ(Get("a").size(), 50000u);
  EXPECT_EQ(Get("b").size(), 50000u);
  EXPECT_EQ(Get("c"), "c");
}

// Nothing is written in vain.
TEST_F(DbSpaceLimitTest, FurtherAttemptsKnowWhatIsNeeded) {
  Open();
  WriteTable('a');
  manager_->SetMaxAllowedSpaceUsage(TableBytes() + 40000);
  Put("b", std::string(50000, 'b'));
  EXPECT_TRUE(db_->Flush({}).IsSpaceLimit());
  EXPECT_TRUE(db_->Resume().IsSpaceLimit());
  EXPECT_TRUE(db_->Resume().IsSpaceLimit());
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  manager_->SetMaxAllowedSpaceUsage(TableBytes() + 51000);
  EXPECT_TRUE(Ok(db_->Resume()));
}

// It has room again by itself: the automatic retry, or the next call.
TEST_F(DbSpaceLimitTest, DeletingAllMakesRoom) {
  Open();
  for (const char key : {'a', 'b', 'c'}) WriteTable(key);
  manager_->SetMaxAllowedSpaceUsage(TableBytes() + 40000);
  Put("d", std::string(50000, 'd'));
  EXPECT_TRUE(db_->Flush({}).IsSpaceLimit());
  DeleteRange("a", "z");
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_LT(TableBytes(), 50000u);
  EXPECT_EQ(manager_->GetTotalSize(), TableBytes());
  Put("e", "e");
  EXPECT_EQ(Get("a"), "NotFound");
}

TEST_F(DbSpaceLimitTest, CompactionsWaitForRoom) {
  Open();
  for (const char key : {'a', 'b', 'a'}) WriteTable(key);
  const uint64_t bytes = TableBytes();
  manager_->SetMaxAllowedSpaceUsage(2 * bytes - 1);
  const Status refused = db_->CompactRange({}, nullptr, nullptr);
  EXPECT_TRUE(refused.IsSpaceLimit()) << refused.ToString();
  EXPECT_EQ(TableBytes(), bytes);
  Put("c", "c");  // It is not read-only.
  manager_->SetMaxAllowedSpaceUsage(2 * bytes + 10000);
  manager_->SetCompactionBufferSize(20000);
  EXPECT_TRUE(db_->CompactRange({}, nullptr, nullptr).IsSpaceLimit());
  manager_->SetCompactionBufferSize(0);
  EXPECT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
  EXPECT_LT(TableBytes(), bytes);
}

TEST_F(DbSpaceLimitTest, DatabasesShareABound) {
  Open();
  WriteTable('a');
  std::unique_ptr<DB> other;
  ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("other"), &other)));
  manager_->SetMaxAllowedSpaceUsage(TableBytes() + 40000);
  ASSERT_TRUE(Ok(other->Put({}, "b", std::string(50000, 'b'))));
  EXPECT_TRUE(other->Flush({}).IsSpaceLimit());
  Close();  // Its tables do not count any more.
  EXPECT_TRUE(Ok(other->Resume()));
  other.reset();
  EXPECT_EQ(manager_->GetTotalSize(), 0u);
}

TEST_F(DbSpaceLimitTest, ObsoleteTablesWaitUntilClose) {
  manager_->SetDeleteRateBytesPerSecond(1);
  manager_->SetMaxTrashDBRatio(1);
  Open();
  for (const char key : {'a', 'a', 'b', 'b'}) WriteTable(key);
  CompactAll();
  // One may be removed, and a pause follows it.
  EXPECT_GE(FilesEndingIn(path_, ".trash").size(), 3u);
  EXPECT_GE(manager_->GetTotalTrashSize(), 3 * 50000u);
  EXPECT_GE(manager_->GetTotalSize(), TableBytes() + 3 * 50000u);
  EXPECT_EQ(Get("a").size(), 50000u);
  Close();
  EXPECT_TRUE(FilesEndingIn(path_, ".trash").empty());
  EXPECT_EQ(manager_->GetTotalTrashSize(), 0u);
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), 1u);
}

TEST_F(DbSpaceLimitTest, OpenRemovesWhatAnotherProcessLeft) {
  Open();
  WriteTable('a');
  Close();
  const std::string table = FilesEndingIn(path_, ".sst").at(0);
  const std::string trash = path_ + "/000999.sst.trash";
  std::filesystem::copy(table, trash);
  options_.sst_file_manager = nullptr;
  Open();
  EXPECT_FALSE(std::filesystem::exists(trash));
  EXPECT_EQ(Get("a").size(), 50000u);
  Close();
  std::filesystem::copy(table, trash);
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(std::filesystem::exists(trash));
}

}  // namespace
}  // namespace varve::test
