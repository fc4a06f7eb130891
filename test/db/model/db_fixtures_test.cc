// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases written by RocksDB and LevelDB read as their writers knew
// them, stay so when Varve goes on writing, and are refused by name when they
// hold what Varve does not have. Method: every fixture of test/fixtures, found
// by listing the folder, so that a new one is tested without being listed.

#include <regex>

#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

// A fixture that is refused, and a pattern of the feature's name in the
// message.
struct Refusal {
  const char* fixture;
  const char* feature;
};

constexpr Refusal kRefusals[] = {
    {"refuse-blob-files", "blob"},
    {"refuse-format-version-8", "version.*8"},
    {"refuse-plain-table", "plain"},
    {"refuse-reverse-comparator", "comparator"},
    {"refuse-separate-values", "layout of a newer RocksDB"},
    {"refuse-wide-columns-sst", "wide"},
};

const char* RefusedFeature(const std::string& fixture) {
  for (const Refusal& refusal : kRefusals) {
    if (fixture == refusal.fixture) return refusal.feature;
  }
  return nullptr;
}

// All that are neither damaged nor crafted, divided by whether they open. Those
// of several column families are read by db_families_fixtures_test.cc,
// db_prepared_fixtures_test.cc and version_fixtures_test.cc.
std::vector<std::string> Undamaged(bool refused) {
  std::vector<std::string> names;
  for (const std::string& name : FixtureNames("")) {
    if (name.starts_with("damaged-") || name.starts_with("crafted-") ||
        name.starts_with("cf-") || name.starts_with("txn-") ||
        name.starts_with("varve-") || name == "merge-uint64add" ||
        name == "refuse-write-prepared" || name == "merge-stringappend-cf" ||
        name == "refuse-column-family-sst") {
      continue;
    }
    const bool is_refused = RefusedFeature(name) != nullptr;
    if (is_refused == refused) names.push_back(name);
  }
  return names;
}

class FixtureOpensTest : public FixtureTest,
                         public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CopyFixture(GetParam());
    options_.merge_operator = NewStringAppendOperator();
    ASSERT_TRUE(HasFile("expected.txt"));
    expected_ = ReadExpected();
  }

  EntryList expected_;
};

TEST_P(FixtureOpensTest, ReadOnlyShowsTheContentsAndTouchesNothing) {
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  EXPECT_TRUE(Ok(db_->Close()));
  db_.reset();
  ExpectUnchanged(true);
}

TEST_P(FixtureOpensTest, FiltersLoseNoKey) {
  options_.filter_policy = NewBloomFilterPolicy(10);
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  for (const auto& [key, value] : expected_) {
    const std::string absent = key + std::string(1, '\0');
    if (std::binary_search(
            expected_.begin(), expected_.end(), std::pair(absent, value),
            [](const auto& a, const auto& b) { return a.first < b.first; })) {
      continue;
    }
    ASSERT_EQ(Get(absent), "NotFound");
  }
}

TEST_P(FixtureOpensTest, MultiGetAndSeeksFindEveryKey) {
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  std::vector<Slice> keys;
  for (const auto& [key, value] : expected_) keys.push_back(key);
  std::vector<std::string> values;
  const std::vector<Status> statuses = db_->MultiGet({}, keys, &values);
  auto it = db_->NewIterator({});
  for (size_t i = 0; i < keys.size(); i++) {
    ASSERT_TRUE(Ok(statuses[i]));
    ASSERT_EQ(values[i], expected_[i].second);
    it->Seek(keys[i]);
    ASSERT_TRUE(it->Valid()) << keys[i].ToString(true);
    ASSERT_EQ(it->key().ToString(), expected_[i].first);
    it->SeekForPrev(keys[i]);
    ASSERT_TRUE(it->Valid()) << keys[i].ToString(true);
    ASSERT_EQ(it->value().ToString(), expected_[i].second);
  }
}

TEST_P(FixtureOpensTest, StaysTheSameThroughWritingAndCompaction) {
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  const std::string added = "\xff\xff\xff added";
  expected_.emplace_back(added, "by Varve");
  Put(added, "by Varve");
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  Flush();
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected_));
  // The other engine's last writes can be overwritten and deleted.
  for (const auto& [key, value] : expected_) Delete(key);
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  CompactAll();
  EXPECT_EQ(Tables(), 0u);
  EXPECT_TRUE(HasEntries(db_.get(), {}));
}

TEST_P(FixtureOpensTest, RepairKeepsEveryEntry) {
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  for (const auto& [key, value] : expected_) {
    if (GetParam() == "rocksdb-ingested") {
      // Only the MANIFEST tells which of its tables is newer.
      ASSERT_NE(Get(key), "NotFound");
    } else {
      ASSERT_EQ(Get(key), value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixtureOpensTest,
                         ::testing::ValuesIn(Undamaged(false)),
                         FixtureTestName);

// A compaction that took the table with the deletion only would drop that or
// bring it below, and the next table's older version would come back.
TEST_F(FixtureTest, VersionsOfAKeyInTwoFilesAreCompactedTogether) {
  struct Case {
    const char* key;  // In a table of level 2, or in the first of level 3 only.
    bool rewrite_bottommost_level;
    int target_level;
  };
  for (const Case& c : {Case{"a2", false, -1}, Case{"b", true, -1},
                        Case{"b", false, 4}, Case{"a2", true, 5}}) {
    SCOPED_TRACE(std::string(c.key) + " to " + std::to_string(c.target_level));
    db_.reset();
    CopyFixture("rocksdb-key-in-two-files");
    options_.disable_auto_compactions = true;
    Open();
    EXPECT_EQ(Get("k"), "NotFound");
    CompactRangeOptions options;
    options.rewrite_bottommost_level = c.rewrite_bottommost_level;
    options.target_level = c.target_level;
    const Slice key(c.key);
    ASSERT_TRUE(Ok(db_->CompactRange(options, &key, &key)));
    EXPECT_EQ(Get("k"), "NotFound");
    EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
  }
}

class FixtureRefusedTest : public FixtureTest,
                           public ::testing::WithParamInterface<std::string> {};

TEST_P(FixtureRefusedTest, NamesTheFeatureAndShowsNothing) {
  CopyFixture(GetParam());
  const std::regex feature(RefusedFeature(GetParam()), std::regex::icase);
  for (bool read_only : {true, false}) {
    SCOPED_TRACE(read_only ? "read-only" : "for writing");
    EntryList entries;
    Status s = OpenAndScan(read_only, &entries);
    // An order of keys is also an option, which can be set right.
    const bool by_option = GetParam() == "refuse-reverse-comparator";
    EXPECT_TRUE(s.IsNotSupported() || (by_option && s.IsInvalidArgument()))
        << s.ToString();
    EXPECT_TRUE(std::regex_search(s.ToString(), feature)) << s.ToString();
    EXPECT_EQ(entries.size(), 0u) << "a part of the data was shown";
    // Some features can be found in data blocks only, after the open.
    const bool refused_at_open = db_ == nullptr;
    db_.reset();
    if (read_only || refused_at_open) ExpectUnchanged(read_only);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixtureRefusedTest,
                         ::testing::ValuesIn(Undamaged(true)), FixtureTestName);

// A database whose logs RocksDB keeps in another directory.
class FixtureLogDirectoryTest : public FixtureTest {
 protected:
  void SetUp() override {
    CopyFixture("rocksdb-default-levels");
    elsewhere_ = path_ + "-logs";
    std::filesystem::create_directory(elsewhere_);
  }
  void TearDown() override {
    FixtureTest::TearDown();
    std::filesystem::remove_all(elsewhere_);
  }
  void NameDirectory(const std::string& directory) {
    const std::string name = "/OPTIONS-000027";
    std::string text = ReadWholeFile(source_ + "/db" + name);
    const size_t end_of_line = text.find('\n', text.find("[DBOptions]"));
    text.insert(end_of_line + 1, "  wal_dir=" + directory + "\n");
    std::ofstream(path_ + name) << text;
  }
  void MoveLog(const std::string& new_name) {
    std::filesystem::rename(path_ + "/000030.log", elsewhere_ + new_name);
  }

  std::string elsewhere_;
};

TEST_F(FixtureLogDirectoryTest, IsRefusedWithUpdatesInIt) {
  NameDirectory(elsewhere_);
  MoveLog("/000030.log");
  const auto before = ReadDirectory(path_);
  for (const bool read_only : {true, false}) {
    EntryList entries;
    EXPECT_TRUE(IsNotSupported(OpenAndScan(read_only, &entries), "wal_dir",
                               elsewhere_));
  }
  for (const auto& [name, bytes] : before) {
    EXPECT_TRUE(ReadDirectory(path_)[name] == bytes) << name;
  }
}

// A repair would begin a log of its own, after which the others do not count.
TEST_F(FixtureLogDirectoryTest, RepairIsRefusedWithUpdatesInIt) {
  NameDirectory(elsewhere_);
  MoveLog("/000030.log");
  for (const bool has_manifest : {true, false}) {
    if (!has_manifest) {
      std::filesystem::remove(path_ + "/CURRENT");
      for (const std::string& path : FilesStartingWith(path_, "MANIFEST")) {
        std::filesystem::remove(path);
      }
    }
    const auto before = ReadDirectory(path_);
    EXPECT_TRUE(IsNotSupported(RepairDB(path_, options_), elsewhere_));
    EXPECT_TRUE(ReadDirectory(path_) == before);
  }
  std::filesystem::rename(elsewhere_ + "/000030.log", path_ + "/000030.log");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
}

TEST_F(FixtureLogDirectoryTest, DoesNotMatterWithoutUpdatesOfThisDatabase) {
  const auto expect_opens = [this](const char* why) {
    SCOPED_TRACE(why);
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
    EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
    db_.reset();
  };
  for (const std::string& directory :
       {elsewhere_, path_, path_ + "/none", std::string("/dev/null"),
        std::string()}) {
    NameDirectory(directory);
    expect_opens(directory.c_str());
  }
  NameDirectory(elsewhere_);
  std::ofstream(elsewhere_ + "/000029.log") << "older";
  std::ofstream(elsewhere_ + "/000031.log") << "";
  expect_opens("old and empty logs");
  // The database was copied, with its options file.
  std::ofstream(elsewhere_ + "/000032.log") << "another's";
  std::ofstream(elsewhere_ + "/CURRENT") << "MANIFEST-000001\n";
  expect_opens("another database");
  // Varve's writes go to the database's directory.
  std::filesystem::remove(elsewhere_ + "/CURRENT");
  EXPECT_TRUE(DB::Open(options_, path_, &db_).IsNotSupported());
  std::filesystem::remove(elsewhere_ + "/000032.log");
  Open();
  Close();
  std::ofstream(elsewhere_ + "/000099.log") << "not RocksDB's";
  expect_opens("Varve's MANIFEST");
}

TEST(FixturesTest, AreThere) {
  EXPECT_GE(Undamaged(false).size(), 30u) << "in " << FixturesDir();
  EXPECT_EQ(Undamaged(true).size(), std::size(kRefusals));
}

}  // namespace
}  // namespace varve::test
