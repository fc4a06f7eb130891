// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Fixtures that a version of Varve has written, read by their OPTIONS files.
// Their names are varve-<version>-<part>, for each part in kVersionParts.

#include "db/engine/db_impl.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/fixtures.h"
#include "test/testing/list_policy.h"
#include "varve/convert.h"

namespace varve::test {

// killed: a copy of an open database. closed: one that was closed.
inline constexpr const char* kVersionParts[] = {"killed", "closed"};

// The family whose filters are of ListPolicy, which no OPTIONS file can create.
inline constexpr const char* kOwnFilterFamily = "own_filter";

// Returns the entries of each family in a file of expected contents, in the
// file's order.
inline std::map<std::string, EntryList> ReadFamilies(const std::string& file) {
  std::map<std::string, EntryList> families;
  std::istringstream lines(ReadWholeFile(file));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find('\t');
    const size_t second = line.find('\t', first + 1);
    EXPECT_NE(second, std::string::npos) << file << ": " << line;
    families[line.substr(0, first)].emplace_back(
        FromHex(line.substr(first + 1, second - first - 1)),
        FromHex(line.substr(second + 1)));
  }
  EXPECT_FALSE(families.empty()) << file;
  return families;
}

// Returns the names of prepared transactions, in order.
inline std::vector<std::string> ReadPrepared(const std::string& fixture) {
  std::vector<std::string> names;
  std::istringstream lines(ReadWholeFile(fixture + "/prepared.txt"));
  for (std::string line; std::getline(lines, line);) {
    names.push_back(FromHex(line));
  }
  return names;
}

// A fixture: a copy of such a database, opened with its own options.
class VersionTestBase : public FamiliesTest {
 protected:
  // Copies <source>/db and loads its options.
  void Copy(const std::string& source) {
    ReleaseHandles();
    db_.reset();
    source_ = source;
    CopyDirectory(source_ + "/db", path_);
    DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Ok(LoadLatestOptions({.ignore_unsupported_options = false},
                                     path_, &options, &families)));
    options.create_if_missing = false;
    options.experiment = TestExperiment();
    options_ = Options(options, families.front().options);
    for (ColumnFamilyDescriptor& family : families) {
      if (family.name == kOwnFilterFamily) {
        family.options.filter_policy = std::make_shared<ListPolicy>();
      }
      family_options_[family.name] = family.options;
    }
  }

  void ExpectContents(const std::string& file = "expected.txt") {
    SCOPED_TRACE(file);
    const auto expected = ReadFamilies(source_ + "/" + file);
    EXPECT_EQ(expected.size(), handles_.size());
    for (const auto& [name, entries] : expected) {
      ASSERT_EQ(handles_.count(name), 1u) << name;
      EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), entries)) << name;
    }
  }

  // The engine itself, unless keys are case-insensitive.
  DBImpl* Engine() { return static_cast<DBImpl*>(db_.get()); }
  std::vector<std::string> Prepared() {
    std::vector<std::string> names;
    if (options_.key_case == KeyCase::kInsensitive) return names;
    for (const PreparedSection& section : Engine()->PreparedSections()) {
      names.push_back(section.name);
    }
    return names;
  }

  std::string source_;
};

}  // namespace varve::test
