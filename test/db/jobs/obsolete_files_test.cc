// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: what is obsolete is removed, and not while somebody needs it to stay.
// Method: logs of a database in memory that is made of its parts alone; what
// happens to tables is in db_reclaim_test.cc and db_checkpoint_test.cc.

#include "db/jobs/obsolete_files.h"

#include "env/file_names.h"
#include "test/testing/db/core_parts.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "varve/write_buffer_manager.h"

namespace varve::test {
namespace {

class ObsoleteFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MutexLock lock(core_.mutex());
    for (uint64_t number : {1, 2, 3}) {
      WalSet::Wal wal;
      ASSERT_TRUE(Ok(wals_.Create(number, false, &wal)));
      wals_.AddLocked(std::move(wal));
    }
  }

  ColumnFamily* AddFamily() {
    MutexLock lock(core_.mutex());
    return parts_.AddLocked("family", &family_options_);
  }
  // Records two tables that no version of the family needs any more.
  void AddTables(ColumnFamily* family) {
    MutexLock lock(core_.mutex());
    for (int i = 0; i < 2; ++i) {
      auto* const file = new FileMetaData;
      file->number = core_.versions->NewFileNumber();
      core_.versions->obsolete_files()->push_back(
          {file, family->table_cache()});
    }
  }
  void Drop(ColumnFamily* family) {
    MutexLock lock(core_.mutex());
    FamilyVersions* const dropped[] = {family->versions()};
    ASSERT_TRUE(Ok(core_.versions->DropFamiliesLocked(dropped)));
    core_.families.DropLocked(family);
  }

  void Remove() {
    MutexLock lock(core_.mutex());
    obsolete_.RemoveLocked();
  }
  bool LogExists(uint64_t number) {
    return env_.FileExists(WalFileName("/db", number)).ok();
  }

  Options family_options_ = TinyOptions();
  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  Gate removals_;
  HookEnv env_{kRemoveOperation, ".sst", memory_.get()};
  CoreParts parts_{TinyOptions(), &env_};
  DbCore& core_ = parts_.core;
  WalSet& wals_ = core_.wals;
  ObsoleteFiles& obsolete_ = core_.obsolete;
};

TEST_F(ObsoleteFilesTest, RemovesReleasedLogs) {
  IsOnlyThread();
  EXPECT_FALSE(obsolete_.AnyLocked());
  wals_.ReleaseLocked(3);
  EXPECT_TRUE(obsolete_.AnyLocked());
  EXPECT_FALSE(obsolete_.has_removed());
  Remove();
  EXPECT_FALSE(obsolete_.AnyLocked());
  EXPECT_EQ(obsolete_.running(), 0);
  EXPECT_FALSE(LogExists(1));
  EXPECT_FALSE(LogExists(2));
  EXPECT_TRUE(LogExists(3));
  EXPECT_TRUE(obsolete_.has_removed());
  obsolete_.ForgetRemovedLocked();
  EXPECT_FALSE(obsolete_.has_removed());
}

TEST_F(ObsoleteFilesTest, FilesStayWhileTheyAreHeld) {
  IsOnlyThread();
  wals_.ReleaseLocked(2);
  obsolete_.HoldLocked();
  obsolete_.HoldLocked();
  EXPECT_FALSE(obsolete_.AnyLocked());
  Remove();
  EXPECT_TRUE(LogExists(1));
  obsolete_.LetGoLocked();
  EXPECT_TRUE(obsolete_.is_held());
  obsolete_.LetGoLocked();
  EXPECT_FALSE(obsolete_.is_held());
  EXPECT_TRUE(obsolete_.AnyLocked());
  Remove();
  EXPECT_FALSE(LogExists(1));
}

// A family that is closed waits for the budget's call, during which the hold
// begins.
TEST_F(ObsoleteFilesTest, FilesStayIfTheHoldBeginsWhileAFamilyIsClosed) {
  constexpr size_t kBudget = 64 << 10;
  family_options_.write_buffer_manager =
      std::make_shared<WriteBufferManager>(kBudget);
  std::atomic<bool> is_in_call{false};
  parts_.request_switch = [&](ColumnFamily*) {
    is_in_call = true;
    for (bool is_held = false; !is_held; std::this_thread::yield()) {
      MutexLock lock(core_.mutex());
      if (obsolete_.running() == 0) continue;
      EXPECT_FALSE(core_.families.HasDeadLocked());
      obsolete_.HoldLocked();
      is_held = true;
    }
  };
  ColumnFamily* const family = AddFamily();
  {
    MutexLock lock(core_.mutex());
    family->memtables().BeginLocked(family->memtables().New(1), {});
  }
  family->memtables().JoinBudget();
  family->memtable()->Add(1, ValueType::kValue, "key",
                          std::string(2 * kBudget, 'v'));
  while (!is_in_call) std::this_thread::yield();
  AddTables(family);
  {
    MutexLock lock(core_.mutex());
    wals_.ReleaseLocked(2);
  }
  Drop(family);
  Remove();
  EXPECT_TRUE(obsolete_.is_held());
  EXPECT_TRUE(LogExists(1));
  EXPECT_EQ(core_.versions->obsolete_files()->size(), 2u);
  {
    MutexLock lock(core_.mutex());
    obsolete_.LetGoLocked();
  }
  Remove();
  EXPECT_FALSE(LogExists(1));
  EXPECT_TRUE(core_.versions->obsolete_files()->empty());
}

// The address sanitizer sees a cache of tables that is used too long.
TEST_F(ObsoleteFilesTest, AFamilyIsFreedAfterTheRemovalOfItsTables) {
  IsOnlyThread();
  ColumnFamily* const family = AddFamily();
  AddTables(family);
  env_.hook = [this](const std::string&) { return removals_.Pass(); };
  removals_.Close();
  std::thread first([this] { Remove(); });
  removals_.AwaitWaiting();  // One of the two tables is left to it.
  Drop(family);
  Remove();  // Takes the family.
  EXPECT_FALSE(core_.families.HasDeadLocked());
  EXPECT_EQ(core_.versions->families().size(), 1u);
  removals_.Open();
  first.join();
  EXPECT_EQ(obsolete_.running(), 0);
}

TEST_F(ObsoleteFilesTest, TablesOfAFamilyThatIsGoneNeedNoCache) {
  ColumnFamily* const family = AddFamily();
  AddTables(family);
  Drop(family);
  {
    MutexLock lock(core_.mutex());
    const auto dead = core_.families.TakeDeadLocked();
    ASSERT_EQ(dead.size(), 1u);
    core_.mutex()->Unlock();
    dead[0]->Close();
    core_.mutex()->Lock();
    core_.versions->RemoveFamilyLocked(dead[0]->versions());
  }
  for (const auto& table : *core_.versions->obsolete_files()) {
    EXPECT_EQ(table.table_cache, nullptr);
  }
  Remove();
  EXPECT_TRUE(core_.versions->obsolete_files()->empty());
}

}  // namespace
}  // namespace varve::test
