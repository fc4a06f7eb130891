// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: transactions that RocksDB's TransactionDB has prepared are there, and
// can be committed and rolled back. Databases of its other formats are refused
// by name. Method: the fixtures txn-* and refuse-write-prepared, with the
// contents before, after the commit of all, and after the rollback of all.

#include "db/engine/db_impl.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class PreparedFixtures : public FamiliesTest {
 protected:
  void CopyFixture(const std::string& name) {
    source_ = FixturesDir() + "/" + name;
    CopyDirectory(source_ + "/db", path_);
    options_ = Options();
    options_.experiment = TestExperiment();
    family_options_["sums"] = options_;
    family_options_["sums"].merge_operator = NewUInt64AddOperator();
  }
  void ReadNames() {
    std::istringstream lines(ReadWholeFile(source_ + "/prepared.txt"));
    for (std::string line; std::getline(lines, line);) {
      names_.push_back(FromHex(line));
    }
    std::sort(names_.begin(), names_.end());
    ASSERT_FALSE(names_.empty());
  }

  DBImpl* Engine() { return static_cast<DBImpl*>(db_.get()); }
  std::vector<std::string> Prepared() {
    std::vector<std::string> names;
    for (const PreparedSection& section : Engine()->PreparedSections()) {
      names.push_back(section.name);
    }
    return names;
  }
  void ExpectContents(const std::string& file) {
    SCOPED_TRACE(file);
    std::map<std::string, EntryList> expected;
    std::istringstream lines(ReadWholeFile(source_ + "/" + file));
    for (std::string line; std::getline(lines, line);) {
      const size_t first = line.find('\t');
      const size_t second = line.find('\t', first + 1);
      ASSERT_NE(second, std::string::npos) << line;
      expected[line.substr(0, first)].emplace_back(
          FromHex(line.substr(first + 1, second - first - 1)),
          FromHex(line.substr(second + 1)));
    }
    for (const auto& [name, handle] : handles_) {
      EXPECT_TRUE(FamilyHasEntries(db_.get(), handle, expected[name])) << name;
    }
  }
  void SettleAll(bool commits) {
    for (const std::string& name : names_) {
      ASSERT_TRUE(Ok(commits ? Engine()->CommitPrepared({}, name)
                             : Engine()->RollbackPrepared({}, name)));
    }
  }

  std::string source_;
  std::vector<std::string> names_;
};

class PreparedFixtureTest : public PreparedFixtures,
                            public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CopyFixture(GetParam());
    ReadNames();
  }
};

TEST_P(PreparedFixtureTest, AReadOnlyOpenShowsTheNamesAndTouchesNothing) {
  const auto before = ReadDirectory(path_);
  ASSERT_TRUE(Ok(TryOpenAll(/*read_only=*/true)));
  ExpectContents("expected.txt");
  EXPECT_EQ(Prepared(), names_);
  ReleaseHandles();
  db_.reset();
  EXPECT_TRUE(ReadDirectory(path_) == before);
}

TEST_P(PreparedFixtureTest, AreKeptByOpensAndSettled) {
  for (const bool commits : {true, false}) {
    SCOPED_TRACE(commits ? "commit" : "roll back");
    std::filesystem::remove_all(path_);
    CopyDirectory(source_ + "/db", path_);
    for (int pass = 0; pass < 3; ++pass) {
      pass == 0 ? OpenAll() : pass == 1 ? ReopenAsKilled() : ReopenAll();
      ExpectContents("expected.txt");
      EXPECT_EQ(Prepared(), names_);
    }
    SettleAll(commits);
    for (int pass = 0; pass < 3; ++pass) {
      ExpectContents(commits ? "expected-committed.txt"
                             : "expected-rolled-back.txt");
      EXPECT_TRUE(Prepared().empty());
      pass == 0 ? ReopenAsKilled() : ReopenAll();
    }
    ReleaseHandles();
    db_.reset();
  }
}

TEST_P(PreparedFixtureTest, ARepairKeepsThem) {
  std::vector<std::string> all;
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &all)));
  std::vector<ColumnFamilyDescriptor> families;
  for (const std::string& name : all) families.push_back(Describe(name));
  ASSERT_TRUE(Ok(RepairDB(path_, options_, families)));
  OpenAll();
  ExpectContents("expected.txt");
  EXPECT_EQ(Prepared(), names_);
  SettleAll(true);
  ExpectContents("expected-committed.txt");
}

INSTANTIATE_TEST_SUITE_P(All, PreparedFixtureTest,
                         ::testing::ValuesIn(FixtureNames("txn-")),
                         FixtureTestName);

// Another format of RocksDB's transactions.
TEST_F(PreparedFixtures, OfWritePreparedAreRefusedByName) {
  CopyFixture("refuse-write-prepared");
  for (const bool read_only : {true, false}) {
    EXPECT_TRUE(IsNotSupported(TryOpenAll(read_only), "WritePrepared"));
  }
  const auto before = ReadDirectory(path_);
  std::vector<ColumnFamilyDescriptor> families;
  for (const char* name : {"default", "meta", "sums"}) {
    families.push_back(Describe(name));
  }
  EXPECT_TRUE(
      IsNotSupported(RepairDB(path_, options_, families), "WritePrepared"));
  EXPECT_TRUE(ReadDirectory(path_) == before);
}

}  // namespace
}  // namespace varve::test
