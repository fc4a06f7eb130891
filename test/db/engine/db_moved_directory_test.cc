// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database whose directory is moved goes on in it, one whose directory
// is removed says so, one that was opened by a relative path does not depend on
// the working directory, and none touches what takes its name. Method: each is
// done to open databases that are then written to, flushed and closed.

#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

// The working directory of a scope.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::string& path) { fs::current_path(path); }
  ~WorkingDirectory() { fs::current_path(before_); }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;

 private:
  const fs::path before_ = fs::current_path();
};

class DbMovedDirectoryTest : public DbTestBase {
 protected:
  // Writes all kinds of files in turn: logs, tables, MANIFEST; and removes
  // some.
  void Work(DB* db, const std::string& value, int rounds = 3) {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(Ok(db->Put({}, Key(i), value + std::to_string(round))));
      }
      ASSERT_TRUE(Ok(db->Flush({})));
      ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    }
    ASSERT_TRUE(Ok(db->Put({}, "last", value)));
  }
  void ExpectWork(const std::string& path, const std::string& value,
                  int rounds = 3) {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options_, path, &db)));
    std::string found;
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(Ok(db->Get({}, Key(i), &found)));
      ASSERT_EQ(found, value + std::to_string(rounds - 1));
    }
    ASSERT_TRUE(Ok(db->Get({}, "last", &found)));
    EXPECT_EQ(found, value);
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
  }
  // A write that meets the device.
  Status SyncedPut(DB* db) {
    WriteOptions sync{.sync = true};
    return db->Put(sync, "synced", "x");
  }
};

TEST_F(DbMovedDirectoryTest, GoesOnWhereItWasMovedTo) {
  const std::string moved = dir_.Sub("moved");
  Open();
  Work(db_.get(), "one");
  fs::rename(path_, moved);
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
  Work(second.get(), "two");
  Work(db_.get(), "again");
  EXPECT_TRUE(Ok(SyncedPut(db_.get())));
  EXPECT_TRUE(Ok(db_->CreateCheckpoint(dir_.Sub("copy"))));
  // It is still locked, by whichever name.
  std::unique_ptr<DB> third;
  EXPECT_TRUE(DB::Open(options_, moved, &third).IsBusy());
  EXPECT_TRUE(Ok(db_->Close()));
  EXPECT_TRUE(Ok(second->Close()));
  ExpectWork(moved, "again");
  ExpectWork(dir_.Sub("copy"), "again");
  ExpectWork(path_, "two");
}

TEST_F(DbMovedDirectoryTest, TablesAreFoundWhereTheyWereMovedTo) {
  options_.max_open_files = 1;
  Open();
  Work(db_.get(), "one");
  fs::rename(path_, dir_.Sub("moved"));
  EXPECT_EQ(Get(Key(1)), "one2");
  std::unique_ptr<DB> reader;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, dir_.Sub("moved"), &reader)));
  fs::rename(dir_.Sub("moved"), dir_.Sub("again"));
  std::string value;
  EXPECT_TRUE(Ok(reader->Get({}, Key(2), &value)));
  EXPECT_TRUE(Ok(reader->VerifyChecksum()));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(DbMovedDirectoryTest, RemovedDirectoryIsReportedBySyncAndClose) {
  Open();
  Work(db_.get(), "one");
  fs::remove_all(path_);
  EXPECT_TRUE(IsIOError(SyncedPut(db_.get()), "removed"));
  EXPECT_TRUE(IsIOError(db_->Close()));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(DbMovedDirectoryTest, RemovedDirectoryIsReportedByTheNextLog) {
  Open();
  Put("a", "1");
  fs::remove_all(path_);
  EXPECT_TRUE(IsIOError(db_->Flush({}), "removed"));
  EXPECT_TRUE(db_->Put({}, "b", "2").IsIOError());
  EXPECT_FALSE(db_->Resume().ok());
  EXPECT_FALSE(db_->CreateCheckpoint(dir_.Sub("copy")).ok());
  EXPECT_FALSE(db_->Close().ok());
}

TEST_F(DbMovedDirectoryTest, CloseAloneTellsThatTheDirectoryWasRemoved) {
  for (const bool written : {true, false}) {
    Open();
    if (written) Put("a", "1");
    fs::remove_all(path_);
    const Status close = db_->Close();
    EXPECT_TRUE(close.IsIOError()) << written << ": " << close.ToString();
  }
}

TEST_F(DbMovedDirectoryTest, DatabaseInThePlaceOfARemovedOneIsNotTouched) {
  Open();
  Work(db_.get(), "one");
  fs::remove_all(path_);
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
  Work(second.get(), "two");
  EXPECT_FALSE(db_->Flush({}).ok());
  EXPECT_FALSE(db_->CompactRange({}, nullptr, nullptr).ok());
  EXPECT_FALSE(db_->Close().ok());
  Work(second.get(), "more");
  EXPECT_TRUE(Ok(second->Close()));
  ExpectWork(path_, "more");
}

// The directory stays, as after `rm -rf DIR/*`.
TEST_F(DbMovedDirectoryTest, DatabaseOnItsRemovedFilesIsNotTouched) {
  Open();
  Work(db_.get(), "one");
  for (const auto& entry : fs::directory_iterator(path_)) {
    fs::remove_all(entry.path());
  }
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
  Work(second.get(), "two");
  EXPECT_TRUE(IsIOError(db_->Flush({}), "LOCK"));
  EXPECT_FALSE(SyncedPut(db_.get()).ok());
  EXPECT_FALSE(db_->Close().ok());
  Work(second.get(), "more");
  EXPECT_TRUE(Ok(second->Close()));
  ExpectWork(path_, "more");
}

TEST_F(DbMovedDirectoryTest, ThroughAWrapperItIsNoticed) {
  EnvWrapper wrapper(Env::Default());
  Options wrapped = options_;
  wrapped.env = &wrapper;
  std::unique_ptr<DB> first;
  ASSERT_TRUE(Ok(DB::Open(wrapped, path_, &first)));
  Work(first.get(), "one");
  fs::rename(path_, dir_.Sub("moved"));
  std::unique_ptr<DB> second;
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
  Work(second.get(), "two");
  EXPECT_TRUE(Ok(first->Put({}, "unsynced", "x")));
  EXPECT_TRUE(IsIOError(first->Flush({}), "moved"));
  EXPECT_FALSE(first->CompactRange({}, nullptr, nullptr).ok());
  EXPECT_FALSE(first->Close().ok());
  Work(second.get(), "more");
  EXPECT_TRUE(Ok(second->Close()));
  ExpectWork(path_, "more");
  ExpectWork(dir_.Sub("moved"), "one");
}

TEST_F(DbMovedDirectoryTest, RelativePathOutlivesTheWorkingDirectory) {
  const WorkingDirectory directory(dir_.path());
  EnvWrapper wrapper(Env::Default());
  for (Env* const env : {Env::Default(), static_cast<Env*>(&wrapper)}) {
    const std::string value = env == &wrapper ? "wrapped" : "plain";
    options_.env = env;
    options_.max_open_files = 1;
    path_ = "db." + value;
    Open();
    Work(db_.get(), "before");
    const WorkingDirectory elsewhere("/");
    Work(db_.get(), value);
    EXPECT_TRUE(Ok(SyncedPut(db_.get())));
    EXPECT_EQ(Get(Key(3)), value + "2");
    // Others are of the working directory of their call.
    std::unique_ptr<DB> second;
    const std::string other = dir_.Sub("other." + value);
    fs::create_directory(other);
    fs::current_path(other);
    ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
    Work(second.get(), "second");
    EXPECT_TRUE(Ok(db_->CreateCheckpoint("copy")));
    EXPECT_TRUE(Ok(db_->CreateCheckpoint(path_ + ".copy")));
    fs::current_path("/");
    EXPECT_TRUE(Ok(second->Close()));
    EXPECT_TRUE(Ok(db_->Close()));
    ExpectWork(dir_.Sub(path_), value);
    ExpectWork(other + "/copy", value);
    ExpectWork(other + "/" + path_ + ".copy", value);
    ExpectWork(other + "/" + path_, "second");
    std::unique_ptr<DB> reader;
    fs::current_path(dir_.path());
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &reader)));
    fs::current_path("/");
    EXPECT_TRUE(Ok(reader->VerifyChecksum()));
    db_.reset();  // It must not outlive the Env.
  }
}

TEST_F(DbMovedDirectoryTest, CatalogIsFoundAgain) {
  CatalogOptions options;
  options.options = options_;
  options.create_if_missing = true;
  std::unique_ptr<Catalog> catalog;
  DatabaseRef ref;
  {
    const WorkingDirectory directory(dir_.path());
    ASSERT_TRUE(Ok(Catalog::Open(options, "root", &catalog)));
    ASSERT_TRUE(Ok(catalog->Create("a")));
    ASSERT_TRUE(Ok(catalog->Find("a", &ref)));
  }
  const WorkingDirectory elsewhere("/");
  Work(ref.get(), "one");
  fs::rename(dir_.Sub("root"), dir_.Sub("moved"));
  Work(ref.get(), "two");
  ref.Reset();
  ASSERT_TRUE(Ok(catalog->Create("b")));
  ASSERT_TRUE(Ok(catalog->Create("c")));
  ASSERT_TRUE(Ok(catalog->Drop("c")));
  std::unique_ptr<Catalog> second;
  ASSERT_TRUE(Ok(Catalog::Open(options, dir_.Sub("root"), &second)));
  ASSERT_TRUE(Ok(second->Create("a")));
  EXPECT_TRUE(Ok(catalog->Close()));
  EXPECT_TRUE(Ok(second->Close()));
  ExpectWork(dir_.Sub("moved") + "/db-a", "two");
  EXPECT_TRUE(fs::exists(dir_.Sub("moved") + "/db-b"));
  EXPECT_FALSE(fs::exists(dir_.Sub("root") + "/db-b"));
}

TEST_F(DbMovedDirectoryTest, RemovedCatalogIsNotMadeAgain) {
  CatalogOptions options;
  options.options = options_;
  options.create_if_missing = true;
  std::unique_ptr<Catalog> catalog;
  ASSERT_TRUE(Ok(Catalog::Open(options, path_, &catalog)));
  ASSERT_TRUE(Ok(catalog->Create("a")));
  fs::remove_all(path_);
  EXPECT_FALSE(catalog->Create("b").ok());
  EXPECT_FALSE(catalog->Close().ok());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(DbMovedDirectoryTest, RepairAndDestroyTakeRelativePaths) {
  const WorkingDirectory directory(dir_.path());
  path_ = "db";
  Open();
  Work(db_.get(), "one");
  Close();
  fs::remove(path_ + "/CURRENT");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  ExpectWork(path_, "one");
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(fs::exists(path_ + "/CURRENT"));
}

}  // namespace
}  // namespace varve::test
