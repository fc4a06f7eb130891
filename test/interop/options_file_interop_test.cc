// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB's tools work on a database after Varve has created or dropped a
// column family in it. RocksDB's files of options name the families. ldb
// refuses a database without one of them, and does not find one that they do
// not name. Method: ldb creates a database, Varve changes it, ldb uses all
// families.

#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"

namespace varve::test {
namespace {

class FamiliesOptionsFileTest : public ::testing::Test {
 protected:
  FamiliesOptionsFileTest() {
    Ldb({"put", "k", "v", "--create_if_missing"});
    Ldb({"create_column_family", "one"});
    Ldb({"create_column_family", "two"});
    Ldb({"put", "k", "two", "--column_family=two"});
    EXPECT_FALSE(OptionsFiles().empty());
  }
  ~FamiliesOptionsFileTest() override { Close(); }

  // Not in hexadecimal.
  std::string Ldb(const std::vector<std::string>& arguments) const {
    return RunOrFail(Command({"ldb", "--db=" + path_}, arguments));
  }
  void Open(const std::vector<std::string>& names) {
    DBOptions options;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, ColumnFamilyOptions());
    }
    ASSERT_TRUE(Ok(DB::Open(options, path_, families, &handles_, &db_)));
  }
  void Close() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  std::vector<std::string> OptionsFiles() const {
    return FilesStartingWith(path_, "OPTIONS-");
  }
  void ExpectLdbUsesAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::string option = "--column_family=" + name;
      EXPECT_EQ(Ldb({"put", "ldb", name, option}), "OK\n");
      EXPECT_TRUE(Contains(Ldb({"scan", "--try_load_options", option}), name));
    }
    EXPECT_TRUE(Contains(Ldb({"scan", "--column_family=two"}), "k : two"));
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

TEST_F(FamiliesOptionsFileTest, StaysAsLongAsTheFamilies) {
  const std::vector<std::string> before = OptionsFiles();
  Open({"default", "one", "two"});
  ASSERT_TRUE(Ok(db_->Put({}, handles_[1], "k", "v")));
  ASSERT_TRUE(Ok(db_->Flush({}, handles_[1])));
  EXPECT_EQ(OptionsFiles(), before);
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_FALSE(db_->CreateColumnFamily({}, "one", &handle).ok());
  EXPECT_EQ(OptionsFiles(), before);
  Close();
  ExpectLdbUsesAll({"default", "one", "two"});
}

TEST_F(FamiliesOptionsFileTest, GoesWithADroppedFamily) {
  Open({"default", "one", "two"});
  ASSERT_TRUE(Ok(db_->DropColumnFamily(handles_[1])));
  EXPECT_TRUE(OptionsFiles().empty());
  Close();
  ExpectLdbUsesAll({"default", "two"});
}

TEST_F(FamiliesOptionsFileTest, GoesWhenAFamilyIsCreated) {
  Open({"default", "one", "two"});
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily({}, "three", &handle)));
  handles_.push_back(handle);
  EXPECT_TRUE(OptionsFiles().empty());
  Close();
  ExpectLdbUsesAll({"default", "one", "two", "three"});
}

TEST_F(FamiliesOptionsFileTest, GoesWhenAnOpenCreatesAFamily) {
  Open({"default", "one", "two", "three"});
  EXPECT_TRUE(OptionsFiles().empty());
  Close();
  ExpectLdbUsesAll({"default", "one", "two", "three"});
}

}  // namespace
}  // namespace varve::test
