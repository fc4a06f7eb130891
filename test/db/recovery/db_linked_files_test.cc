// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a copy of a closed database by hard links, as by `cp -al`, and its
// original are two databases: whatever is done to one changes no byte of the
// other. Method: at each stage of a database's life, and of a checkpoint's, it
// is copied so; then one of the two is worked on, and the files of the other
// are compared.

#include <sys/stat.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

// `to` is removed first.
void LinkDirectory(const std::string& from, const std::string& to) {
  std::filesystem::remove_all(to);
  std::filesystem::create_directory(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory()) {
      LinkDirectory(entry.path(), to + "/" + name);
    } else {
      std::filesystem::create_hard_link(entry.path(), to + "/" + name);
    }
  }
}

class DbLinkedFilesTest : public DbTestBase {
 protected:
  // All that may be done to a database.
  void WorkOn(const std::string& path) {
    std::unique_ptr<DB> db;
    const auto open = [&] {
      db.reset();
      ASSERT_TRUE(Ok(DB::Open(options_, path, &db)));
    };
    open();
    EntryList found;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &found)));
    open();
    WriteOptions sync{.sync = true};
    ASSERT_TRUE(Ok(db->Put(sync, "of one", "of the two")));
    open();
    ASSERT_TRUE(Ok(db->Put(sync, "of one", "of the two")));
    ASSERT_TRUE(Ok(db->Delete({}, "a")));
    ASSERT_TRUE(Ok(db->Flush({})));
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    ASSERT_TRUE(Ok(db->Put({}, "once", "more")));
    open();
    db.reset();
    ASSERT_TRUE(Ok(RepairDB(path, options_)));
    open();
    ASSERT_TRUE(Ok(db->Put({}, "after", "the repair")));
    ASSERT_TRUE(Ok(db->Close()));
    ASSERT_TRUE(Ok(DestroyDB(path, options_)));
  }

  // The database is closed.
  void ExpectCopiesApart(const std::string& stage) {
    SCOPED_TRACE(stage);
    CopyDirectory(path_, dir_.Sub("kept"));
    const std::string copy = dir_.Sub("copy");
    for (const bool on_the_copy : {true, false}) {
      LinkDirectory(path_, copy);
      const std::string& other = on_the_copy ? path_ : copy;
      const auto before = ReadDirectory(other);
      WorkOn(on_the_copy ? copy : path_);
      EXPECT_EQ(ReadDirectory(other), before) << on_the_copy;
      // Both are open at once, too.
      if (on_the_copy) {
        LinkDirectory(path_, copy);
        Open();
        std::unique_ptr<DB> second;
        ASSERT_TRUE(Ok(DB::Open(options_, copy, &second)));
        ASSERT_TRUE(Ok(second->Put({}, "second", "2")));
        Put("first", "1");
        EXPECT_EQ(Get("second"), "NotFound");
        ASSERT_TRUE(Ok(second->Close()));
        Close();
        Open();
        EXPECT_EQ(Get("first"), "1");
        EXPECT_EQ(Get("second"), "NotFound");
        Close();
      }
      CopyDirectory(dir_.Sub("kept"), path_);
    }
    Open();
  }
};

TEST_F(DbLinkedFilesTest, AtEachStageOfLife) {
  Open();
  Close();
  ExpectCopiesApart("new");
  Put("a", "1");
  Close();
  ExpectCopiesApart("updates in the log");
  Close();
  ExpectCopiesApart("recovered");
  Flush();
  Close();
  ExpectCopiesApart("clean");
  Close();
  ExpectCopiesApart("clean, opened again");
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 1000; ++j) Put(Key(j), std::string(100, 'v'));
    Flush();
  }
  CompactAll();
  Close();
  ExpectCopiesApart("compacted");
  options_.wal_write = WriteMethod::kMap;
  Close();
  ExpectCopiesApart("mapped");
  Close();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  ExpectCopiesApart("repaired");
}

TEST_F(DbLinkedFilesTest, OfACheckpoint) {
  Open();
  for (int i = 0; i < 1000; ++i) Put(Key(i), std::string(100, 'v'));
  const std::string checkpoint = dir_.Sub("checkpoint");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(checkpoint)));
  auto before = ReadDirectory(checkpoint);
  CompactAll();
  Close();
  WorkOn(path_);
  EXPECT_EQ(ReadDirectory(checkpoint), before);
  path_ = checkpoint;
  ExpectCopiesApart("a checkpoint");
}

// The log that begins anew has its name all the time.
TEST_F(DbLinkedFilesTest, ACleanDatabaseStaysSo) {
  Do("open, put a 1, flush, reopen");
  Close();
  const auto before = ReadDirectory(path_);
  Open();
  const auto opened = ReadDirectory(path_);
  for (const auto& [name, bytes] : opened) {
    EXPECT_TRUE(before.contains(name) || name.starts_with("LOG")) << name;
  }
  Close();
}

}  // namespace
}  // namespace varve::test
