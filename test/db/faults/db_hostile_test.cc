// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: hostile files in a directory can make Varve refuse the database, and no
// more. Varve touches nothing elsewhere, and does not hang. Method: a small
// database with one of its files replaced by a link, a pipe, a directory or a
// hole, opened, read, repaired and destroyed in a child with little memory and
// time. db_hostile_claims_test.cc has files with false claims.

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "test/testing/hostile_database.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

TEST_F(DbHostileTest, LinksToFilesAreNamedAndNotFollowed) {
  for (const std::string& path :
       {path_ + "/CURRENT", manifest_, table_, log_, path_ + "/IDENTITY",
        path_ + "/LOCK", path_ + "/LOG"}) {
    SCOPED_TRACE(path);
    CopyDirectory(path_, dir_.Sub("kept"));
    MoveOut(path);
    const auto before = Outside();
    const std::string told = Use();
    const std::string name = fs::path(path).filename();
    // The info log is renamed, and a new one made.
    if (name != "LOG") {
      EXPECT_TRUE(Contains(told, name)) << told;
      EXPECT_TRUE(Contains(told, "symbolic link")) << told;
    }
    EXPECT_TRUE(Outside() == before) << "a file outside has changed";
    fs::remove_all(path_);
    fs::remove_all(outside_);
    fs::create_directory(outside_);
    fs::rename(dir_.Sub("kept"), path_);
  }
}

TEST_F(DbHostileTest, LinksWaitingForNewFilesAreNotFollowed) {
  // Whatever the next files are called.
  for (int i = 1; i < 60; i++) {
    char number[16];
    snprintf(number, sizeof(number), "%06d", i);
    for (const std::string& name :
         {path_ + "/" + number + ".sst", path_ + "/" + number + ".log",
          path_ + "/" + number + ".dbtmp", path_ + "/MANIFEST-" + number}) {
      if (fs::exists(name)) continue;
      fs::create_symlink(outside_ + "/made", name);
    }
  }
  Use();
  EXPECT_TRUE(Outside().empty()) << "made " << Outside().begin()->first;
}

TEST_F(DbHostileTest, LinkInPlaceOfLostIsNotFollowed) {
  WriteWholeFile(outside_ + "/000077.sst", "of another database");
  fs::create_directory_symlink(outside_, path_ + "/lost");
  // One that the MANIFEST does not know, to be put aside.
  fs::copy_file(table_, path_ + "/000077.sst");
  const auto before = Outside();
  Open();
  Put("a", "1");
  Close();
  EXPECT_TRUE(fs::exists(path_ + "/000077.sst")) << "nor is it removed";
  const Status status = RepairDB(path_, options_);
  EXPECT_TRUE(Contains(status.ToString(), "lost")) << status.ToString();
  EXPECT_TRUE(Outside() == before);
}

TEST_F(DbHostileTest, DroppedDatabaseTakesNothingAlongThroughALink) {
  std::unique_ptr<Catalog> catalog;
  CatalogOptions options;
  options.create_if_missing = true;
  ASSERT_TRUE(Ok(Catalog::Open(options, dir_.Sub("catalog"), &catalog)));
  ASSERT_TRUE(Ok(catalog->Create("one")));
  WriteWholeFile(outside_ + "/notes.txt", "mine");
  for (const auto& entry : fs::directory_iterator(dir_.Sub("catalog"))) {
    if (!entry.is_directory()) continue;
    fs::create_directory_symlink(outside_, entry.path() / "lost");
  }
  ASSERT_TRUE(Ok(catalog->Drop("one")));
  EXPECT_EQ(Outside().size(), 1u);
}

TEST_F(DbHostileTest, DatabaseOfACatalogThatIsALinkIsDroppedWithoutItsTarget) {
  const std::string root = dir_.Sub("catalog");
  CatalogOptions options;
  options.create_if_missing = true;
  std::unique_ptr<Catalog> catalog;
  ASSERT_TRUE(Ok(Catalog::Open(options, root, &catalog)));
  ASSERT_TRUE(Ok(catalog->Close()));
  catalog.reset();
  fs::create_directory(path_ + "/lost");
  WriteWholeFile(path_ + "/lost/notes.txt", "mine");
  const auto before = ReadDirectory(path_);
  // One that a Drop has put aside, and one to be dropped.
  fs::create_directory_symlink(path_, root + "/dropped-7");
  fs::create_directory_symlink(path_, root + "/db-two");
  ASSERT_TRUE(Ok(Catalog::Open(options, root, &catalog)));
  EXPECT_TRUE(Ok(catalog->Drop("two")));
  EXPECT_TRUE(before == ReadDirectory(path_));
  EXPECT_EQ(ReadWholeFile(path_ + "/lost/notes.txt"), "mine");
  for (const auto& entry : fs::directory_iterator(root)) {
    EXPECT_EQ(entry.path().filename(), "LOCK");
  }
}

TEST_F(DbHostileTest, CheckpointBuildsInNoPlaceThatALinkLeadsTo) {
  Open();
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(dir_.Sub("one"))));
  const auto before = ReadDirectory(dir_.Sub("one"));
  fs::create_directory_symlink(dir_.Sub("one"), dir_.Sub("two.tmp"));
  const Status status = db_->CreateCheckpoint(dir_.Sub("two"));
  EXPECT_TRUE(Contains(status.ToString(), "two.tmp")) << status.ToString();
  EXPECT_TRUE(before == ReadDirectory(dir_.Sub("one")));
  fs::remove(dir_.Sub("two.tmp"));
  EXPECT_TRUE(Ok(db_->CreateCheckpoint(dir_.Sub("two"))));
}

TEST_F(DbHostileTest, UnknownTablesArePutAsideAndOtherNamesLeftAlone) {
  fs::copy_file(table_, path_ + "/000077.ldb");
  fs::copy_file(table_, path_ + "/78.sst");
  Open();
  Put("a", "1");
  Close();
  EXPECT_TRUE(fs::exists(path_ + "/lost/000077.ldb"));
  EXPECT_TRUE(fs::exists(path_ + "/78.sst"));
}

TEST_F(DbHostileTest, PipesAndDirectoriesAreNamedAndNotWaitedFor) {
  for (const bool pipe : {true, false}) {
    for (const std::string& path : {path_ + "/CURRENT", manifest_, table_, log_,
                                    path_ + "/IDENTITY", path_ + "/LOCK"}) {
      SCOPED_TRACE(path);
      CopyDirectory(path_, dir_.Sub("kept"));
      fs::remove(path);
      if (pipe) {
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      } else {
        fs::create_directory(path);
      }
      const std::string told = Use();
      EXPECT_TRUE(Contains(told, fs::path(path).filename())) << told;
      fs::remove_all(path_);
      fs::rename(dir_.Sub("kept"), path_);
    }
  }
}

TEST_F(DbHostileTest, DirectoryMayBeALink) {
  const std::string link = dir_.Sub("link");
  fs::create_directory_symlink(path_, link);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_, link, &db)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, Key(1), &value)));
  EXPECT_TRUE(Ok(db->Put({}, Key(1), "new")));
  EXPECT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->Close()));
  db.reset();
  EXPECT_TRUE(Ok(RepairDB(link, options_)));
  Open();
  EXPECT_EQ(Get(Key(1)), "new");
}

TEST_F(DbHostileTest, CurrentLeadsNowhereElse) {
  fs::copy_file(manifest_, outside_ + "/MANIFEST-000005");
  for (const std::string& text :
       {std::string("../outside/MANIFEST-000005\n"),
        std::string("/etc/passwd\n"), outside_ + "/MANIFEST-000005\n",
        std::string("CURRENT\n"), std::string("000001.log\n"),
        std::string("MANIFEST-5\0\n", 12),
        std::string("MANIFEST-99999999999999999999999\n")}) {
    WriteWholeFile(path_ + "/CURRENT", text);
    const Status status = TryOpen();
    EXPECT_TRUE(status.IsCorruption()) << text << status.ToString();
    EXPECT_TRUE(Contains(status.message(), "CURRENT")) << status.ToString();
  }
}

TEST_F(DbHostileTest, UmaskIsHonoured) {
  const mode_t before = umask(077);
  path_ = dir_.Sub("private");
  options_.disable_auto_compactions = false;
  Open();
  Put("a", "1");
  Flush();
  Put("b", "2");
  CompactAll();
  Close();
  EXPECT_TRUE(Ok(RepairDB(path_, options_)));
  umask(before);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    struct stat info;
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077u, 0u) << entry.path();
    files += entry.is_regular_file();
  }
  EXPECT_GT(files, 5u);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST_F(DbHostileTest, HugeHolesCostNothing) {
  const uint64_t size = uint64_t{4} << 40;
  for (const std::string& path : {path_ + "/CURRENT", path_ + "/IDENTITY",
                                  table_, path_ + "/OPTIONS-000001"}) {
    CopyDirectory(path_, dir_.Sub("kept"));
    WriteWholeFile(path, "");
    if (truncate(path.c_str(), static_cast<off_t>(size)) != 0) continue;
    Use();
    fs::remove_all(path_);
    fs::rename(dir_.Sub("kept"), path_);
  }
}

}  // namespace
}  // namespace varve::test
