// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a family that Checkpoint::ExportColumnFamily copies becomes a family of
// another database, and of the same one. Method: families with several levels,
// range deletions and ingested tables.

#include "test/testing/db/external_tables.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"
#include "varve/external_files.h"
#include "varve/metadata.h"

namespace varve::test {
namespace {

class ExportTest : public FamiliesTest {
 protected:
  Status Export(const std::string& family, const std::string& directory) {
    std::unique_ptr<Checkpoint> checkpoint;
    EXPECT_TRUE(Ok(Checkpoint::Create(db_.get(), &checkpoint)));
    ExportImportFilesMetaData* metadata = nullptr;
    const Status status =
        checkpoint->ExportColumnFamily(At(family), directory, &metadata);
    EXPECT_EQ(status.ok(), metadata != nullptr);
    metadata_.reset(metadata);
    return status;
  }
  Status Import(const std::string& name,
                const ImportColumnFamilyOptions& how = {}) {
    ColumnFamilyHandle* handle = nullptr;
    const Status status = db_->CreateColumnFamilyWithImport(
        options_, name, how, *metadata_, &handle);
    if (handle != nullptr) handles_[name] = handle;
    return status;
  }

  std::unique_ptr<ExportImportFilesMetaData> metadata_;
};

TEST_F(ExportTest, GoesToAnotherDatabase) {
  OpenNew({"one"});
  Entries expected;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 1000; ++i) {
      if (i % (round + 2) != 0) continue;
      const std::string value = std::to_string(round) + std::string(100, 'v');
      PutIn("one", Key(i), value);
      expected[Key(i)] = value;
    }
    ASSERT_TRUE(Ok(db_->DeleteRange({}, At("one"), Key(round * 100),
                                    Key(round * 100 + 50))));
    expected.erase(expected.lower_bound(Key(round * 100)),
                   expected.lower_bound(Key(round * 100 + 50)));
    FlushOne("one");
  }
  WriteExternalTable(options_, dir_.Sub("t"),
                     "put " + Key(1) + " ingested, delete " + Key(500));
  ASSERT_TRUE(Ok(db_->IngestExternalFile(At("one"), {dir_.Sub("t")}, {})));
  expected[Key(1)] = "ingested";
  expected.erase(Key(500));
  const std::string directory = dir_.Sub("export");
  ASSERT_TRUE(Ok(Export("one", directory)));
  EXPECT_TRUE(IsInvalidArgument(Export("one", directory), "exists"));
  ASSERT_TRUE(Ok(Export("one", dir_.Sub("again"))));
  EXPECT_EQ(metadata_->db_comparator_name, options_.comparator->Name());
  // Into the same database.
  ASSERT_TRUE(Ok(Import("two")));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("two"), ToList(expected)));
  PutIn("two", Key(1), "newer");
  EXPECT_EQ(GetIn("two", Key(1)), "newer");
  EXPECT_EQ(GetIn("one", Key(1)), "ingested");
  ReopenAll();
  EXPECT_EQ(GetIn("two", Key(1)), "newer");
  Close();
  // Into another one, with fewer updates.
  path_ = dir_.Sub("other");
  OpenNew({});
  ASSERT_TRUE(Ok(Import("moved", {.move_files = true})));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("moved"), ToList(expected)));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.Sub("again")));
  ReopenAll();
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("moved"), ToList(expected)));
  ASSERT_TRUE(Ok(db_->CompactRange({}, At("moved"), nullptr, nullptr)));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("moved"), ToList(expected)));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(ExportTest, RefusesItsOwnTables) {
  OpenNew({"one"});
  PutIn("one", "a", "1");
  FlushOne("one");
  ASSERT_TRUE(Ok(Export("one", dir_.Sub("export"))));
  for (LiveFileMetaData& table : metadata_->files) table.db_path = path_;
  EXPECT_TRUE(IsInvalidArgument(Import("two", {.move_files = true}),
                                "of the database"));
  EXPECT_EQ(GetIn("one", "a"), "1");
}

}  // namespace
}  // namespace varve::test
