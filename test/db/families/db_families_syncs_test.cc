// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: work on many families at once costs one sync for each table, and a few
// others whatever the number of families. Method: databases in memory, and an
// Env that counts syncs; failures and drops in the middle of a flush.

#include "test/testing/db/families_fixture.h"
#include "test/testing/env/counting_sync_env.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr size_t kFamilies = 100;
// Of the MANIFEST, of the directory, and of CURRENT: of a batch of tables, and
// of the edits in a new MANIFEST.
constexpr uint64_t kFew = 6;

class DbFamiliesSyncsTest : public FamiliesTest {
 protected:
  DbFamiliesSyncsTest() {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    path_ = "/db/it";
    options_.env = &env_;
    options_.write_buffer_size = 64 << 10;
    for (size_t i = 0; i < kFamilies; ++i) {
      names_.push_back("family " + std::to_string(i));
    }
  }

  std::vector<ColumnFamilyHandle*> Handles() {
    std::vector<ColumnFamilyHandle*> handles;
    for (const std::string& name : names_) handles.push_back(At(name));
    return handles;
  }
  void CreateAll() {
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(Ok(db_->CreateColumnFamilies(options_, names_, &handles)));
    ASSERT_EQ(handles.size(), names_.size());
    for (ColumnFamilyHandle* const handle : handles) {
      handles_[handle->GetName()] = handle;
    }
  }
  void OpenWithFamilies() {
    ASSERT_TRUE(Ok(TryOpen({})));
    CreateAll();
  }
  void PutInAll(const WriteOptions& options = {}) {
    for (const std::string& name : names_) {
      ASSERT_TRUE(Ok(db_->Put(options, At(name), "k", name)));
    }
  }
  void ExpectAll() {
    for (const std::string& name : names_) EXPECT_EQ(GetIn(name, "k"), name);
  }
  // Calls a function. Expects a sync for each of so many tables, and few
  // others.
  void ExpectFewSyncs(uint64_t tables, const std::function<void()>& call) {
    const CountingSyncEnv::Counts before = env_.counts();
    call();
    const CountingSyncEnv::Counts syncs = env_.counts() - before;
    EXPECT_EQ(syncs.tables, tables);
    EXPECT_LE(syncs.directories, kFew);
    EXPECT_LE(syncs.manifests, kFew);
    EXPECT_LE(syncs.logs, kFew);
    EXPECT_LE(syncs.others, kFew);
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv faulty_{memory_.get()};
  CountingSyncEnv env_{&faulty_};
  std::vector<std::string> names_;
};

TEST_F(DbFamiliesSyncsTest, OfFlush) {
  OpenWithFamilies();
  for (int round = 0; round < 2; ++round) {
    PutInAll();
    ExpectFewSyncs(kFamilies,
                   [&] { ASSERT_TRUE(Ok(db_->Flush({}, Handles()))); });
  }
  ReopenAll();
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfAnAtomicFlush) {
  options_.atomic_flush = true;
  OpenWithFamilies();
  PutInAll();
  ExpectFewSyncs(kFamilies, [&] { FlushOne(names_[0]); });
  ReopenAll();
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfAFlushAtClose) {
  OpenWithFamilies();
  PutInAll({.disable_wal = true});
  ExpectFewSyncs(kFamilies, [&] { Close(); });
  OpenAll();
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfARecovery) {
  OpenWithFamilies();
  PutInAll();
  faulty_.SetFilesystemActive(false);
  ReleaseHandles();
  db_.reset();
  faulty_.SetFilesystemActive(true);
  // The tables have temporary names first.
  const CountingSyncEnv::Counts before = env_.counts();
  OpenAll();
  const CountingSyncEnv::Counts syncs = env_.counts() - before;
  EXPECT_LE(syncs.tables + syncs.others, kFamilies + kFew);
  EXPECT_LE(syncs.directories, kFew);
  EXPECT_LE(syncs.manifests, kFew);
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfAResume) {
  OpenWithFamilies();
  PutInAll();
  faulty_.FailAfter(0, Status::IOError("test"), kSyncOperation);
  EXPECT_FALSE(db_->Flush({}, Handles()).ok());
  faulty_.ClearFailure();
  ExpectFewSyncs(kFamilies, [&] { ASSERT_TRUE(Ok(db_->Resume())); });
  ReopenAll();
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfFlushesForTheLogBound) {
  options_.max_total_wal_size = 256 << 10;
  options_.write_buffer_size = 4 << 20;
  OpenWithFamilies();
  PutInAll();
  // The oldest log is everybody's, so the default family is flushed too.
  ExpectFewSyncs(kFamilies + 1, [&] {
    for (int i = 0; NumberIn(names_.back(), "varve.num-files-at-level0") == 0;
         ++i) {
      ASSERT_LT(i, 10000);
      Put(Key(i), std::string(100, 'v'));
    }
  });
  ExpectAll();
}

TEST_F(DbFamiliesSyncsTest, OfCreationsAndDrops) {
  ASSERT_TRUE(Ok(TryOpen({})));
  ExpectFewSyncs(0, [&] { CreateAll(); });
  ExpectFewSyncs(0,
                 [&] { ASSERT_TRUE(Ok(db_->DropColumnFamilies(Handles()))); });
  ReopenAll();
  EXPECT_EQ(handles_.size(), 1u);
  Close();
  options_.create_missing_column_families = true;
  // A log and a MANIFEST belong to each open.
  ExpectFewSyncs(0, [&] { ASSERT_TRUE(Ok(TryOpen(names_))); });
  PutInAll();
  ReopenAll();
  ExpectAll();
}

// With a few edits, a sync for each costs less than a new MANIFEST.
TEST_F(DbFamiliesSyncsTest, FewFamiliesShareTheSyncOfTheDirectory) {
  names_.resize(3);
  OpenWithFamilies();
  PutInAll();
  const CountingSyncEnv::Counts before = env_.counts();
  ASSERT_TRUE(Ok(db_->Flush({}, Handles())));
  const CountingSyncEnv::Counts syncs = env_.counts() - before;
  EXPECT_EQ(syncs.tables, 3u);
  EXPECT_EQ(syncs.directories, 1u);
  EXPECT_EQ(syncs.manifests, 3u);
  EXPECT_EQ(syncs.others, 0u);
}

// The tables before the one that fails are not written again.
TEST_F(DbFamiliesSyncsTest, AFailureDoesNotUndoTheOtherFlushes) {
  OpenWithFamilies();
  PutInAll();
  faulty_.FailAfter(60, Status::IOError("test"), kCreateOperation);
  const CountingSyncEnv::Counts before = env_.counts();
  EXPECT_TRUE(db_->Flush({}, Handles()).IsIOError());
  faulty_.ClearFailure();
  const uint64_t written = (env_.counts() - before).tables;
  EXPECT_GT(written, 0u);
  EXPECT_LT(written, kFamilies);
  uint64_t tables = 0;
  for (const std::string& name : names_) {
    tables += NumberIn(name, "varve.num-files-at-level0");
  }
  EXPECT_EQ(tables, written);
  ExpectAll();
  ExpectFewSyncs(kFamilies - written, [&] { ASSERT_TRUE(Ok(db_->Resume())); });
  ReopenAll();
  ExpectAll();
}

// Appending to the old MANIFEST takes less space than a new one.
TEST_F(DbFamiliesSyncsTest, WithoutSpaceForANewManifestTheOldOneIsUsed) {
  OpenWithFamilies();
  ASSERT_TRUE(Ok(db_->Flush({}, At(names_[0]))));
  PutInAll();
  env_.refuses_manifests = true;
  ASSERT_TRUE(Ok(db_->Flush({}, Handles())));
  ASSERT_TRUE(Ok(db_->DropColumnFamilies({At(names_[0]), At(names_[1])})));
  env_.refuses_manifests = false;
  ReopenAll();
  names_.erase(names_.begin(), names_.begin() + 2);
  ExpectAll();
}

}  // namespace
}  // namespace varve::test
