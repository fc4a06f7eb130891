// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: databases of each released version, and of this one, can be opened, and
// stay what they were when this version goes on writing. Method: the fixtures
// varve-*, opened with the options of their OPTIONS files.

#include "test/db/families/version_fixture.h"
#include "test/testing/test_headers.h"
#include "varve/backup_engine.h"
#include "varve/version.h"

namespace varve::test {
namespace {

// A version without fixtures could not be tested by later ones.
TEST(VersionFixturesTest, ThisVersionHasAll) {
  const std::string version = std::string("varve-") + VersionString() + "-";
  for (const char* const part : kVersionParts) {
    EXPECT_EQ(FixtureNames(version + part).size(), 1u)
        << version << part << ": see test/fixtures/README.md";
  }
}

class VersionFixtureTest : public VersionTestBase,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { CopyAgain(); }
  void CopyAgain() { Copy(FixturesDir() + "/" + GetParam()); }

  // The entries of each prefix are found by scans of the prefix.
  void ExpectPrefixes(const std::string& family) {
    const auto extractor = family_options_.at(family).prefix_extractor;
    if (extractor == nullptr) return;
    EntryList all;
    ASSERT_TRUE(Ok(ScanFamily(db_.get(), {}, At(family), &all)));
    std::map<std::string, EntryList> prefixes;
    for (const auto& entry : all) {
      prefixes[extractor->Transform(entry.first).ToString()].push_back(entry);
    }
    EXPECT_GT(prefixes.size(), 1u);
    for (const auto& [prefix, expected] : prefixes) {
      EntryList found;
      const auto it =
          db_->NewIterator({.prefix_same_as_start = true}, At(family));
      for (it->Seek(prefix); it->Valid(); it->Next()) {
        found.emplace_back(it->key().ToString(), it->value().ToString());
      }
      EXPECT_TRUE(Ok(it->status()));
      EXPECT_TRUE(SameEntries(expected, found)) << prefix;
    }
  }
  // Keys of a database that is case-insensitive are found in upper case.
  void ExpectCaseIgnored(const EntryList& entries) {
    for (auto [key, value] : entries) {
      for (char& c : key)
        c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
      EXPECT_EQ(GetIn(kDefaultColumnFamilyName, key), value) << key;
    }
  }
};

TEST_P(VersionFixtureTest, ReadOnlyShowsTheContentsAndChangesNothing) {
  const auto before = ReadDirectory(path_);
  ASSERT_TRUE(Ok(TryOpenAll(/*read_only=*/true)));
  ExpectContents();
  EXPECT_EQ(Prepared(), ReadPrepared(source_));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  for (const auto& [name, handle] : handles_) ExpectPrefixes(name);
  if (options_.key_case == KeyCase::kInsensitive) {
    ExpectCaseIgnored(
        ReadFamilies(source_ + "/expected.txt")[kDefaultColumnFamilyName]);
  }
  ReleaseHandles();
  db_.reset();
  EXPECT_TRUE(ReadDirectory(path_) == before);
}

TEST_P(VersionFixtureTest, StaysTheSameThroughWritingAndCompaction) {
  OpenAll();
  ExpectContents();
  auto expected = ReadFamilies(source_ + "/expected.txt");
  for (auto& [name, entries] : expected) {
    PutIn(name, "~~ added", "later");
    const auto place = std::lower_bound(
        entries.begin(), entries.end(), std::string("~~ added"),
        [&](const auto& entry, const std::string& key) {
          return Describe(name).options.comparator->Compare(entry.first, key) <
                 0;
        });
    entries.insert(place, {"~~ added", "later"});
  }
  const auto expect_all = [&] {
    for (const auto& [name, entries] : expected) {
      EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), entries)) << name;
      ExpectPrefixes(name);
    }
    EXPECT_EQ(Prepared(), ReadPrepared(source_));
  };
  expect_all();
  ReopenAsKilled();
  expect_all();
  for (const auto& [name, handle] : handles_) FlushOne(name);
  ReopenAll();
  expect_all();
  for (const auto& [name, handle] : handles_) {
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true}, handle,
                                     nullptr, nullptr)));
  }
  expect_all();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  ReopenAll();
  expect_all();
}

TEST_P(VersionFixtureTest, PreparedTransactionsCanBeSettled) {
  const std::vector<std::string> names = ReadPrepared(source_);
  if (names.empty()) return;
  for (const bool commits : {true, false}) {
    SCOPED_TRACE(commits ? "commit" : "roll back");
    CopyAgain();
    OpenAll();
    for (const std::string& name : names) {
      ASSERT_TRUE(Ok(commits ? Engine()->CommitPrepared({}, name)
                             : Engine()->RollbackPrepared({}, name)));
    }
    for (int pass = 0; pass < 2; ++pass) {
      ExpectContents(commits ? "expected-committed.txt" : "expected.txt");
      EXPECT_TRUE(Prepared().empty());
      pass == 0 ? ReopenAsKilled() : ReopenAll();
    }
  }
}

TEST_P(VersionFixtureTest, RepairKeepsEveryEntry) {
  std::vector<ColumnFamilyDescriptor> families;
  for (const auto& [name, options] : family_options_) {
    families.emplace_back(name, options);
  }
  ASSERT_TRUE(Ok(RepairDB(path_, options_, families)));
  OpenAll();
  ExpectContents();
  EXPECT_EQ(Prepared(), ReadPrepared(source_));
}

TEST_P(VersionFixtureTest, BackupsCanBeRestored) {
  if (!std::filesystem::exists(source_ + "/backups")) return;
  const std::string copy = dir_.Sub("backups");
  CopyDirectory(source_ + "/backups", copy);
  std::unique_ptr<BackupEngine> backups;
  ASSERT_TRUE(
      Ok(BackupEngine::Open(BackupEngineOptions(copy), nullptr, &backups)));
  std::vector<BackupInfo> infos;
  backups->GetBackupInfo(&infos);
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_TRUE(Ok(backups->VerifyBackup(infos[0].backup_id, true)));
  std::filesystem::remove_all(path_);
  ASSERT_TRUE(Ok(backups->RestoreDBFromLatestBackup({}, path_, path_)));
  OpenAll();
  ExpectContents();
}

INSTANTIATE_TEST_SUITE_P(All, VersionFixtureTest,
                         ::testing::ValuesIn(FixtureNames("varve-")),
                         FixtureTestName);

}  // namespace
}  // namespace varve::test
