// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the tables of a family of one database become a family of another, in
// one step, with their levels and sequence numbers. Method: metadata made by
// hand of tables of a second database, and of wrong ones.

#include "test/testing/db/external_tables.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/test_headers.h"
#include "varve/external_files.h"
#include "varve/metadata.h"

namespace varve::test {
namespace {

class ImportTest : public FamiliesTest {
 protected:
  ImportTest() { options_.disable_auto_compactions = true; }

  // A database with two tables in level 0, the second of which is newer.
  void MakeSource() {
    path_ = dir_.Sub("source");
    OpenNew({});
    Do("put a 1, put b 1, put c 1, flush");
    Do("put b 2, delete c, delete_range d e, flush");
    Close();
    for (const std::string& path : TableFiles()) {
      LiveFileMetaData table;
      table.name = path.substr(path.rfind('/'));
      table.db_path = path_;
      tables_[table.name] = table;
    }
    ASSERT_EQ(tables_.size(), 2u);
    // Numbers rise, and so do sequence numbers.
    LiveFileMetaData& older = tables_.begin()->second;
    older.smallest_seqno = 1;
    older.largest_seqno = 3;
    older.smallestkey = "a";
    older.largestkey = "c";
    LiveFileMetaData& newer = tables_.rbegin()->second;
    newer.smallest_seqno = 4;
    newer.largest_seqno = 6;
    newer.smallestkey = "b";
    newer.largestkey = "e";
    path_ = dir_.Sub("db");
  }
  ExportImportFilesMetaData Metadata() const {
    ExportImportFilesMetaData metadata;
    metadata.db_comparator_name = options_.comparator->Name();
    for (const auto& [name, table] : tables_) metadata.files.push_back(table);
    return metadata;
  }
  Status Import(const ExportImportFilesMetaData& metadata,
                const ImportColumnFamilyOptions& how = {}) {
    ColumnFamilyHandle* handle = nullptr;
    const Status status = db_->CreateColumnFamilyWithImport(
        options_, "imported", how, metadata, &handle);
    EXPECT_EQ(status.ok(), handle != nullptr);
    if (handle != nullptr) handles_["imported"] = handle;
    return status;
  }

  std::map<std::string, LiveFileMetaData> tables_;
};

TEST_F(ImportTest, MakesAFamily) {
  MakeSource();
  OpenNew({});
  Do("put a other");
  ASSERT_TRUE(Ok(Import(Metadata())));
  const EntryList expected = {{"a", "1"}, {"b", "2"}};
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("imported"), expected));
  EXPECT_EQ(Get("a"), "other");
  // New updates are newer.
  EXPECT_GE(db_->GetLatestSequenceNumber(), 6u);
  PutIn("imported", "b", "3");
  EXPECT_EQ(GetIn("imported", "b"), "3");
  ReopenAll();
  EXPECT_EQ(GetIn("imported", "b"), "3");
  EXPECT_EQ(GetIn("imported", "a"), "1");
  ASSERT_TRUE(Ok(db_->CompactRange({}, At("imported"), nullptr, nullptr)));
  EXPECT_TRUE(
      FamilyHasEntries(db_.get(), At("imported"), {{"a", "1"}, {"b", "3"}}));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(ImportTest, MovesFiles) {
  MakeSource();
  OpenNew({});
  ASSERT_TRUE(Ok(Import(Metadata(), {.move_files = true})));
  for (const auto& [name, table] : tables_) {
    EXPECT_FALSE(std::filesystem::exists(table.db_path + table.name));
  }
  EXPECT_EQ(GetIn("imported", "b"), "2");
}

TEST_F(ImportTest, RefusesWhatDoesNotFit) {
  MakeSource();
  OpenNew({"other"});
  const auto expect_refused = [this](const ExportImportFilesMetaData& wrong) {
    EXPECT_TRUE(IsInvalidArgument(Import(wrong)));
    // Nothing has changed.
    EXPECT_TRUE(Ok(db_->Put({}, "k", "v")));
    EXPECT_EQ(TableFiles().size(), 0u);
  };
  expect_refused({});
  ExportImportFilesMetaData wrong = Metadata();
  wrong.db_comparator_name = "another";
  expect_refused(wrong);
  wrong = Metadata();
  wrong.files[0].level = 7;
  expect_refused(wrong);
  wrong = Metadata();
  wrong.files[0].largest_seqno = UINT64_MAX;
  expect_refused(wrong);
  wrong = Metadata();
  wrong.files[0].size = 1;
  expect_refused(wrong);
  // They overlap.
  wrong = Metadata();
  wrong.files[0].level = 3;
  wrong.files[1].level = 3;
  expect_refused(wrong);
  wrong = Metadata();
  wrong.files[0].name = "/none";
  EXPECT_FALSE(Import(wrong).ok());
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_TRUE(IsInvalidArgument(db_->CreateColumnFamilyWithImport(
                                    options_, "other", {}, Metadata(), &handle),
                                "exists"));
  ASSERT_TRUE(Ok(Import(Metadata())));
}

// Range deletions in a file can reach beyond the keys that its MANIFEST gave.
TEST_F(ImportTest, ClipsTables) {
  OpenNew({});
  WriteExternalTable(options_, dir_.Sub("t"), "delete_range b y, put c 1");
  LiveFileMetaData table;
  table.name = "/t";
  table.db_path = dir_.path();
  table.level = 5;
  table.smallest_seqno = table.largest_seqno = 9;
  table.smallestkey = "c";
  table.largestkey = "m";
  ExportImportFilesMetaData metadata;
  metadata.db_comparator_name = options_.comparator->Name();
  metadata.files = {table};
  WriteExternalTable(options_, dir_.Sub("u"), "put m 2, put n 2");
  table.name = "/u";
  table.largestkey = "n";
  table.smallestkey = "m";
  table.level = 6;
  table.smallest_seqno = table.largest_seqno = 1;
  metadata.files.push_back(table);
  ASSERT_TRUE(Ok(Import(metadata)));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("imported"),
                               {{"c", "1"}, {"m", "2"}, {"n", "2"}}));
}

}  // namespace
}  // namespace varve::test
