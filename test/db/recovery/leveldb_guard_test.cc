// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database of LevelDB that was converted is guarded against LevelDB's
// repair function, and the function's work is recognized and undone. Method:
// the function's steps by hand on a converted fixture.
// test/compat/programs/foreign_repair_test.py calls the functions themselves.

#include "test/testing/fixtures.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kGuard[] = {"000001.dbtmp", "CURRENT.1", "+0.ldb"};

class LevelDbGuardTest : public FixtureTest {
 protected:
  // Converts the fixture, and adds tables and a log of RocksDB's format.
  void Convert() {
    CopyFixture("leveldb-default");
    Open();
    expected_ = ReadExpected();
    for (int i = 0; i < 20; ++i) {
      const std::string key = "~" + std::string(1, static_cast<char>('a' + i));
      ASSERT_TRUE(Ok(db_->Put({}, key, "new")));
      expected_.emplace_back(key, "new");
      if (i == 9) Flush();
    }
    db_.reset();
  }

  bool HasGuard() const {
    return std::all_of(std::begin(kGuard), std::end(kGuard),
                       [this](const char* name) {
                         return fs::exists(fs::path(path_) / name);
                       });
  }

  // Moves what LevelDB cannot read, and also the MANIFEST if it got so far.
  void Archive(bool with_manifest) {
    const fs::path lost = fs::path(path_) / "lost";
    fs::create_directory(lost);
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".sst") || name.ends_with(".log") ||
          (with_manifest && name.starts_with("MANIFEST-"))) {
        fs::rename(entry.path(), lost / name);
      }
    }
  }

  // The MANIFEST of LevelDB that the fixture came with is one that its repair
  // function could have written.
  void PutLevelDbsManifestInFront() {
    for (const char* const name : {"CURRENT", "MANIFEST-000002"}) {
      fs::copy_file(source_ + "/db/" + name, path_ + "/" + name,
                    fs::copy_options::overwrite_existing);
    }
  }

  void ExpectRefusedUntilRepaired() {
    for (const bool read_only : {true, false}) {
      EntryList entries;
      EXPECT_TRUE(IsCorruption(OpenAndScan(read_only, &entries), "/lost/",
                               "varve repair"));
    }
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    Open();
    EXPECT_TRUE(HasEntries(db_.get(), expected_));
    EXPECT_TRUE(HasGuard());
  }

  EntryList expected_;
};

TEST_F(LevelDbGuardTest, IsThereOnceADatabaseWasConverted) {
  Convert();
  EXPECT_TRUE(HasGuard());
  // It stays, and is no reason for another MANIFEST.
  for (int i = 0; i < 2; ++i) {
    Open();
    EXPECT_TRUE(HasEntries(db_.get(), expected_));
    db_.reset();
  }
  const auto before = ReadDirectory(path_);
  Open();
  db_.reset();
  for (const auto& [name, bytes] : ReadDirectory(path_)) {
    EXPECT_TRUE(before.contains(name) || name.starts_with("LOG")) << name;
  }
  EXPECT_TRUE(HasGuard());
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  EXPECT_TRUE(HasGuard());
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  for (const char* const name : kGuard) {
    EXPECT_FALSE(fs::exists(fs::path(path_) / name)) << name;
  }
}

TEST_F(LevelDbGuardTest, OtherDatabasesHaveNone) {
  CopyFixture("rocksdb-default-levels");
  Open();
  db_.reset();
  CopyFixture("handmade-minimal");
  Open();
  db_.reset();
  EXPECT_FALSE(fs::exists(fs::path(path_) / kGuard[0]));
}

TEST_F(LevelDbGuardTest, ARepairThatTheGuardStoppedIsUndone) {
  Convert();
  Archive(/*with_manifest=*/false);
  ExpectRefusedUntilRepaired();
}

TEST_F(LevelDbGuardTest, ARepairOfAnUnguardedDatabaseIsUndone) {
  Convert();
  for (const char* const name : kGuard) {
    fs::remove_all(fs::path(path_) / name);
  }
  Archive(/*with_manifest=*/true);
  PutLevelDbsManifestInFront();
  ExpectRefusedUntilRepaired();
}

// LevelDB's own repair of its own database.
TEST_F(LevelDbGuardTest, FilesOfLevelDbInLostAreNoReasonToRefuse) {
  CopyFixture("leveldb-default");
  const fs::path lost = fs::path(path_) / "lost";
  fs::create_directory(lost);
  fs::copy_file(path_ + "/MANIFEST-000002", lost / "MANIFEST-000001");
  fs::copy_file(path_ + "/000017.log", lost / "000003.log");
  fs::copy_file(path_ + "/000005.ldb", lost / "000004.ldb");
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ReadExpected()));
}

}  // namespace
}  // namespace varve::test
