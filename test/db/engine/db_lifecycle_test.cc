// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: opening, closing, locking, removing and repairing do what their
// comments promise and never lose data. Method: each situation is made with
// the API or by changing files of a closed database by hand.

#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbLifecycleTest : public DbTestBase {
 protected:
  // A closed database with tables in several levels and a live log.
  void MakeDatabase(int count = 3000) {
    Open();
    for (int i = 0; i < count; i++) {
      expected_[Key(i)] = "value" + std::to_string(i);
      Put(Key(i), expected_[Key(i)]);
      if (i == count / 2) CompactAll();
    }
    Flush();
    for (int i = 0; i < 50; i++) {
      expected_[Key(i)] = "in the log";
      Put(Key(i), expected_[Key(i)]);
    }
    Close();
  }

  Entries expected_;
};

TEST_F(DbLifecycleTest, MissingDatabaseIsRefusedWithoutCreateIfMissing) {
  options_.create_if_missing = false;
  EXPECT_TRUE(IsInvalidArgument(TryOpen(), "create_if_missing"));
  EXPECT_EQ(db_, nullptr);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/CURRENT"));
}

TEST_F(DbLifecycleTest, ExistingDatabaseIsRefusedWithErrorIfExists) {
  MakeDatabase(10);
  options_.error_if_exists = true;
  EXPECT_TRUE(IsInvalidArgument(TryOpen(), "error_if_exists"));
  options_.error_if_exists = false;
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbLifecycleTest, ParentDirectoryMustExist) {
  path_ = dir_.Sub("no/such/parent");
  EXPECT_FALSE(TryOpen().ok());
  EXPECT_FALSE(std::filesystem::exists(dir_.Sub("no")));
}

TEST_F(DbLifecycleTest, DirectoryWithForeignFilesCanBecomeADatabase) {
  std::filesystem::create_directory(path_);
  WriteWholeFile(path_ + "/notes.txt", "mine");
  Do("open, put a 1, reopen");
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(ReadWholeFile(path_ + "/notes.txt"), "mine");
}

TEST_F(DbLifecycleTest, PathThatIsAFileIsRefused) {
  WriteWholeFile(path_, "a file");
  EXPECT_FALSE(TryOpen().ok());
  EXPECT_EQ(ReadWholeFile(path_), "a file");
}

TEST_F(DbLifecycleTest, ReopeningManyTimesKeepsEverything) {
  Entries expected;
  for (int round = 0; round < 20; round++) {
    Open();
    ASSERT_TRUE(HasEntries(db_.get(), ToList(expected)));
    expected[Key(round)] = std::to_string(round);
    Put(Key(round), std::to_string(round));
    // Closed by the destructor in every other round.
    if (round % 2 == 0) Close();
    db_.reset();
  }
  // Logs and MANIFESTs of earlier rounds were removed.
  EXPECT_LE(FilesEndingIn(path_, ".log").size(), 2u);
  EXPECT_EQ(FilesStartingWith(path_, "MANIFEST-").size(), 1u);
}

TEST_F(DbLifecycleTest, CloseWaitsForSnapshotsAndIterators) {
  Open();
  Put("a", "1");
  const Snapshot* snapshot = db_->GetSnapshot();
  EXPECT_TRUE(db_->Close().IsBusy());
  auto it = db_->NewIterator({});
  db_->ReleaseSnapshot(snapshot);
  EXPECT_TRUE(db_->Close().IsBusy());
  // Nothing was closed by the refusals.
  it->SeekToFirst();
  EXPECT_TRUE(it->Valid());
  Put("b", "2");
  Flush();
  EXPECT_EQ(Get("b"), "2");
  it.reset();
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}}));
}

TEST_F(DbLifecycleTest, SecondOpenIsBusyUntilTheFirstIsClosed) {
  Open();
  Put("a", "1");
  std::unique_ptr<DB> second;
  EXPECT_TRUE(IsBusy(DB::Open(options_, path_, &second)));
  EXPECT_EQ(second, nullptr);
  // The same directory under another name.
  std::filesystem::create_directory_symlink(path_, dir_.Sub("link"));
  EXPECT_TRUE(IsBusy(DB::Open(options_, dir_.Sub("link"), &second)));
  EXPECT_TRUE(DestroyDB(path_, options_).IsBusy());
  EXPECT_TRUE(RepairDB(path_, options_).IsBusy());
  Put("b", "2");
  Close();
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &second)));
  EXPECT_TRUE(HasEntries(second.get(), {{"a", "1"}, {"b", "2"}}));
}

TEST_F(DbLifecycleTest, LockOfAnotherProcessNamesItsPid) {
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    // Takes the lock as the engine does, without threads.
    std::filesystem::create_directory(path_);
    std::unique_ptr<FileLock> lock;
    Status s = Env::Default()->LockFile(path_ + "/LOCK", &lock);
    char byte = s.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    close(done[1]);
    if (read(done[0], &byte, 1) != 0) _exit(1);
    _exit(0);
  }
  close(done[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_TRUE(IsBusy(TryOpen(), std::to_string(child)));
  close(done[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ready[0]);
  close(ready[1]);
  Open();
}

TEST_F(DbLifecycleTest, WritesWithoutWalAreFlushedByClose) {
  Open();
  WriteOptions no_wal{.disable_wal = true};
  ASSERT_TRUE(Ok(db_->Put(no_wal, "a", "1")));
  EXPECT_EQ(Get("a"), "1");
  Put("b", "with a log");
  ASSERT_TRUE(Ok(db_->Put(no_wal, "c", "3")));
  Reopen();
  EXPECT_TRUE(
      HasEntries(db_.get(), {{"a", "1"}, {"b", "with a log"}, {"c", "3"}}));
}

TEST_F(DbLifecycleTest, WritesWithoutWalMayBeLostIfAskedFor) {
  options_.avoid_flush_during_shutdown = true;
  Open();
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "a", "1")));
  Put("b", "with a log");
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"b", "with a log"}}));
}

TEST_F(DbLifecycleTest, SyncWithoutWalIsRefused) {
  Open();
  EXPECT_TRUE(IsInvalidArgument(
      db_->Put({.sync = true, .disable_wal = true}, "a", "1"), "disable_wal"));
  EXPECT_EQ(Get("a"), "NotFound");
}

TEST_F(DbLifecycleTest, SyncedWritesAndSyncWalSucceed) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({.sync = true}, "a", "1")));
  Put("b", "2");
  ASSERT_TRUE(Ok(db_->SyncWAL()));
  ASSERT_TRUE(Ok(db_->SyncWAL()));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}}));
}

TEST_F(DbLifecycleTest, ReadOnlySeesAllAndChangesNothing) {
  MakeDatabase();
  const auto before = ReadDirectory(path_);
  options_.create_if_missing = false;
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db)));
    EXPECT_TRUE(HasEntries(db.get(), ToList(expected_)));
    std::string value;
    EXPECT_TRUE(db->Get({}, "missing", &value).IsNotFound());
    EXPECT_TRUE(db->Put({}, "a", "1").IsNotSupported());
    EXPECT_TRUE(db->Delete({}, "a").IsNotSupported());
    WriteBatch batch;
    batch.Put("a", "1");
    EXPECT_TRUE(db->Write({}, &batch).IsNotSupported());
    EXPECT_TRUE(db->Flush({}).IsNotSupported());
    EXPECT_TRUE(db->CompactRange({}, nullptr, nullptr).IsNotSupported());
    EXPECT_TRUE(db->SetOptions({{"write_buffer_size", "1M"}}).IsNotSupported());
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
    // Another reader at the same time.
    std::unique_ptr<DB> other;
    ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &other)));
    EXPECT_TRUE(HasEntries(other.get(), ToList(expected_)));
    EXPECT_TRUE(Ok(db->Close()));
  }
  EXPECT_TRUE(before == ReadDirectory(path_)) << "a file was changed";
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbLifecycleTest, ReadOnlyOpenOfAMissingDatabaseCreatesNothing) {
  std::unique_ptr<DB> db;
  EXPECT_FALSE(DB::OpenForReadOnly(options_, path_, &db).ok());
  EXPECT_EQ(db, nullptr);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Calls `act` once, when the directory is listed or the lock is taken.
class ActsBetweenEnv final : public EnvWrapper {
 public:
  ActsBetweenEnv() : EnvWrapper(Env::Default()) {}
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    if (before_list) std::exchange(before_list, nullptr)();
    Status status = EnvWrapper::GetChildren(path, names);
    if (after_list) std::exchange(after_list, nullptr)();
    return status;
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override {
    if (before_lock) std::exchange(before_lock, nullptr)();
    return EnvWrapper::LockFile(path, lock);
  }

  std::function<void()> before_list, after_list, before_lock;
};

TEST_F(DbLifecycleTest, IsNotOpenedWithoutTheLockWhileItIsMade) {
  std::unique_ptr<DB> first;
  const auto make = [&, options = options_] {
    ASSERT_TRUE(Ok(DB::Open(options, path_, &first)));
    ASSERT_TRUE(Ok(first->Put({}, "a", "1")));
  };
  std::filesystem::create_directory(path_);
  ActsBetweenEnv env;
  options_.env = &env;
  options_.create_if_missing = false;
  env.after_list = make;
  EXPECT_TRUE(IsInvalidArgument(TryOpen()));
  first.reset();
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  std::filesystem::create_directory(path_);
  env.before_list = make;
  EXPECT_TRUE(IsBusy(TryOpen()));
  first.reset();
  Open();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(DestroyDB(path_, options_).IsBusy());
  db_.reset();  // It must not outlive the Env.
}

TEST_F(DbLifecycleTest, OpensACopyWithoutItsLock) {
  MakeDatabase(10);
  std::filesystem::remove(path_ + "/LOCK");
  options_.create_if_missing = false;
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  EXPECT_TRUE(DestroyDB(path_, options_).IsBusy());
}

TEST_F(DbLifecycleTest, DestroyRemovesFilesCreatedBeforeItHasTheLock) {
  MakeDatabase(10);
  ActsBetweenEnv env;
  env.before_lock = [&, options = options_] {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
    ASSERT_TRUE(Ok(db->Put({}, "more", "1")));
    ASSERT_TRUE(Ok(db->Flush({})));
  };
  options_.env = &env;
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
  options_.env = nullptr;
  EXPECT_TRUE(DestroyDB(path_, options_).IsInvalidArgument());
  options_.env = Env::Default();
}

TEST_F(DbLifecycleTest, DestroyRemovesTheDatabaseOnly) {
  MakeDatabase();
  WriteWholeFile(path_ + "/notes.txt", "mine");
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  const auto left = ReadDirectory(path_);
  EXPECT_EQ(left.size(), 1u) << left.begin()->first;
  EXPECT_EQ(left.count("notes.txt"), 1u);
  std::filesystem::remove(path_ + "/notes.txt");
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(Ok(DestroyDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {}));
}

TEST_F(DbLifecycleTest, RepairFindsEverythingWithoutManifestAndCurrent) {
  MakeDatabase();
  for (const std::string& manifest : FilesStartingWith(path_, "MANIFEST-")) {
    std::filesystem::remove(manifest);
  }
  std::filesystem::remove(path_ + "/CURRENT");
  ASSERT_FALSE(TryOpen().ok()) << "tables without CURRENT: data at risk";
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  // It is a database like any other: newer writes win, also after compaction.
  Put(Key(1), "after the repair");
  expected_[Key(1)] = "after the repair";
  CompactAll();
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbLifecycleTest, RepairKeepsTheNewestVersionOfEachKey) {
  options_.disable_auto_compactions = true;
  Open();
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < 100; i++) Put(Key(i), "round" + std::to_string(round));
    Flush();
    if (round == 3) CompactAll();
  }
  Close();
  std::filesystem::remove(path_ + "/CURRENT");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  for (int i = 0; i < 100; i++) ASSERT_EQ(Get(Key(i)), "round5");
}

TEST_F(DbLifecycleTest, RepairKeepsTheNewestVersionAmongManyLevels) {
  // Tables of deeper levels may hold newer entries (of other keys) than tables
  // of upper ones, so tables cannot be ordered by their numbers or sequences.
  Open();
  Rng rng(11);
  for (int i = 0; i < 15000; i++) {
    const std::string key = Key(rng.Between(0, 4000));
    expected_[key] = std::to_string(i) + rng.Bytes(60);
    Put(key, expected_[key]);
    if (i == 6000) {
      const Slice begin = "key00001000", end = "key00002000";
      ASSERT_TRUE(Ok(db_->CompactRange({}, &begin, &end)));
    }
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_GT(Tables(), TablesAt(0) + TablesAt(1));
  Close();
  std::filesystem::remove(path_ + "/CURRENT");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbLifecycleTest, RepairMovesUnreadableTablesToLost) {
  options_.disable_auto_compactions = true;
  Do("open, put a 1, flush, put b 2, flush");
  Close();
  const auto tables = FilesEndingIn(path_, ".sst");
  ASSERT_EQ(tables.size(), 2u);
  WriteWholeFile(tables[1], "this is no table");
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "NotFound");
  const std::string name = std::filesystem::path(tables[1]).filename();
  EXPECT_EQ(ReadWholeFile(path_ + "/lost/" + name), "this is no table");
}

TEST_F(DbLifecycleTest, RepairOfAHealthyDatabaseLosesNothing) {
  MakeDatabase();
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
}

TEST_F(DbLifecycleTest, WorksInMemory) {
  const auto memory = NewMemoryEnv(Env::Default());
  options_.env = memory.get();
  path_ = "/in/memory";
  // The parent must exist there as well.
  ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/in")));
  MakeDatabase();
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  CompactAll();
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  EXPECT_FALSE(std::filesystem::exists(path_));
  db_.reset();
}

}  // namespace
}  // namespace varve::test
