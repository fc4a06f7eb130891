// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what is obsolete is removed, and not while somebody needs it to stay.
// Method: logs of a database in memory that is made of its parts alone; what
// happens to tables is in db_reclaim_test.cc and db_checkpoint_test.cc.

#include "db/parts/obsolete_files.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "env/file_names.h"
#include "test/testing/db/family_parts.h"
#include "test/testing/db_helpers.h"

namespace varve::test {
namespace {

class ObsoleteFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Ok(place_.Open(false, true)));
    parts_.Begin(nullptr);
    obsolete_.SetTables(&parts_.versions);
    MutexLock lock(&mutex_);
    for (uint64_t number : {1, 2, 3}) {
      WalSet::Wal wal;
      ASSERT_TRUE(Ok(wals_.Create(number, false, &wal)));
      wals_.AddLocked(std::move(wal));
    }
  }
  void TearDown() override {
    MutexLock lock(&mutex_);
    wals_.CloseLocked().IgnoreError();
    place_.Unlock().IgnoreError();
    mutex_.Unlock();
    parts_.family.Close();
    mutex_.Lock();
  }

  void Remove() {
    MutexLock lock(&mutex_);
    obsolete_.RemoveLocked();
  }
  bool LogExists(uint64_t number) {
    return env_->FileExists(WalFileName("/db", number)).ok();
  }

  Options options_ = TinyOptions();
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  FamilyParts parts_{&options_, env_.get()};
  Mutex& mutex_ = parts_.mutex;
  DbDirectory place_{env_.get(), "/db"};
  WalSet wals_{&place_, &options_, nullptr, &mutex_};
  BackgroundScheduler scheduler_{env_.get(), &mutex_};
  EventQueue events_{{}, &mutex_};
  ObsoleteFiles obsolete_{ObsoleteFiles::Parts{&place_, &wals_,
                                               &parts_.families, &events_,
                                               &scheduler_, nullptr, &mutex_}};
};

TEST_F(ObsoleteFilesTest, RemovesReleasedLogs) {
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

}  // namespace
}  // namespace varve::test
