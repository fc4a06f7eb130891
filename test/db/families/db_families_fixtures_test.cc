// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases of several column families that RocksDB wrote read as it knew
// them, whole or some families of them, and stay so when Varve goes on writing.
// Method: the fixtures cf-*, merge-uint64add, merge-stringappend-cf and
// refuse-column-family-sst, with their expected contents by family.

#include "test/testing/comparators.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

// RocksDB's own reverse order.
class RocksDbReverse : public ComparatorWithoutSeparators {
 public:
  RocksDbReverse()
      : ComparatorWithoutSeparators("rocksdb.ReverseBytewiseComparator") {}
  int Compare(const Slice& a, const Slice& b) const override {
    return b.compare(a);
  }
};

std::vector<std::string> Names() {
  std::vector<std::string> names = FixtureNames("cf-");
  names.emplace_back("refuse-column-family-sst");
  names.emplace_back("merge-uint64add");
  names.emplace_back("merge-stringappend-cf");
  return names;
}

class FamiliesFixtureTest : public FamiliesTest,
                            public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    source_ = FixturesDir() + "/" + GetParam();
    CopyDirectory(source_ + "/db", path_);
    options_ = Options();
    options_.experiment = TestExperiment();
    family_options_["reverse"] = options_;
    family_options_["reverse"].comparator = &reverse_;
    if (GetParam() == "merge-uint64add") {
      options_.merge_operator = NewUInt64AddOperator();
    }
    family_options_["lists"] = options_;
    family_options_["lists"].merge_operator = NewStringAppendOperator();
    ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names_)));
    ASSERT_FALSE(names_.empty());
    for (const std::string& name : names_) expected_[name];
    std::istringstream lines(ReadWholeFile(source_ + "/expected.txt"));
    for (std::string line; std::getline(lines, line);) {
      const size_t first = line.find('\t');
      if (first == std::string::npos) {
        // The first families' alone, in the form of the other fixtures.
        const size_t arrow = line.find(" => ");
        ASSERT_NE(arrow, std::string::npos) << line;
        loose_.emplace_back(FromHex(line.substr(0, arrow)),
                            FromHex(line.substr(arrow + 4)));
        continue;
      }
      const size_t second = line.find('\t', first + 1);
      ASSERT_NE(second, std::string::npos) << line;
      const std::string name = line.substr(0, first);
      ASSERT_EQ(expected_.count(name), 1u) << name;
      expected_[name].emplace_back(
          FromHex(line.substr(first + 1, second - first - 1)),
          FromHex(line.substr(second + 1)));
    }
    // In the order of the family.
    for (auto& [name, entries] : expected_) {
      const Comparator* const order = Describe(name).options.comparator;
      std::sort(entries.begin(), entries.end(),
                [order](const auto& a, const auto& b) {
                  return order->Compare(a.first, b.first) < 0;
                });
    }
    if (!loose_.empty()) {
      expected_["default"] = loose_;
      // A family of the same keys; the list has the default one's.
      known_.push_back("default");
    } else {
      known_ = names_;
    }
  }

  void ExpectAll() {
    for (const std::string& name : known_) {
      if (handles_.count(name) == 0) continue;
      EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), expected_[name]))
          << name;
    }
  }

  RocksDbReverse reverse_;
  std::string source_;
  std::vector<std::string> names_;
  std::vector<std::string> known_;  // Their contents are.
  EntryList loose_;
  std::map<std::string, EntryList> expected_;
};

TEST_P(FamiliesFixtureTest, ReadOnlyShowsEachFamilyAndTouchesNothing) {
  const auto before = ReadDirectory(path_);
  ASSERT_TRUE(Ok(TryOpenAll(/*read_only=*/true)));
  ExpectAll();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  // Each alone, beside the default one.
  for (const std::string& name : names_) {
    SCOPED_TRACE(name);
    std::vector<std::string> some;
    if (name != kDefaultColumnFamilyName) some.push_back(name);
    ASSERT_TRUE(Ok(TryOpen(some, /*read_only=*/true)));
    EXPECT_EQ(handles_.size(), some.size() + 1);
    ExpectAll();
  }
  ReleaseHandles();
  db_.reset();
  EXPECT_TRUE(ReadDirectory(path_) == before);
}

TEST_P(FamiliesFixtureTest, OpeningWithoutTheirNamesIsRefused) {
  if (names_.size() == 1) return;  // There is nothing to leave out.
  const Status s = DB::Open(options_, path_, &db_);
  EXPECT_TRUE(IsInvalidArgument(s));
  for (const std::string& name : names_) {
    if (name == kDefaultColumnFamilyName) continue;
    EXPECT_TRUE(Contains(s.message(), name)) << s.ToString();
  }
}

TEST_P(FamiliesFixtureTest, StaysTheSameThroughWritingAndCompaction) {
  OpenAll();
  ExpectAll();
  WriteBatch batch;
  for (const std::string& name : names_) {
    auto& entries = expected_[name];
    batch.Put(At(name), "\xff\xff\xff added", "by Varve");
    entries.insert(Describe(name).options.comparator == &reverse_
                       ? entries.begin()
                       : entries.end(),
                   {"\xff\xff\xff added", "by Varve"});
  }
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ExpectAll();
  ReopenAsKilled();
  ExpectAll();
  std::vector<ColumnFamilyHandle*> all;
  for (const auto& [name, handle] : handles_) all.push_back(handle);
  ASSERT_TRUE(Ok(db_->Flush({}, all)));
  ReopenAll();
  ExpectAll();
  for (const auto& [name, handle] : handles_) {
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true}, handle,
                                     nullptr, nullptr)));
  }
  ExpectAll();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  // A new family gets a number that none had.
  uint32_t largest = 0;
  for (const auto& [name, handle] : handles_) {
    largest = std::max(largest, handle->GetID());
  }
  Create("new by Varve");
  EXPECT_GT(At("new by Varve")->GetID(), largest);
  ReopenAll();
  ExpectAll();
}

INSTANTIATE_TEST_SUITE_P(All, FamiliesFixtureTest, ::testing::ValuesIn(Names()),
                         FixtureTestName);

}  // namespace
}  // namespace varve::test
