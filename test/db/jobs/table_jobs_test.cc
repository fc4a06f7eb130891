// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a flush and a compaction leave the tables that their edits name, and
// none if the names cannot be made durable. Method: a database in memory that
// is composed of its parts alone, whose directory fails to sync on demand.

#include "db/jobs/table_jobs.h"

#include "test/testing/db/core_parts.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class Recorder : public EventListener {
 public:
  void OnTableFileCreated(const TableFileInfo& info) override {
    created.push_back(info.status.ok());
  }
  std::vector<bool> created;
};

// The jobs have no logs to sync.
Status AllowAll(const std::vector<ColumnFamily*>&, uint64_t, uint64_t) {
  return Status::OK();
}

class TableJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MutexLock lock(core_.mutex());
    family_.memtables().BeginLocked(family_.memtables().New(0), {});
    family_.InstallSuperVersionLocked(false);
  }

  // Makes a memtable with that key immutable.
  void SwitchLocked(const std::string& key) VARVE_REQUIRES(kDbMutex) {
    const SequenceNumber sequence = core_.versions->LastSequence() + 1;
    family_.memtable()->Add(sequence, ValueType::kValue, key, "value");
    core_.versions->SetLastSequence(sequence);
    family_.SwitchLocked(family_.memtables().New(sequence));
  }
  // Flushes a memtable with that key.
  Status Flush(const std::string& key) {
    MutexLock lock(core_.mutex());
    SwitchLocked(key);
    std::vector<FlushJobInfo> infos(1);
    infos[0].memtables = family_.memtables().immutable().size();
    Status status = jobs_.FlushLocked({&family_}, true, &infos, AllowAll);
    if (!status.ok()) return status;
    EXPECT_GT(infos[0].file_bytes, 0u);
    const auto flushed = family_.RemoveFlushedLocked(infos[0].memtables);
    family_.InstallSuperVersionLocked(false);
    family_.memtables().RetireLocked(flushed);
    return status;
  }
  size_t FileCount(int level) { return family_.version()->files(level).size(); }

  Options WithRecorder() {
    Options options = TinyOptions();
    options.listeners = {recorder_};
    return options;
  }

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  const std::unique_ptr<FaultInjectionEnv> env_ =
      std::make_unique<FaultInjectionEnv>(memory_.get());
  CoreParts parts_{WithRecorder(), env_.get()};
  DbCore& core_ = parts_.core;
  ColumnFamily& family_ = core_.default_family;
  TableJobs jobs_{core_};
};

TEST_F(TableJobsTest, FlushesAndMoves) {
  ASSERT_TRUE(Ok(Flush("a")));
  ASSERT_EQ(FileCount(0), 1u);
  Compaction compaction;
  compaction.level = 0;
  compaction.output_level = 6;
  compaction.trivial_move = true;
  compaction.inputs[0] = {family_.version()->files(0)[0]};
  CompactionJobInfo info;
  MutexLock lock(core_.mutex());
  ASSERT_TRUE(Ok(jobs_.CompactLocked(&family_, compaction, &info)));
  EXPECT_EQ(FileCount(0), 0u);
  EXPECT_EQ(FileCount(6), 1u);
}

// With atomic_flush, a later memtable may have a part of a batch whose other
// part is not flushed with it.
TEST_F(TableJobsTest, FlushesNoMoreMemTablesThanTheCallerSaw) {
  MutexLock lock(core_.mutex());
  SwitchLocked("a");
  std::vector<FlushJobInfo> infos(1);
  infos[0].memtables = 1;
  SwitchLocked("b");
  uint64_t end = 0;
  const auto note_end = [&end](const std::vector<ColumnFamily*>&, uint64_t,
                               uint64_t its_end) {
    end = its_end;
    return Status::OK();
  };
  ASSERT_TRUE(Ok(jobs_.FlushLocked({&family_}, true, &infos, note_end)));
  EXPECT_EQ(infos[0].memtables, 1u);
  ASSERT_EQ(FileCount(0), 1u);
  EXPECT_EQ(ExtractUserKey(family_.version()->files(0)[0]->largest).ToString(),
            "a");
  ASSERT_EQ(family_.memtables().immutable().size(), 2u);
  EXPECT_EQ(end, family_.memtables().immutable()[1]->wal_number());
}

// As when a database resumes that has nothing in memory.
TEST_F(TableJobsTest, TellsOfNoTableWithoutMemTables) {
  MutexLock lock(core_.mutex());
  std::vector<FlushJobInfo> infos(1);
  env_->FailAfter(0, Status::IOError("test"), kSyncDirectoryOperation);
  EXPECT_TRUE(
      jobs_.FlushLocked({&family_}, true, &infos, AllowAll).IsIOError());
  EXPECT_EQ(infos[0].memtables, 0u);
  core_.events.DeliverLocked();
  EXPECT_TRUE(recorder_->created.empty());
}

TEST_F(TableJobsTest, LeavesNothingIfTheNamesAreNotDurable) {
  ASSERT_TRUE(Ok(Flush("a")));
  std::vector<std::string> before;
  ASSERT_TRUE(Ok(env_->GetChildren("/db", &before)));
  env_->FailAfter(0, Status::IOError("test"), kSyncDirectoryOperation);
  EXPECT_TRUE(Flush("b").IsIOError());
  std::vector<std::string> after;
  ASSERT_TRUE(Ok(env_->GetChildren("/db", &after)));
  EXPECT_EQ(before, after);
  EXPECT_EQ(FileCount(0), 1u);
}

}  // namespace
}  // namespace varve::test
