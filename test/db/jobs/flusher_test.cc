// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a switch begins a new log for all families, and a flush frees the logs
// that no family needs any more, without making a part of a batch durable.
// Method: the parts of a database in memory, whose syncs are counted.

#include "db/jobs/flusher.h"

#include "test/testing/db/engine_parts.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"
#include "varve/write_buffer_manager.h"

namespace varve::test {
namespace {

class FlusherTest : public ::testing::Test {
 protected:
  uint64_t OldestLog() {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.wals.OldestLocked();
  }
  uint64_t NewestLog() {
    MutexLock lock(parts_.core.mutex());
    return parts_.core.wals.NewestLocked();
  }
  uint64_t SyncsOfFlush(const std::vector<ColumnFamily*>& families) {
    const uint64_t before = env_.OperationCount(kSyncOperation);
    parts_.Flush(families);
    return env_.OperationCount(kSyncOperation) - before;
  }

  // When a file is created.
  void CallOnce(std::function<void()> call) {
    call_ = std::move(call);
    files_.hook = [this](const std::string&) {
      if (call_) std::exchange(call_, nullptr)();
      return Status::OK();
    };
  }

  Options other_options_ = TinyOptions();
  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  FaultInjectionEnv env_{memory_.get()};
  HookEnv files_{kCreateOperation, "", &env_};
  std::function<void()> call_;
  EngineParts parts_{TinyOptions(), &files_};
  Options& options_ = parts_.core.options;
  ColumnFamily* const default_ = &parts_.core.default_family;
  ColumnFamily* const a_ = parts_.Add("a", &other_options_);
};

TEST_F(FlusherTest, SwitchesOnlyTheGivenFamilies) {
  IsOnlyThread();
  parts_.Put(default_, "key");
  parts_.Put(a_, "key");
  const uint64_t old_log = NewestLog();
  parts_.Switch({a_});
  EXPECT_GT(NewestLog(), old_log);
  EXPECT_EQ(a_->memtables().immutable().size(), 1u);
  EXPECT_TRUE(a_->memtable()->empty());
  EXPECT_TRUE(default_->memtables().immutable().empty());
  EXPECT_EQ(default_->memtables().OldestLogLocked(), old_log);
}

TEST_F(FlusherTest, SwitchesAllFilledFamiliesIfTheFlushIsAtomic) {
  options_.atomic_flush = true;
  ColumnFamily* const empty = parts_.Add("empty", &other_options_);
  parts_.Put(default_, "key");
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_EQ(a_->memtables().immutable().size(), 1u);
  EXPECT_EQ(default_->memtables().immutable().size(), 1u);
  EXPECT_TRUE(empty->memtables().immutable().empty());
}

TEST_F(FlusherTest, SwitchesNoHolderOfLogsAloneIfTheFlushIsAtomic) {
  options_.max_total_wal_size = UINT64_MAX;
  parts_.Put(a_, "key", 1 << 20);
  parts_.Switch({});
  parts_.Put(default_, "key");
  ASSERT_TRUE(a_->memtables().immutable().empty());
  // `a` is the only one that must be flushed for the logs.
  options_.max_total_wal_size = 1 << 20;
  options_.atomic_flush = true;
  parts_.Switch({});
  EXPECT_EQ(a_->memtables().immutable().size(), 1u);
  EXPECT_EQ(default_->memtables().immutable().size(), 1u);
}

TEST_F(FlusherTest, FreesLogsThatNoFamilyNeeds) {
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_LT(OldestLog(), NewestLog());
  // The default family's memtable is empty, and needs no log before the newest.
  parts_.Flush({a_});
  EXPECT_EQ(OldestLog(), NewestLog());
}

TEST_F(FlusherTest, KeepsLogsThatAnotherFamilyNeeds) {
  parts_.Put(default_, "key");
  parts_.Put(a_, "key");
  const uint64_t old_log = NewestLog();
  parts_.Switch({a_});
  parts_.Flush({a_});
  EXPECT_EQ(OldestLog(), old_log);
  parts_.Switch({default_});
  parts_.Flush({default_});
  EXPECT_EQ(OldestLog(), NewestLog());
}

TEST_F(FlusherTest, SyncsLogsThatAnotherFamilyNeeds) {
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  const uint64_t alone = SyncsOfFlush({a_});
  parts_.Put(default_, "key");
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  EXPECT_EQ(SyncsOfFlush({a_}), alone + 1);
}

TEST_F(FlusherTest, WaitsAtTheBoundOfTheLogs) {
  parts_.Put(a_, "key", 1 << 20);
  parts_.Switch({a_});
  parts_.Put(default_, "key");
  options_.max_total_wal_size = 1 << 20;
  const uint64_t log = NewestLog();
  bool wait = false;
  {
    MutexLock lock(parts_.core.mutex());
    EXPECT_TRUE(Ok(parts_.flusher.ReplaceLogLocked({default_}, &wait)));
  }
  EXPECT_TRUE(wait);
  EXPECT_EQ(NewestLog(), log);
  parts_.Flush({a_});
  {
    MutexLock lock(parts_.core.mutex());
    EXPECT_TRUE(Ok(parts_.flusher.ReplaceLogLocked({default_}, &wait)));
  }
  EXPECT_FALSE(wait);
  EXPECT_GT(NewestLog(), log);
}

TEST_F(FlusherTest, StopsWritesIfTheLogCannotBeWritten) {
  parts_.Put(default_, "key");
  env_.FailAfter(0, Status::IOError("test"), kSyncOperation);
  MutexLock lock(parts_.core.mutex());
  EXPECT_TRUE(parts_.flusher.FlushLogLocked(true).IsIOError());
  EXPECT_TRUE(parts_.core.wals.has_failed());
  EXPECT_TRUE(parts_.core.control.gate().HasError());
}

TEST_F(FlusherTest, FlushesTheFamilyThatIsDue) {
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  parts_.RunJob(JobKind::kFlush, [this] { parts_.flusher.RunJob(); });
  EXPECT_EQ(a_->memtables().flushed_count(), 1u);
  EXPECT_FALSE(a_->memtables().flush_runs());
  MutexLock lock(parts_.core.mutex());
  EXPECT_TRUE(Ok(parts_.flusher.AwaitLocked(*a_, 1)));
  EXPECT_EQ(a_->version()->NumFiles(0), 1);
}

TEST_F(FlusherTest, AFamilyDroppedDuringTheFlushOfOthersIsLeftOut) {
  for (const bool atomic : {false, true}) {
    ColumnFamily* const b = parts_.Add("b", &other_options_);
    parts_.Put(a_, "key");
    parts_.Put(b, "key");
    parts_.Switch({a_, b});
    const int tables = a_->version()->NumFiles(0);
    b->Ref();
    CallOnce([this, b] {
      MutexLock lock(parts_.core.mutex());
      FamilyVersions* const dropped[] = {b->versions()};
      EXPECT_TRUE(Ok(parts_.core.versions->DropFamiliesLocked(dropped)));
      b->SetDroppedLocked();
      parts_.core.families.DropLocked(b);
    });
    std::vector<size_t> counts;
    MutexLock lock(parts_.core.mutex());
    EXPECT_TRUE(Ok(parts_.flusher.FlushLocked({a_, b}, atomic, &counts)));
    EXPECT_EQ(counts, (std::vector<size_t>{1, 0}));
    EXPECT_EQ(a_->version()->NumFiles(0), tables + 1);
    EXPECT_EQ(b->version()->NumFiles(0), 0);
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(memory_->GetChildren("/db", &names)));
    EXPECT_EQ(
        std::count_if(names.begin(), names.end(),
                      [](const std::string& n) { return n.ends_with(".sst"); }),
        tables + 1);
    parts_.core.families.UnrefLocked(b);
  }
}

TEST_F(FlusherTest, AFailureLeavesTheFlushesBeforeItUnlessTheyAreAtomic) {
  for (const bool atomic : {true, false}) {
    parts_.Put(default_, "key");
    parts_.Put(a_, "key");
    parts_.Switch({default_, a_});
    // The second table.
    env_.FailAfter(1, Status::IOError("test"), kCreateOperation);
    std::vector<size_t> counts;
    MutexLock lock(parts_.core.mutex());
    EXPECT_TRUE(parts_.flusher.FlushLocked({default_, a_}, atomic, &counts)
                    .IsIOError());
    env_.ClearFailure();
    EXPECT_EQ(counts, (std::vector<size_t>{atomic ? 0u : 2u, 0}));
    EXPECT_EQ(default_->version()->NumFiles(0), atomic ? 0 : 1);
    EXPECT_EQ(a_->version()->NumFiles(0), 0);
    EXPECT_FALSE(a_->memtables().flush_runs());
  }
}

// Its updates are gone, so a caller must not take them for flushed.
TEST_F(FlusherTest, AFamilyDroppedBeforeItsFlushIsAnError) {
  parts_.Put(a_, "key");
  parts_.Switch({a_});
  MutexLock lock(parts_.core.mutex());
  a_->SetDroppedLocked();
  EXPECT_TRUE(parts_.flusher.AwaitLocked(*a_, 1).IsInvalidArgument());
}

TEST_F(FlusherTest, SwitchesAMemTableForTheBudget) {
  parts_.Put(a_, "key");
  parts_.flusher.RequestSwitch(a_);
  MutexLock lock(parts_.core.mutex());
  parts_.AwaitJobsLocked();
  EXPECT_EQ(a_->memtables().immutable().size(), 1u);
  EXPECT_TRUE(default_->memtables().immutable().empty());
}

// Writers of other databases wait for a request until it is answered.
TEST_F(FlusherTest, DeclinesARequestOfTheBudgetAfterAnError) {
  other_options_.write_buffer_manager = std::make_shared<WriteBufferManager>(
      1 << 20, nullptr, /*allow_stall=*/true);
  ColumnFamily* const b = parts_.Add("b", &other_options_);
  b->memtables().JoinBudget();
  parts_.Put(b, "key", 2 << 20);
  b->memtables().account()->budget()->TEST_WaitForRequests();
  EXPECT_TRUE(b->memtables().account()->IsSwitchRequested());
  EXPECT_TRUE(b->memtables().account()->ShouldStall());
  env_.FailAfter(0, Status::IOError("test"), kSyncOperation);
  {
    MutexLock lock(parts_.core.mutex());
    EXPECT_FALSE(parts_.flusher.FlushLogLocked(true).ok());
  }
  parts_.flusher.RequestSwitch(b);
  EXPECT_FALSE(b->memtables().account()->ShouldStall());
  b->memtables().LeaveBudget();
}

// No writer comes to do it.
TEST_F(FlusherTest, SwitchesAMemTableThatIsRequestedDuringASwitch) {
  ColumnFamily* const b = parts_.Add("b", &other_options_);
  parts_.Put(a_, "key");
  parts_.Put(b, "key");
  CallOnce([this, b] { parts_.flusher.RequestSwitch(b); });
  parts_.flusher.RequestSwitch(a_);
  MutexLock lock(parts_.core.mutex());
  parts_.AwaitJobsLocked();
  EXPECT_EQ(a_->memtables().immutable().size(), 1u);
  EXPECT_EQ(b->memtables().immutable().size(), 1u);
}

TEST_F(FlusherTest, LeadsOnlyWhereNobodyLeads) {
  WriteQueue::Writer leader;
  ASSERT_TRUE(parts_.flusher.TryLead(&leader));
  WriteQueue::Writer other;
  EXPECT_FALSE(parts_.flusher.TryLead(&other));
  parts_.core.write_queue.Leave(WriteQueue::Group(&leader), Status::OK());
  {
    MutexLock lock(parts_.core.mutex());
    parts_.core.scheduler.StopLocked();
  }
  EXPECT_FALSE(parts_.flusher.TryLead(&other));
}

}  // namespace
}  // namespace varve::test
