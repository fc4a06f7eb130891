// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a dropped family is read through its handle until that goes, is written
// to by nobody, and leaves nothing behind; and nothing else goes with it.
// Method: drops at every point of a family's life, with handles, iterators,
// snapshots and jobs that outlive them; kills at once after a drop.

#include <atomic>
#include <thread>
#include <vector>

#include "test/testing/db/families_fixture.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/env/pausing_env.h"
#include "test/testing/env/small_device_env.h"
#include "test/testing/forked.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

class DbFamiliesDropTest : public FamiliesTest {
 protected:
  void DropOne(const std::string& name) {
    ASSERT_TRUE(Ok(db_->DropColumnFamily(At(name))));
  }
  void ExpectRefused(const Status& s) {
    EXPECT_TRUE(IsInvalidArgument(s, "dropped"));
  }
};

TEST_F(DbFamiliesDropTest, HandleReadsOnAndWritesAreRefused) {
  OpenNew({"a", "b"});
  PutIn("a", "table", "1");
  PutIn("a", "gone", "1");
  FlushOne("a");
  PutIn("a", "memtable", "2");
  const Snapshot* const snapshot = db_->GetSnapshot();
  ReadOptions at_snapshot{.snapshot = snapshot};
  ASSERT_TRUE(Ok(db_->Delete({}, At("a"), "gone")));
  ReadTransaction read(db_.get());
  auto before = db_->NewIterator({}, At("a"));
  DropOne("a");
  const EntryList now = {{"memtable", "2"}, {"table", "1"}};
  const EntryList then = {{"gone", "1"}, {"memtable", "2"}, {"table", "1"}};
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), now));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), then, at_snapshot));
  std::string value;
  EXPECT_TRUE(Ok(read.Get({}, At("a"), "memtable", &value)));
  before->SeekToFirst();
  ASSERT_TRUE(before->Valid());
  EXPECT_EQ(before->key().ToString(), "memtable");

  ExpectRefused(db_->Put({}, At("a"), "k", "v"));
  ExpectRefused(db_->Delete({}, At("a"), "table"));
  ExpectRefused(db_->SingleDelete({}, At("a"), "table"));
  ExpectRefused(db_->DeleteRange({}, At("a"), "a", "z"));
  WriteBatch batch;
  batch.Put("default", "1");
  batch.Put(At("b"), "k", "1");
  batch.Delete(At("a"), "table");
  ExpectRefused(db_->Write({}, &batch));
  ExpectRefused(db_->Write({.disable_wal = true}, &batch));
  ExpectRefused(db_->Flush({}, At("a")));
  ExpectRefused(db_->CompactRange({}, At("a"), nullptr, nullptr));
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("b"), {}));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), now));
  // Refusals have not hurt the database.
  PutIn("b", "k", "2");
  batch.Clear();
  batch.Put("default", "2");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  db_->ReleaseSnapshot(snapshot);
  read.End();
  before.reset();
  ReopenAsKilled();
  EXPECT_EQ(handles_.count("a"), 0u);
  EXPECT_EQ(GetIn("b", "k"), "2");
  EXPECT_EQ(Get("default"), "2");
}

TEST_F(DbFamiliesDropTest, FilesGoWithTheLastUser) {
  OpenNew({"a", "b"});
  PutIn("b", "k", "v");
  FlushOne("b");
  for (int users = 0; users < 4; ++users) {
    SCOPED_TRACE(users);
    const std::string name = "victim" + std::to_string(users);
    Create(name);
    PutIn(name, "k", "v");
    FlushOne(name);
    PutIn(name, "l", "v");
    ASSERT_EQ(TableFiles().size(), 2u);
    auto iterator = users % 2 == 1 ? db_->NewIterator({}, At(name)) : nullptr;
    DropOne(name);
    if (users >= 2) AwaitRemovals();
    EXPECT_EQ(TableFiles().size(), 2u);
    EXPECT_EQ(GetIn(name, "l"), "v");
    Release(name);
    AwaitRemovals();
    if (iterator != nullptr) {
      EXPECT_EQ(TableFiles().size(), 2u);
      iterator->SeekToLast();
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key().ToString(), "l");
      iterator->Prev();
      ASSERT_TRUE(iterator->Valid());
      iterator.reset();
      AwaitRemovals();
    }
    EXPECT_EQ(TableFiles().size(), 1u);
  }
  EXPECT_EQ(GetIn("b", "k"), "v");
  ReopenAll();
  EXPECT_EQ(handles_.size(), 3u);
}

// The last iterator may end on any thread, while the handle goes.
TEST_F(DbFamiliesDropTest, FilesGoWithTheLastOfManyThreadsIterators) {
  OpenNew({});
  for (int round = 0; round < 10; ++round) {
    const std::string name = "victim" + std::to_string(round);
    Create(name);
    PutIn(name, "k", "v");
    FlushOne(name);
    std::vector<std::unique_ptr<Iterator>> iterators;
    for (int i = 0; i < 12; ++i) {
      iterators.push_back(db_->NewIterator({}, At(name)));
    }
    DropOne(name);
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < iterators.size(); i = next++) {
          iterators[i]->SeekToFirst();
          EXPECT_TRUE(iterators[i]->Valid());
          iterators[i].reset();
        }
      });
    }
    Release(name);
    for (std::thread& thread : threads) thread.join();
    AwaitRemovals();
    EXPECT_EQ(TableFiles().size(), 0u);
  }
}

TEST_F(DbFamiliesDropTest, FilesOfEachGoWithItsOwnLastIterator) {
  OpenNew({"live"});
  PutIn("live", "k", "v");
  FlushOne("live");
  for (const bool reversed : {false, true}) {
    std::unique_ptr<Iterator> iterators[2];
    for (int i = 0; i < 2; ++i) {
      const std::string name = (reversed ? "b" : "a") + std::to_string(i);
      Create(name);
      PutIn(name, "k", "v");
      FlushOne(name);
      iterators[i] = db_->NewIterator({}, At(name));
      DropOne(name);
      Release(name);
    }
    AwaitRemovals();
    EXPECT_EQ(TableFiles().size(), 3u);
    EXPECT_TRUE(db_->Close().IsBusy());
    db_->NewIterator({}, At("live")).reset();
    iterators[reversed ? 1 : 0].reset();
    AwaitRemovals();
    EXPECT_EQ(TableFiles().size(), 2u);
    std::unique_ptr<Iterator>& other = iterators[reversed ? 0 : 1];
    other->SeekToFirst();
    EXPECT_TRUE(other->Valid());
    other.reset();
    AwaitRemovals();
    EXPECT_EQ(TableFiles().size(), 1u);
  }
}

TEST_F(DbFamiliesDropTest, RecreatedNameIsAnotherFamily) {
  OpenNew({"a"});
  PutIn("a", "k", "old");
  FlushOne("a");
  PutIn("a", "l", "old");
  ColumnFamilyHandle* const old = At("a");
  DropOne("a");
  handles_.erase("a");
  Create("a");
  EXPECT_EQ(old->GetID(), 1u);
  EXPECT_EQ(At("a")->GetID(), 2u);
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), {}));
  PutIn("a", "k", "new");
  EXPECT_EQ(GetBy(old, "k"), "old");
  EXPECT_EQ(GetBy(old, "l"), "old");
  ExpectRefused(db_->Put({}, old, "k", "v"));
  delete old;
  EXPECT_EQ(GetIn("a", "k"), "new");
  ReopenAsKilled();
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), {{"k", "new"}}));
  EXPECT_EQ(At("a")->GetID(), 2u);
  // Numbers are not given again, even if the last family was dropped.
  DropOne("a");
  Close();
  options_.create_missing_column_families = true;
  ASSERT_TRUE(Ok(TryOpen({"a"})));
  EXPECT_EQ(At("a")->GetID(), 3u);
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), {}));
}

// The log has updates of three families. One of them goes.
TEST_F(DbFamiliesDropTest, DropKeepsTheLogsOfTheOthers) {
  OpenNew({"old", "b"});
  PutIn("old", "k", "1");
  PutIn("b", "k", "2");
  Put("k", "3");
  FlushOne("old");
  for (int i = 0; i < 3; ++i) {
    PutIn("old", "k", "4");
    FlushOne("old");
  }
  ASSERT_EQ(LogFiles().size(), 5u);
  DropOne("old");
  Release("old");
  AwaitRemovals();
  EXPECT_EQ(LogFiles().size(), 5u) << "the first is needed";
  PutIn("b", "l", "5");
  ReopenAsKilled();
  EXPECT_EQ(GetIn("b", "k"), "2");
  EXPECT_EQ(GetIn("b", "l"), "5");
  EXPECT_EQ(Get("k"), "3");
}

TEST_F(DbFamiliesDropTest, DropFreesLogsThatOnlyItNeeded) {
  OpenNew({"idle", "b"});
  PutIn("idle", "k", "1");
  for (int i = 0; i < 4; ++i) {
    PutIn("b", Key(i), "2");
    FlushOne("b");
  }
  ASSERT_EQ(LogFiles().size(), 5u);
  EXPECT_TRUE(Contains(Text("varve.oldest-log"), "needed by idle"));
  DropOne("idle");
  AwaitRemovals();
  EXPECT_EQ(LogFiles().size(), 1u);
  EXPECT_EQ(GetIn("idle", "k"), "1");
  PutIn("b", "k", "3");
  ReopenAsKilled();
  EXPECT_EQ(GetIn("b", Key(3)), "2");
  EXPECT_EQ(GetIn("b", "k"), "3");
}

// A flush and a compaction of a family end after its drop.
TEST_F(DbFamiliesDropTest, JobsThatEndAfterTheDropInstallNothing) {
  HookEnv env(kCreateOperation);
  for (const bool compacts : {false, true}) {
    for (const bool atomic : {false, true}) {
      SCOPED_TRACE(compacts ? "compaction" : "flush");
      ReleaseHandles();
      db_.reset();
      std::filesystem::remove_all(path_);
      options_.env = &env;
      options_.atomic_flush = atomic;
      options_.disable_auto_compactions = true;
      family_options_.clear();
      OpenNew({"a", "b"});
      PutIn("b", "k", "v");
      for (int i = 0; i < (compacts ? 2 : 0); ++i) {
        PutIn("a", "k", "v");
        PutIn("a", "z", "v");
        FlushOne("a");
      }
      if (!compacts) PutIn("a", "k", "v");
      std::atomic<bool> waits{false}, drops{true};
      env.hook = [&](const std::string& path) {
        if (path.ends_with(".sst")) {
          waits = true;
          while (drops) std::this_thread::yield();
        }
        return Status::OK();
      };
      Status job_status;
      std::thread job([&] {
        job_status = compacts ? db_->CompactRange({}, At("a"), nullptr, nullptr)
                              : db_->Flush({}, At("a"));
      });
      while (!waits) std::this_thread::yield();
      DropOne("a");
      drops = false;
      job.join();
      EXPECT_TRUE(job_status.ok() || job_status.IsInvalidArgument() ||
                  job_status.IsShutdownInProgress())
          << job_status.ToString();
      EXPECT_EQ(GetIn("a", "k"), "v");
      Release("a");
      AwaitRemovals();
      PutIn("b", "l", "w");
      ASSERT_TRUE(Ok(db_->Flush({}, At("b"))));
      AwaitRemovals();
      // Of "b". Flushed together with "a", its first update has one of its own.
      EXPECT_EQ(TableFiles().size(), atomic ? 2u : 1u);
      ReopenAsKilled();
      EXPECT_EQ(GetIn("b", "k"), "v");
      EXPECT_EQ(GetIn("b", "l"), "w");
      EXPECT_EQ(handles_.size(), 2u);
      EXPECT_TRUE(Ok(db_->VerifyChecksum()));
      ReleaseHandles();
      db_.reset();
      env.hook = nullptr;  // The job may have outlived the call.
    }
  }
}

// A writer waits for a flush of the family, which the drop makes impossible.
TEST_F(DbFamiliesDropTest, AWriterThatWaitsForTheFamilyIsRefusedByTheDrop) {
  for (const bool in_batch : {false, true}) {
    SCOPED_TRACE(in_batch);
    PausingEnv env;
    options_.env = &env;
    path_ = dir_.Sub(in_batch ? "batch" : "single");
    OpenNew({"a", "b"});
    env.KeepBack(Env::Priority::kHigh);
    Status s;
    std::thread writer([&] {
      for (int i = 0; s.ok() && i < 100000; ++i) {
        WriteBatch batch;
        batch.Put(At("a"), Key(i), std::string(1000, 'v'));
        batch.Put(At("b"), Key(i), "v");
        s = in_batch ? db_->Write({}, &batch)
                     : db_->Put({}, At("a"), Key(i), std::string(1000, 'v'));
      }
    });
    uint64_t stopped = 0;
    while (stopped == 0) {
      ASSERT_TRUE(
          db_->GetIntProperty(At("a"), "varve.is-write-stopped", &stopped));
      std::this_thread::yield();
    }
    DropOne("a");
    writer.join();
    ExpectRefused(s);
    env.LetGo();
    PutIn("b", "after", "it");
    ReleaseHandles();
    db_.reset();
  }
}

// On a device that is full of a family, the family can be dropped. That takes
// no further space.
TEST_F(DbFamiliesDropTest, DropFreesTheSpaceOfAFullDevice) {
  SmallDeviceEnv env(Env::Default(), 2 << 20);
  options_.env = &env;
  options_.compression = CompressionType::kNone;
  OpenNew({"large", "b"});
  PutIn("b", "k", "before");
  Rng rng(TestSeed());
  uint64_t is_read_only = 0;
  for (int i = 0; is_read_only == 0 && i < 100000; ++i) {
    db_->Put({}, At("large"), Key(i), rng.Bytes(1000))
        .IgnoreError();  // It fails when the device is full.
    ASSERT_TRUE(db_->GetIntProperty("varve.is-read-only", &is_read_only));
  }
  env.SetCapacity(env.UsedBytes());
  EXPECT_TRUE(db_->Put({}, At("b"), "k", "refused").IsNoSpace());
  const uint64_t used = env.UsedBytes();
  DropOne("large");
  Release("large");
  // Nobody calls Resume.
  Status s;
  for (int i = 0; i < 1000; ++i) {
    s = db_->Put({}, At("b"), "k", "after");
    if (s.ok()) break;
    ASSERT_TRUE(IsNoSpace(s));
    env.SleepForMicroseconds(10000);
  }
  ASSERT_TRUE(Ok(s));
  // The first removed file may have been enough for that.
  AwaitRemovals();
  EXPECT_LT(env.UsedBytes(), used / 4);
  ReopenAll();
  EXPECT_EQ(handles_.size(), 2u);
  EXPECT_EQ(GetIn("b", "k"), "after");
  ReleaseHandles();
  db_.reset();
}

// Handles that are left when the DB is closed or destroyed can be released, and
// show nothing, be their families dropped or not.
TEST_F(DbFamiliesDropTest, HandlesOutliveTheDb) {
  OpenNew({"a", "dropped"});
  PutIn("a", "k", "v");
  PutIn("dropped", "k", "v");
  FlushOne("dropped");
  DropOne("dropped");
  ASSERT_TRUE(Ok(db_->Close()));
  for (const auto& [name, handle] : handles_) {
    SCOPED_TRACE(name);
    EXPECT_EQ(handle->GetName(), name);
    std::string value;
    EXPECT_TRUE(IsShutdownInProgress(db_->Get({}, handle, "k", &value)));
    EXPECT_EQ(value, "");
    std::vector<std::string> values;
    for (const Status& each :
         db_->MultiGet({}, {handle, handle}, {"k", "l"}, &values)) {
      EXPECT_TRUE(IsShutdownInProgress(each));
    }
    const auto iterator = db_->NewIterator({}, handle);
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsShutdownInProgress());
    std::vector<std::unique_ptr<Iterator>> iterators;
    EXPECT_TRUE(
        db_->NewIterators({}, {handle}, &iterators).IsShutdownInProgress());
    EXPECT_FALSE(db_->Put({}, handle, "k", "v").ok());
    EXPECT_FALSE(db_->Flush({}, handle).ok());
    EXPECT_FALSE(db_->CompactRange({}, handle, nullptr, nullptr).ok());
    EXPECT_FALSE(db_->DropColumnFamily(handle).ok());
    EXPECT_FALSE(db_->SetOptions(handle, {{"write_buffer_size", "1M"}}).ok());
    uint64_t number = 0;
    EXPECT_FALSE(
        db_->GetIntProperty(handle, "varve.estimate-num-keys", &number));
  }
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_TRUE(
      db_->CreateColumnFamily(options_, "new", &handle).IsShutdownInProgress());
  // One is released between, the others after.
  Release("a");
  db_.reset();
  for (const auto& [name, left] : handles_) {
    EXPECT_EQ(left->GetName(), name);
    ColumnFamilyDescriptor descriptor;
    EXPECT_TRUE(left->GetDescriptor(&descriptor).IsShutdownInProgress());
  }
  ReleaseHandles();
  OpenAll();
  EXPECT_EQ(GetIn("a", "k"), "v");
  EXPECT_EQ(handles_.size(), 2u);
  AwaitRemovals();
  // Of the family that had a handle until the end.
  EXPECT_LE(TableFiles().size(), 1u);
}

TEST_F(DbFamiliesDropTest, HandlesInAForkedChildMayGoInAnyOrder) {
  OpenNew({"a", "dropped"});
  PutIn("a", "k", "v");
  PutIn("dropped", "k", "v");
  DropOne("dropped");
  for (const bool db_first : {true, false}) {
    SCOPED_TRACE(db_first);
    EXPECT_EQ(RunForked([&] {
                if (GetIn("a", "k") != "v" || GetIn("dropped", "k") != "v") {
                  return 1;
                }
                if (db_->Put({}, At("a"), "k", "child").ok()) return 2;
                if (db_->DropColumnFamily(At("a")).ok()) return 3;
                if (db_first) db_.reset();
                ReleaseHandles();
                db_.reset();
                return 0;
              }),
              0);
  }
  EXPECT_EQ(GetIn("a", "k"), "v");
  PutIn("a", "k", "w");
  ReopenAll();
  EXPECT_EQ(GetIn("a", "k"), "w");
}

TEST_F(DbFamiliesDropTest, CloseCountsIteratorsOfDroppedFamilies) {
  OpenNew({"a"});
  PutIn("a", "k", "v");
  auto iterator = db_->NewIterator({}, At("a"));
  DropOne("a");
  Release("a");
  EXPECT_TRUE(db_->Close().IsBusy());
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  iterator.reset();
  Close();
  OpenAll();
  EXPECT_EQ(handles_.size(), 1u);
}

// A checkpoint has all families, and none that was dropped.
TEST_F(DbFamiliesDropTest, CheckpointsHoldTheLiveFamilies) {
  OpenNew({"a", "b", "dropped"});
  WriteOptions unlogged{.disable_wal = true};
  for (const std::string name : {"a", "b", "dropped", "default"}) {
    ASSERT_TRUE(Ok(db_->Put(unlogged, At(name), "unlogged", name)));
    PutIn(name, "k", name);
  }
  FlushOne("b");
  PutIn("b", "k", "later");
  DropOne("dropped");
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(copy)));
  PutIn("a", "k", "not in the copy");
  EXPECT_EQ(GetIn("dropped", "k"), "dropped");
  Close();
  path_ = copy;
  OpenAll();
  EXPECT_EQ(handles_.size(), 3u);
  EXPECT_TRUE(
      FamilyHasEntries(db_.get(), At("a"), {{"k", "a"}, {"unlogged", "a"}}));
  EXPECT_TRUE(FamilyHasEntries(db_.get(), At("b"),
                               {{"k", "later"}, {"unlogged", "b"}}));
  EXPECT_TRUE(
      HasEntries(db_.get(), {{"k", "default"}, {"unlogged", "default"}}));
}

}  // namespace
}  // namespace varve::test
