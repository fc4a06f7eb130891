// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: what was written to logs is safe after a sync of them, and after a
// failure nobody is told that it is. Method: logs in memory, of which the
// environment counts and fails writes and syncs.

#include "db/wal/wal_set.h"

#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr OperationMask kSyncs = kSyncOperation | kSyncDirectoryOperation;

class WalSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Ok(place_.Open(false, true)));
    Add(7);
  }
  void TearDown() override {
    MutexLock lock(mutex_.lockable());
    wals_.CloseLocked().IgnoreError();
    place_.Unlock().IgnoreError();
  }

  void Add(uint64_t number) {
    WalSet::Wal wal;
    ASSERT_TRUE(Ok(wals_.Create(number, false, &wal)));
    MutexLock lock(mutex_.lockable());
    wals_.AddLocked(std::move(wal));
  }
  // Appends one update of `bytes` bytes.
  Status Append(size_t bytes = 10) {
    WriteBatch batch;
    batch.Put("key", std::string(bytes, 'v'));
    WriteQueue::Writer writer({}, &batch);
    WriteQueue::Group group(&writer);
    group.count = 1;
    return wals_.Append(group, 1);
  }
  Status Sync() {
    MutexLock lock(mutex_.lockable());
    return wals_.SyncLocked();
  }
  Status Switch(uint64_t number) {
    WalSet::Next next = wals_.CreateNext(number, 1, false);
    if (!next.status.ok()) return next.status;
    MutexLock lock(mutex_.lockable());
    wals_.AddLocked(std::move(next.wal));
    return Status::OK();
  }
  uint64_t Syncs(const std::function<void()>& action) {
    const uint64_t before = env_.OperationCount(kSyncs);
    action();
    return env_.OperationCount(kSyncs) - before;
  }
  bool LogExists(uint64_t number) {
    return env_.FileExists(WalFileName(place_.path(), number)).ok();
  }

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env_{memory_.get()};
  Options options_;
  DbDirectory place_{&env_, "/db"};
  LoneDbMutex mutex_;
  WalSet wals_{&place_, &options_, nullptr, mutex_.lockable()};
};

TEST_F(WalSetTest, SyncsLogsThatAreNotDurableYet) {
  ASSERT_TRUE(Ok(Append()));
  // The log, and the directory for its name.
  EXPECT_EQ(Syncs([&] { EXPECT_TRUE(Ok(Sync())); }), 2u);
  EXPECT_EQ(Syncs([&] { EXPECT_TRUE(Ok(Sync())); }), 1u);
  ASSERT_TRUE(Ok(Switch(8)));
  ASSERT_TRUE(Ok(Switch(9)));
  EXPECT_EQ(Syncs([&] { EXPECT_TRUE(Ok(Sync())); }), 4u);
  // Those before the newest are whole now.
  EXPECT_EQ(Syncs([&] { EXPECT_TRUE(Ok(Sync())); }), 1u);
}

TEST_F(WalSetTest, CountsRecordsAfterTheFirstNote) {
  EXPECT_EQ(wals_.UpdateBytes(), 0u);
  ASSERT_TRUE(Ok(Append(100)));
  const uint64_t bytes = wals_.UpdateBytes();
  EXPECT_GT(bytes, 100u);
  ASSERT_TRUE(Ok(Switch(8)));
  EXPECT_EQ(wals_.UpdateBytes(), 0u);
  ASSERT_TRUE(Ok(Append(100)));
  EXPECT_EQ(wals_.UpdateBytes(), bytes);
}

// Of a writer whose column family was dropped nothing is in the log.
TEST_F(WalSetTest, ARefusedWriterOfAGroupIsNotLogged) {
  WriteBatch batches[3];
  for (int i = 0; i < 3; ++i) batches[i].Put(Key(i), "value");
  WriteBatchInternal::SetSequence(&batches[0], 1);
  WriteQueue queue;
  WriteQueue::Writer leader({}, &batches[0]);
  WriteQueue::Writer refused({}, &batches[1]);
  WriteQueue::Writer last({}, &batches[2]);
  ASSERT_EQ(queue.Join(&leader), WriteQueue::Role::kLeader);
  Actor actors[2];
  WriteQueue::Writer* const followers[] = {&refused, &last};
  for (size_t i = 0; i < 2; ++i) {
    actors[i].Start(
        [&queue, writer = followers[i]] { (void)queue.Join(writer); });
    while (queue.Form(&leader).count < i + 2) std::this_thread::yield();
  }
  refused.is_refused = true;
  const WriteQueue::Group group = queue.Form(&leader);
  EXPECT_TRUE(Ok(wals_.Append(group, 2)));
  queue.Leave(group, Status::OK());
  for (Actor& actor : actors) actor.Wait();

  std::unique_ptr<SequentialFile> file;
  ASSERT_TRUE(
      Ok(env_.NewSequentialFile(WalFileName(place_.path(), 7), {}, &file)));
  wal::Reader reader(std::move(file), "the log", 7);
  Slice record;
  ASSERT_EQ(reader.ReadRecord(&record), wal::ReadOutcome::kRecord);
  BatchReader updates;
  ASSERT_TRUE(Ok(updates.Init(record)));
  std::vector<std::string> keys;
  BatchRecord update;
  bool done = false;
  for (;;) {
    ASSERT_TRUE(Ok(updates.NextOfOurs(&update, &done)));
    if (done) break;
    keys.push_back(update.key.ToString());
  }
  EXPECT_EQ(keys, (std::vector<std::string>{Key(0), Key(2)}));
}

TEST_F(WalSetTest, LogsAreReleasedInOrder) {
  IsOnlyThread();
  ASSERT_TRUE(Ok(Switch(8)));
  ASSERT_TRUE(Ok(Switch(9)));
  EXPECT_EQ(wals_.OldestLocked(), 7u);
  EXPECT_FALSE(wals_.HasObsoleteLocked());
  wals_.ReleaseLocked(9);
  EXPECT_EQ(wals_.OldestLocked(), 9u);
  const auto obsolete = wals_.TakeObsoleteLocked();
  ASSERT_EQ(obsolete.size(), 2u);
  EXPECT_EQ(obsolete[0].number, 7u);
  EXPECT_EQ(obsolete[1].number, 8u);
  EXPECT_FALSE(wals_.HasObsoleteLocked());
  ASSERT_EQ(wals_.SizesFromLocked(0).size(), 1u);
  EXPECT_EQ(wals_.SizesFromLocked(0)[0].first, 9u);
  EXPECT_TRUE(wals_.SizesFromLocked(10).empty());
}

TEST_F(WalSetTest, AFailedSyncIsReportedAgain) {
  IsOnlyThread();
  ASSERT_TRUE(Ok(Append()));
  ASSERT_TRUE(Ok(Sync()));
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  EXPECT_FALSE(Sync().ok());
  env_.ClearFailure();
  // The kernel would say OK now.
  EXPECT_FALSE(Sync().ok());
  EXPECT_FALSE(wals_.AreGoodLocked());
  // The caller that met the error gets it. Then no sync of the old log is
  // awaited.
  wals_.FailLocked();
  ASSERT_TRUE(Ok(Switch(8)));
  EXPECT_FALSE(wals_.has_failed());
  EXPECT_FALSE(Sync().ok());
  wals_.ReleaseLocked(8);
  EXPECT_TRUE(Ok(Sync()));
  EXPECT_TRUE(wals_.AreGoodLocked());
}

TEST_F(WalSetTest, AFailedSyncOfTheDirectoryTakesTheLogsAlong) {
  IsOnlyThread();
  ASSERT_TRUE(Ok(Append()));
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(),
                 kSyncDirectoryOperation);
  EXPECT_FALSE(Sync().ok());
  env_.ClearFailure();
  EXPECT_FALSE(Sync().ok());
  wals_.ClearDirectoryErrorLocked(Status::IOError("its name may be gone"));
  EXPECT_TRUE(wals_.has_failed());
  EXPECT_FALSE(Sync().ok());
  EXPECT_FALSE(Append().ok());
  ASSERT_TRUE(Ok(Switch(8)));
  wals_.ReleaseLocked(8);
  EXPECT_TRUE(Ok(Sync()));
}

// A flush that keeps logs for the archive asks without leading the queue.
TEST_F(WalSetTest, AFlushAsksForErrorsWhileTheLeaderWrites) {
  constexpr int kRounds = 100;
  Actor leader;
  const auto is_good = [this] {
    MutexLock lock(mutex_.lockable());
    return wals_.AreGoodLocked();
  };
  leader.Start([this] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(Ok(Append()));
      EXPECT_TRUE(Ok(Sync()));
    }
  });
  for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(is_good());
  leader.Wait();
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  leader.Start([this] { EXPECT_FALSE(Sync().ok()); });
  while (is_good()) std::this_thread::yield();
  leader.Wait();
}

TEST_F(WalSetTest, NoFileIsLeftOfALogThatCouldNotBegin) {
  ASSERT_TRUE(Ok(Append()));
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kCreateOperation);
  WalSet::Next next = wals_.CreateNext(8, 1, false);
  EXPECT_FALSE(next.status.ok());
  EXPECT_TRUE(next.newest_is_whole);
  EXPECT_FALSE(next.was_created);
  env_.SetPathFilter(WalFileName(place_.path(), 8));
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kWriteOperation);
  next = wals_.CreateNext(8, 1, false);
  EXPECT_FALSE(next.status.ok());
  EXPECT_TRUE(next.was_created);
  env_.ClearFailure();
  EXPECT_FALSE(LogExists(8));
  // The newest one goes on.
  EXPECT_TRUE(Ok(Append()));
  EXPECT_TRUE(Ok(Sync()));
}

TEST_F(WalSetTest, AfterCloseThereIsNone) {
  ASSERT_TRUE(Ok(Switch(8)));
  MutexLock lock(mutex_.lockable());
  ASSERT_TRUE(Ok(wals_.CloseLocked()));
  EXPECT_TRUE(wals_.EmptyLocked());
  EXPECT_TRUE(LogExists(7));
  EXPECT_TRUE(LogExists(8));
}

}  // namespace
}  // namespace varve::test
