// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a repair keeps each entry in its column family, keeps names and ids as
// far as anything tells them, and brings no dropped family back that the
// MANIFEST knows of. Method: databases of known contents, here and from
// RocksDB, whose MANIFEST, tables and logs are removed, cut or changed at every
// byte. Each key begins with its family's name, so that an entry in another
// family is seen.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

using Entries = std::map<std::string, std::string>;
using Contents = std::map<std::string, Entries>;  // By the family's name.

// Keeps what a repair says.
class LineLogger final : public Logger {
 public:
  void Logv(LogLevel, const char* format, va_list arguments) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, arguments);
    text_ += std::string(line) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

const Comparator* ComparatorOf(const std::string& family) {
  return family.starts_with("reverse") ? ReverseBytewiseComparator()
                                       : BytewiseComparator();
}

// Reads all of a database with all of its families.
Contents ReadAll(const std::string& path,
                 std::map<std::string, uint32_t>* ids = nullptr,
                 std::set<std::string> reversed = {}) {
  std::vector<std::string> names;
  EXPECT_TRUE(Ok(DB::ListColumnFamilies(DBOptions(), path, &names)));
  std::vector<ColumnFamilyDescriptor> families;
  for (const std::string& name : names) {
    families.emplace_back(name, ColumnFamilyOptions());
    families.back().options.comparator = reversed.contains(name)
                                             ? ReverseBytewiseComparator()
                                             : ComparatorOf(name);
  }
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<DB> db;
  Contents contents;
  const Status status = DB::Open(DBOptions(), path, families, &handles, &db);
  EXPECT_TRUE(Ok(status));
  if (!status.ok()) return contents;
  for (ColumnFamilyHandle* const handle : handles) {
    Entries& entries = contents[handle->GetName()];
    if (ids != nullptr) (*ids)[handle->GetName()] = handle->GetID();
    const auto iterator = db->NewIterator(ReadOptions(), handle);
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      entries[iterator->key().ToString()] = iterator->value().ToString();
    }
    EXPECT_TRUE(Ok(iterator->status())) << handle->GetName();
  }
  EXPECT_TRUE(Ok(db->VerifyChecksum()));
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  EXPECT_TRUE(Ok(db->Close()));
  return contents;
}

// "family TAB key hex TAB value hex" a line.
Contents ReadExpected(const std::string& fixture) {
  Contents contents;
  std::istringstream lines(
      ReadWholeFile(FixturesDir() + "/" + fixture + "/expected.txt"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find('\t');
    const size_t second = line.find('\t', first + 1);
    contents[line.substr(0, first)]
            [FromHex(line.substr(first + 1, second - first - 1))] =
                FromHex(line.substr(second + 1));
  }
  return contents;
}

// Every entry of `expected` that a family has is right, and no other is there.
void ExpectPart(const Contents& expected, const Contents& found,
                const std::string& what) {
  for (const auto& [name, entries] : found) {
    std::set<std::string> owners;
    for (const auto& [key, value] : entries) {
      const std::string owner = key.substr(0, key.find('/'));
      owners.insert(owner);
      const auto family = expected.find(owner);
      ASSERT_TRUE(family != expected.end()) << what << ": " << key;
      const auto entry = family->second.find(key);
      if (entry == family->second.end()) continue;  // A deletion was lost.
      EXPECT_EQ(entry->second, value) << what << ": " << key;
    }
    EXPECT_LE(owners.size(), 1u) << what << ": " << name << " is mixed";
    if (!owners.empty() && expected.contains(name)) {
      EXPECT_EQ(*owners.begin(), name) << what;
    }
  }
}

size_t Count(const Contents& contents) {
  size_t count = 0;
  for (const auto& [name, entries] : contents) count += entries.size();
  return count;
}

class DbRepairFamiliesTest : public ::testing::Test {
 protected:
  static std::string Key(const std::string& family, int i) {
    return family + "/" + std::to_string(1000 + i);
  }

  void Put(ColumnFamilyHandle* handle, int from, int to) {
    const std::string& name = handle->GetName();
    for (int i = from; i < to; ++i) {
      const std::string value = "v" + std::to_string(i) + std::string(30, 'x');
      ASSERT_TRUE(Ok(db_->Put(WriteOptions(), handle, Key(name, i), value)));
      contents_[name][Key(name, i)] = value;
    }
  }

  // Tables of three families, a log with all, a family in the log only, and one
  // that was dropped.
  void MakeDatabase() {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> families;
    for (const char* name : {"default", "first", "gone", "reverse", "log"}) {
      families.emplace_back(name, ColumnFamilyOptions());
      families.back().options.comparator = ComparatorOf(name);
      families.back().options.disable_auto_compactions = true;
    }
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(Ok(DB::Open(options, path_, families, &handles, &db_)));
    for (size_t i = 0; i < 4; ++i) Put(handles[i], 0, 40);
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(Ok(db_->Flush(FlushOptions(), handles[i])));
      ids_[handles[i]->GetName()] = handles[i]->GetID();
    }
    ids_["log"] = handles[4]->GetID();
    for (size_t i = 0; i < 5; ++i) Put(handles[i], 30, 60);
    for (const size_t i : {1, 3}) {
      const std::string& name = handles[i]->GetName();
      ASSERT_TRUE(Ok(db_->Delete(WriteOptions(), handles[i], Key(name, 5))));
      contents_[name].erase(Key(name, 5));
      std::string from = Key(name, 10);
      std::string to = Key(name, 13);
      if (name == "reverse") from.swap(to);
      ASSERT_TRUE(Ok(db_->DeleteRange(WriteOptions(), handles[i], from, to)));
      for (int k = 10; k <= 13; ++k) {
        if (Key(name, k) != to) contents_[name].erase(Key(name, k));
      }
    }
    gone_ = contents_["gone"];
    contents_.erase("gone");
    ids_.erase("gone");
    ASSERT_TRUE(Ok(db_->DropColumnFamily(handles[2])));
    // The handle keeps the dropped family's table until the copy is made.
    CopyDirectory(path_, copy_);
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    ASSERT_TRUE(Ok(db_->Close()));
    db_.reset();
  }

  void UseCopy() {
    fs::remove_all(path_);
    CopyDirectory(copy_, path_);
  }

  Status Repair() {
    log_ = std::make_shared<LineLogger>();
    Options options;
    options.info_log = log_;
    return RepairDB(path_, options);
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  const std::string copy_ = dir_.Sub("copy");
  std::unique_ptr<DB> db_;
  Contents contents_;
  std::map<std::string, uint32_t> ids_;
  Entries gone_;  // Of the family that was dropped.
  std::shared_ptr<LineLogger> log_;
};

TEST_F(DbRepairFamiliesTest, KeepsNamesAndIdsAndDropsOfTheManifest) {
  MakeDatabase();
  for (const bool with_current : {true, false}) {
    UseCopy();
    if (!with_current) fs::remove(path_ + "/CURRENT");
    for (int round = 0; round < 2;
         ++round) {  // The second one changes nothing.
      ASSERT_TRUE(Ok(Repair()));
      std::map<std::string, uint32_t> ids;
      EXPECT_TRUE(ReadAll(path_, &ids) == contents_);
      EXPECT_EQ(ids, ids_);
      EXPECT_EQ(log_->text(), "");
    }
  }
  // No id is given out twice.
  std::vector<ColumnFamilyDescriptor> families;
  for (const auto& [name, id] : ids_) {
    families.emplace_back(name, ColumnFamilyOptions());
    families.back().options.comparator = ComparatorOf(name);
  }
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Ok(DB::Open(DBOptions(), path_, families, &handles, &db_)));
  ColumnFamilyHandle* added = nullptr;
  ASSERT_TRUE(
      Ok(db_->CreateColumnFamily(ColumnFamilyOptions(), "gone", &added)));
  EXPECT_EQ(added->GetID(), 5u);
  handles.push_back(added);
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  db_.reset();
}

TEST_F(DbRepairFamiliesTest, TablesAndLogsTellTheFamiliesWithoutAManifest) {
  MakeDatabase();
  UseCopy();
  for (const auto& path : FilesStartingWith(path_, "MANIFEST-")) {
    fs::remove(path);
  }
  ASSERT_TRUE(Ok(Repair()));
  std::map<std::string, uint32_t> ids;
  const std::string made_up = "family-" + std::to_string(ids_["log"]);
  const Contents found = ReadAll(path_, &ids);
  Contents expected = contents_;
  expected[made_up] = expected["log"];
  expected.erase("log");
  // Nothing tells that it was dropped.
  expected["gone"] = gone_;
  EXPECT_TRUE(found == expected) << log_->text();
  EXPECT_EQ(ids["first"], ids_["first"]);
  EXPECT_EQ(ids["reverse"], ids_["reverse"]);
  EXPECT_EQ(ids[made_up], ids_["log"]);
  EXPECT_THAT(log_->text(), HasSubstr("is named " + made_up));
}

TEST_F(DbRepairFamiliesTest, AnyCutOrChangeOfTheManifestMixesNothing) {
  MakeDatabase();
  const std::string name =
      FilesStartingWith(copy_, "MANIFEST-").at(0).substr(copy_.size());
  const std::string manifest = ReadWholeFile(copy_ + name);
  Contents all = contents_;
  all["gone"] = gone_;
  const size_t live = Count(contents_);
  for (size_t at = 0; at < manifest.size(); at += 11) {
    for (const bool cut : {true, false}) {
      UseCopy();
      std::string bytes = cut ? manifest.substr(0, at) : manifest;
      if (!cut) bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
      WriteWholeFile(path_ + name, bytes);
      const std::string what =
          (cut ? "cut at " : "changed at ") + std::to_string(at);
      ASSERT_TRUE(Ok(Repair())) << what;
      const Contents found = ReadAll(path_, nullptr, {"family-3"});
      ExpectPart(all, found, what);
      EXPECT_GE(Count(found), live) << what;
      if (HasFailure()) return;
    }
  }
}

TEST_F(DbRepairFamiliesTest, AnyChangeOfATableMixesNothing) {
  MakeDatabase();
  Contents all = contents_;
  all["gone"] = gone_;
  for (const auto& path : FilesEndingIn(copy_, ".sst")) {
    const std::string name = path.substr(copy_.size());
    const std::string table = ReadWholeFile(path);
    for (size_t at = 0; at < table.size(); at += 41) {
      UseCopy();
      std::string bytes = table;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
      WriteWholeFile(path_ + name, bytes);
      const bool with_manifest = at % 2 == 0;
      if (!with_manifest) {
        for (const auto& manifest : FilesStartingWith(path_, "MANIFEST-")) {
          fs::remove(manifest);
        }
      }
      const std::string what = name + " changed at " + std::to_string(at);
      ASSERT_TRUE(Ok(Repair())) << what;
      const Contents found = ReadAll(path_);
      ExpectPart(all, found, what);
      if (with_manifest) {
        EXPECT_EQ(found.size(), contents_.size()) << what;
      }
      EXPECT_GE(Count(found) + 40, Count(contents_)) << what;
      if (HasFailure()) return;
    }
  }
}

TEST_F(DbRepairFamiliesTest, ATableThatDoesNotSayItsFamilyGetsOneOfItsOwn) {
  MakeDatabase();
  UseCopy();
  for (const auto& path : FilesStartingWith(path_, "MANIFEST-")) {
    fs::remove(path);
  }
  const std::string table = FilesEndingIn(path_, ".sst").at(1);
  fs::resize_file(table, fs::file_size(table) - 20);
  ASSERT_TRUE(Ok(Repair()));
  const std::string name =
      "table-" + table.substr(path_.size() + 1, std::string("000000").size());
  const Contents found = ReadAll(path_);
  ASSERT_TRUE(found.contains(name)) << log_->text();
  EXPECT_EQ(found.at(name).size(), 40u);
  EXPECT_THAT(log_->text(), HasSubstr(name));
  EXPECT_TRUE(found.at("default") == contents_["default"]);
}

TEST_F(DbRepairFamiliesTest, FamiliesThatAreNotGivenAreLeftOut) {
  MakeDatabase();
  UseCopy();
  log_ = std::make_shared<LineLogger>();
  DBOptions options;
  options.info_log = log_;
  const ColumnFamilyDescriptor default_family;
  ColumnFamilyDescriptor reverse("reverse", ColumnFamilyOptions());
  EXPECT_TRUE(RepairDB(path_, options, {reverse}).IsInvalidArgument());
  // Its comparator was given, and is another.
  const Status wrong = RepairDB(path_, options, {default_family, reverse});
  EXPECT_TRUE(wrong.IsInvalidArgument());
  EXPECT_THAT(wrong.ToString(), HasSubstr("column family reverse"));
  reverse.options.comparator = ReverseBytewiseComparator();
  ASSERT_TRUE(Ok(RepairDB(path_, options, {default_family, reverse})));
  std::map<std::string, uint32_t> ids;
  Contents expected;
  expected["default"] = contents_["default"];
  expected["reverse"] = contents_["reverse"];
  EXPECT_TRUE(ReadAll(path_, &ids) == expected);
  EXPECT_EQ(ids["reverse"], ids_["reverse"]);
  EXPECT_THAT(log_->text(), HasSubstr("column family first"));

  UseCopy();
  ASSERT_TRUE(Ok(RepairDB(path_, options, {default_family, reverse},
                          ColumnFamilyOptions())));
  EXPECT_TRUE(ReadAll(path_) == contents_);
}

TEST_F(DbRepairFamiliesTest, DestroyRemovesTheFilesOfAllFamilies) {
  MakeDatabase();
  UseCopy();
  ASSERT_TRUE(Ok(DestroyDB(path_, Options())));
  EXPECT_FALSE(fs::exists(path_));
}

// More memtables than fit in memory, of more families than are checked at once.
TEST_F(DbRepairFamiliesTest, ManyFamiliesOfOneLog) {
  DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<ColumnFamilyDescriptor> families;
  families.emplace_back();
  for (int i = 1; i < 100; ++i) {
    families.emplace_back("f" + std::to_string(i), ColumnFamilyOptions());
  }
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Ok(DB::Open(options, path_, families, &handles, &db_)));
  for (int i = 0; i < 2000; ++i) {
    WriteBatch batch;
    for (int j = 0; j < 5; ++j) {
      ColumnFamilyHandle* const handle =
          handles[static_cast<size_t>(i * 5 + j) % handles.size()];
      const std::string key = Key(handle->GetName(), i);
      batch.Put(handle, key, std::string(4000, 'v'));
      contents_[handle->GetName()][key] = std::string(4000, 'v');
    }
    ASSERT_TRUE(Ok(db_->Write(WriteOptions(), &batch)));
  }
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  ASSERT_TRUE(Ok(db_->Close()));
  db_.reset();
  ASSERT_TRUE(Ok(Repair()));
  EXPECT_TRUE(ReadAll(path_) == contents_);
}

class DbRepairFamilyFixtureTest
    : public FixtureTest,
      public ::testing::WithParamInterface<std::string> {};

TEST_P(DbRepairFamilyFixtureTest, KeepsWhatRocksDbWrote) {
  CopyFixture(GetParam());
  const Contents expected = test::ReadExpected(GetParam());
  ASSERT_TRUE(Ok(RepairDB(path_, Options())));
  EXPECT_TRUE(ReadAll(path_) == expected);

  // Without a MANIFEST, names are the tables', and dropped families return.
  fs::remove_all(path_);
  CopyFixture(GetParam());
  for (const auto& path : FilesStartingWith(path_, "MANIFEST-")) {
    fs::remove(path);
  }
  ASSERT_TRUE(Ok(RepairDB(path_, Options())));
  const Contents found = ReadAll(path_);
  EXPECT_GE(found.size(), expected.size());
  for (const auto& [name, entries] : expected) {
    bool any = false;
    for (const auto& [its_name, its_entries] : found) {
      any = any || std::includes(its_entries.begin(), its_entries.end(),
                                 entries.begin(), entries.end());
    }
    EXPECT_TRUE(any) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DbRepairFamilyFixtureTest,
                         ::testing::Values("cf-three", "cf-thirty",
                                           "cf-dropped-and-new"),
                         FixtureTestName);

}  // namespace
}  // namespace varve::test
