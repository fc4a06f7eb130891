// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: operands are applied once where a key's versions are in two files of a
// level, as RocksDB may leave them, and where a log has operands that are in a
// table as well. Method: a MANIFEST that moves tables of level 0 to level 1; a
// log that only another family needs.

#include "env/file_names.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/db/manifest_edits.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class DbMergePlacesTest : public FamiliesTest {
 protected:
  DbMergePlacesTest() {
    options_.merge_operator = NewStringAppendOperator();
    options_.disable_auto_compactions = true;
    options_.level_compaction_dynamic_level_bytes = false;
  }

  void ExpectEntries(const EntryList& entries) {
    EXPECT_TRUE(FamilyHasEntries(db_.get(), nullptr, entries));
  }
  void ReadManifest(std::string* path, std::vector<VersionEdit>* edits) {
    std::string name;
    ASSERT_TRUE(Ok(ReadCurrentFile(Env::Default(), path_, &name)));
    *path = path_ + "/" + name;
    ReadEdits(Env::Default(), *path, edits);
  }
  // Changes the closed database, so that all tables of level 0 are in level 1.
  void MoveToLevel1() {
    std::string path;
    std::vector<VersionEdit> edits;
    ASSERT_NO_FATAL_FAILURE(ReadManifest(&path, &edits));
    for (VersionEdit& edit : edits) {
      for (auto& [level, file] : *edit.mutable_new_files()) level = 1;
    }
    WriteEdits(Env::Default(), path, edits);
  }
};

TEST_F(DbMergePlacesTest, OperandsInTwoFilesOfALevel) {
  for (const bool has_base : {true, false}) {
    for (const char* const compacted : {"a", "k", "z"}) {
      SCOPED_TRACE(std::string(compacted) + (has_base ? ", a value" : ""));
      OpenAnew();
      // The older table comes second, since newer versions come first.
      if (has_base) Put("k", "1");
      Do("merge k 2, put z last, flush, put a first, merge k 3, merge k 4, "
         "flush");
      Close();
      ASSERT_NO_FATAL_FAILURE(MoveToLevel1());
      Open();
      ASSERT_EQ(TablesAt(1), 2u);
      const EntryList entries = {
          {"a", "first"}, {"k", has_base ? "1,2,3,4" : "2,3,4"}, {"z", "last"}};
      ExpectEntries(entries);
      CompactRangeOptions options{.target_level = 2};
      const Slice key(compacted);
      ASSERT_TRUE(Ok(db_->CompactRange(options, &key, &key)));
      ExpectEntries(entries);
      CompactAll();
      ExpectEntries(entries);
    }
  }
}

// RocksDB cuts tables between the versions of a key, and range deletions there.
// A range deletion in the first table may be older than the second one's
// versions.
TEST_F(DbMergePlacesTest, ARangeDeletionInTheFirstOfTwoFiles) {
  const std::string first_path = path_;
  path_ = dir_.Sub("second");
  Open();
  for (int i = 0; i < 3; ++i) Put("x", "1");
  Merge("k", "2");  // This has the number 4.
  Flush();
  Close();
  FileMetaData second;
  std::string manifest;
  std::vector<VersionEdit> edits;
  ReadManifest(&manifest, &edits);
  for (const VersionEdit& edit : edits) {
    for (const auto& [level, file] : edit.new_files()) second = file;
  }
  const std::string second_table = TableFileName(path_, second.number);
  second.number = 100;

  path_ = first_path;
  Do("open, put j deleted, put l older, flush");
  // Because of the older table and the snapshot, the flush keeps the operand.
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "a", "z")));
  Put("b", "2");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Merge("k", "3");
  Flush();
  db_->ReleaseSnapshot(snapshot);
  Close();
  std::filesystem::copy_file(second_table, TableFileName(path_, second.number));
  edits.clear();
  ReadManifest(&manifest, &edits);
  int level_of_next = 2;
  for (VersionEdit& edit : edits) {
    if (edit.new_files().empty()) continue;
    auto& [level, first] = edit.mutable_new_files()->front();
    level = level_of_next--;
    if (level == 2) continue;
    first.largest = MakeInternalKey("k", PackTrailer(5, ValueType::kMerge));
    edit.AddFile(1, second);
    edit.SetNextFileNumber(second.number + 1);
  }
  WriteEdits(Env::Default(), manifest, edits);
  Open();
  ASSERT_EQ(TablesAt(1), 2u);
  ExpectEntries({{"b", "2"}, {"k", "2,3"}, {"l", "older"}, {"x", "1"}});
  CompactAll();
  ExpectEntries({{"b", "2"}, {"k", "2,3"}, {"l", "older"}, {"x", "1"}});
}

TEST_F(DbMergePlacesTest, OperandsInATableAndInALog) {
  OpenNew({"other"});
  Merge("k", "1");
  Merge("k", "2");
  // Until it is flushed, the other family needs the log.
  PutIn("other", "x", "y");
  FlushOne(kDefaultColumnFamilyName);
  Merge("k", "3");
  ASSERT_GE(LogFiles().size(), 2u);
  ExpectEntries({{"k", "1,2,3"}});
  ReopenAsKilled();
  ExpectEntries({{"k", "1,2,3"}});
  ReopenAll();
  ExpectEntries({{"k", "1,2,3"}});
  CompactAll();
  ExpectEntries({{"k", "1,2,3"}});
}

}  // namespace
}  // namespace varve::test
