// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: families share the logs, and each gets back what is its own: no log
// goes that a family needs, none stays for an idle family, and no family waits
// for another's flush. Method: kills and power cuts after flushes of some
// families; many families of which one is idle; a family whose flush does not
// end.

#include "test/testing/db/families_fixture.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/env/small_device_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbFamiliesLogsTest : public FamiliesTest {
 protected:
  uint64_t LogBytes() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const std::string& path : LogFiles()) {
      const uint64_t size = std::filesystem::file_size(path, error);
      if (!error) bytes += size;
    }
    return bytes;
  }
  WriteOptions Unlogged() const {
    WriteOptions options{.disable_wal = true};
    return options;
  }

  Gate syncs_;
  HookEnv env_{kSyncOperation, "MANIFEST-"};
};

// Each family's flush moves its own log number, and nobody else's.
TEST_F(DbFamiliesLogsTest, KillAfterFlushesOfSomeLosesNothing) {
  Rng rng(TestSeed());
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    ReleaseHandles();
    db_.reset();
    std::filesystem::remove_all(path_);
    options_.atomic_flush = rng.OneIn(4);
    const std::vector<std::string> names = {"default", "a", "b", "c"};
    OpenNew({"a", "b", "c"});
    std::map<std::string, Entries> models;
    for (int i = 0; i < 60; ++i) {
      const std::string name = names[rng.Below(4)];
      const std::string key = Key(rng.Between(0, 9));
      if (rng.OneIn(3)) {
        WriteBatch batch;
        for (const std::string& each : names) {
          batch.Put(At(each), key, std::to_string(i));
          models[each][key] = std::to_string(i);
        }
        ASSERT_TRUE(Ok(db_->Write({}, &batch)));
      } else {
        PutIn(name, key, std::to_string(i));
        models[name][key] = std::to_string(i);
      }
      if (rng.OneIn(4)) FlushOne(names[rng.Below(4)]);
      if (rng.OneIn(20)) {
        ReopenAsKilled();
        if (HasFatalFailure()) return;
      }
    }
    ReopenAsKilled();
    if (HasFatalFailure()) return;
    for (const std::string& name : names) {
      EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), ToList(models[name])))
          << name;
    }
    if (HasFailure()) return;
  }
}

// Recovery takes only what a family has not yet got in tables: an old update
// would hide a newer deletion, or bring back what a compaction dropped.
TEST_F(DbFamiliesLogsTest, UpdatesInTablesAreNotReplayed) {
  OpenNew({"a", "b"});
  PutIn("b", "holds the log", "1");
  PutIn("a", "k", "old");
  FlushOne("a");
  ASSERT_TRUE(Ok(db_->Delete({}, At("a"), "k")));
  FlushOne("a");
  ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true}, At("a"),
                                   nullptr, nullptr)));
  ASSERT_EQ(NumberIn("a", "varve.total-sst-files-size"), 0u);
  ReopenAsKilled();
  EXPECT_EQ(GetIn("a", "k"), "NotFound");
  EXPECT_EQ(GetIn("b", "holds the log"), "1");
}

// An empty family's log number moves on in memory only. The logs go by what the
// MANIFEST says.
TEST_F(DbFamiliesLogsTest, LogsGoByTheManifest) {
  OpenNew({"a", "b"});
  Put("k", "1");
  PutIn("a", "k", "1");
  // All but the default family are empty from here on; its log is the first.
  FlushOne("a");
  PutIn("b", "k", "1");
  FlushOne("b");
  ASSERT_TRUE(Ok(db_->Flush({})));
  AwaitRemovals();
  // Every log that a fresh reader of the MANIFEST asks for is there.
  ReopenAsKilled();
  EXPECT_EQ(Get("k"), "1");
  EXPECT_EQ(GetIn("a", "k"), "1");
  EXPECT_EQ(GetIn("b", "k"), "1");
  Close();
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  OpenAll();
  // The same with an empty family that is switched along, and a kill at once.
  for (int i = 0; i < 5; ++i) {
    PutIn(i % 2 == 0 ? "a" : "b", Key(i), "2");
    FlushOne(i % 2 == 0 ? "a" : "b");
    ReopenAsKilled();
    if (HasFatalFailure()) return;
    EXPECT_EQ(GetIn(i % 2 == 0 ? "a" : "b", Key(i)), "2");
  }
}

// The log is replaced while the edit of the last flush is being written, which
// says that this log is needed. No edit says more, so the log stays.
TEST_F(DbFamiliesLogsTest, ALogThatTheNewestEditNamesStays) {
  options_.env = &env_;
  options_.write_buffer_size = 64 << 10;
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  OpenNew({"a"});
  PutIn("a", "k", "1");
  env_.hook = [this](const std::string&) { return syncs_.Pass(); };
  syncs_.Close();
  ASSERT_TRUE(Ok(db_->Flush({.wait = false}, At("a"))));
  syncs_.AwaitWaiting();
  WriteBatch note;
  note.PutLogData(std::string(100000, 'n'));
  const std::vector<std::string> logs = LogFiles();
  for (int i = 0; i < 100 && LogFiles() == logs; ++i) {
    ASSERT_TRUE(Ok(db_->Write({}, &note)));
  }
  EXPECT_NE(LogFiles(), logs);
  syncs_.Open();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  ReopenAsKilled();
  if (HasFatalFailure()) return;
  EXPECT_EQ(GetIn("a", "k"), "1");
}

// A family's last update may be in no log, while another's are in the log only.
TEST_F(DbFamiliesLogsTest, UnloggedUpdatesBesideLoggedOnesAreNoLoss) {
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  OpenNew({"logged", "unlogged"});
  PutIn("logged", "k", "1");
  ASSERT_TRUE(Ok(db_->Put(Unlogged(), At("unlogged"), "k", "2")));
  FlushOne("unlogged");
  ReopenAll();
  if (HasFatalFailure()) return;
  EXPECT_EQ(GetIn("logged", "k"), "1");
  EXPECT_EQ(GetIn("unlogged", "k"), "2");
  EXPECT_EQ(ReadWholeFile(path_ + "/LOG").find("may be lost"),
            std::string::npos);
}

TEST_F(DbFamiliesLogsTest, IdleFamilyDoesNotHoldTheLogs) {
  std::vector<std::string> names = {"idle"};
  for (int i = 0; i < 15; ++i) names.push_back("busy" + std::to_string(i));
  for (const uint64_t bound : {uint64_t{0}, uint64_t{300} << 10}) {
    SCOPED_TRACE(bound);
    ReleaseHandles();
    db_.reset();
    std::filesystem::remove_all(path_);
    options_.max_total_wal_size = bound;
    options_.wal_write = WriteMethod::kCall;
    OpenNew(names);
    PutIn("idle", "k", "v");
    EXPECT_TRUE(Contains(Text("varve.oldest-log"), "needed by idle"))
        << Text("varve.oldest-log");
    // The sum of the write buffers of all families.
    const uint64_t allowed = bound != 0 ? bound : 17 * (64 << 10);
    EXPECT_TRUE(
        Contains(Text("varve.oldest-log"), "bound " + std::to_string(allowed)))
        << Text("varve.oldest-log");
    uint64_t most = 0;
    for (int i = 0; i < 8000; ++i) {
      PutIn(names[1 + static_cast<size_t>(i) % 15], Key(i),
            std::string(400, 'x'));
      if (i % 20 == 0) most = std::max(most, LogBytes());
    }
    // A log ends after the group of writes that fills it.
    EXPECT_LE(most, allowed + (32 << 10));
    printf("bound %llu: at most %llu bytes in logs\n",
           static_cast<unsigned long long>(allowed),
           static_cast<unsigned long long>(most));
    EXPECT_EQ(NumberIn("idle", "varve.num-entries-active-mem-table"), 0u);
    EXPECT_FALSE(Contains(Text("varve.oldest-log"), "needed by idle"));
    EXPECT_NE(
        ReadWholeFile(path_ + "/LOG").find("[idle] is flushed: it needs log"),
        std::string::npos);
    ReopenAsKilled();
    EXPECT_EQ(GetIn("idle", "k"), "v");
    for (int i = 0; i < 8000; i += 97) {
      EXPECT_EQ(GetIn(names[1 + static_cast<size_t>(i) % 15], Key(i)),
                std::string(400, 'x'));
    }
  }
}

TEST_F(DbFamiliesLogsTest, StallOfOneFamilyStopsNoOther) {
  HookEnv env(kCreateOperation);
  options_.env = &env;
  std::atomic<bool> holds{false};
  std::atomic<int> held{0};
  env.hook = [&](const std::string& path) {
    if (path.ends_with(".sst") && holds.exchange(false)) {
      ++held;
      while (held > 0) std::this_thread::yield();
    }
    return Status::OK();
  };
  options_.max_background_jobs = 16;  // Several flushes at a time.
  // Otherwise the logs that the stuck flush keeps stop all writers.
  options_.max_total_wal_size = 1 << 30;
  OpenNew({"stuck", "free"});
  holds = true;
  WriteOptions impatient{.no_slowdown = true};
  Status s;
  int written = 0;
  while (s.ok() && written < 20000) {
    s = db_->Put(impatient, At("stuck"), Key(written++), std::string(100, 'x'));
  }
  EXPECT_TRUE(IsIncomplete(s));
  for (int i = 0; i < 10000 && held == 0; ++i) {
    Env::Default()->SleepForMicroseconds(1000);
  }
  ASSERT_EQ(held, 1);
  EXPECT_EQ(NumberIn("stuck", "varve.is-write-stopped"), 1u);
  EXPECT_EQ(NumberIn("free", "varve.is-write-stopped"), 0u);
  // Many times its buffer, alone and in batches with the default family.
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    WriteBatch batch;
    batch.Put(At("free"), Key(i), std::string(100, 'x'));
    batch.Put(Key(i), std::string(100, 'x'));
    s = db_->Write({}, &batch);
    EXPECT_TRUE(Ok(s)) << i;
  }
  // A batch that touches the stuck one waits with it.
  WriteBatch batch;
  batch.Put(At("free"), "f", "1");
  batch.Put(At("stuck"), "s", "1");
  s = db_->Write(impatient, &batch);
  EXPECT_TRUE(IsIncomplete(s));
  EXPECT_EQ(GetIn("free", "f"), "NotFound");
  held = 0;
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(GetIn("stuck", "s"), "1");
  EXPECT_EQ(GetIn("stuck", Key(written - 2)), std::string(100, 'x'));
  ReleaseHandles();
  db_.reset();
}

// With atomic_flush and without logs, a power cut leaves one moment.
TEST_F(DbFamiliesLogsTest, AtomicFlushKeepsFamiliesAtOneMoment) {
  const uint64_t first_seed = TestSeed();
  int kept = 0;
  for (int cut = 0; cut < 40; ++cut) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(cut);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    Rng rng(seed);
    const auto memory = NewMemoryEnv(Env::Default());
    FaultInjectionEnv faulty(memory.get());
    ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
    path_ = "/db/it";
    options_.env = &faulty;
    options_.atomic_flush = true;
    OpenNew({"a", "b", "c"});
    if (HasFatalFailure()) return;
    faulty.FailAfter(rng.Below(120), FaultInjectionEnv::InjectedError(),
                     kAllOperations & ~kReadingOperations, {.once = false});
    for (int i = 1; i < 2000; ++i) {
      WriteBatch batch;
      for (const auto& [name, handle] : handles_) {
        batch.Put(handle, "last", std::to_string(i));
        batch.Put(handle, Key(i % 50), std::string(300, 'x'));
      }
      if (!db_->Write(Unlogged(), &batch).ok()) break;
      if (rng.OneIn(100)) {
        db_->Flush({}, handles_.begin()->second).IgnoreError();
      }
    }
    ReleaseHandles();
    faulty.SetFilesystemActive(false);
    db_.reset();
    ASSERT_TRUE(Ok(faulty.CrashAndReset({.seed = seed})));
    OpenAll();
    if (HasFatalFailure()) return;
    ASSERT_EQ(handles_.size(), 4u);
    const std::string last = Get("last");
    for (const auto& [name, handle] : handles_) {
      EXPECT_EQ(GetIn(name, "last"), last) << name;
    }
    if (last != "NotFound") ++kept;
    ReleaseHandles();
    db_.reset();
    if (HasFailure()) return;
  }
  EXPECT_GT(kept, 0);
}

// A group of edits whose last one is missing is none, wherever the MANIFEST
// ends in it, and whether or not at a record's end.
TEST_F(DbFamiliesLogsTest, IncompleteGroupOfEditsIsIgnored) {
  options_.atomic_flush = true;
  OpenNew({"a", "b"});
  for (const std::string name : {"default", "a", "b"}) PutIn(name, "k", "1");
  FlushOne("a");
  const std::string manifest = FilesStartingWith(path_, "MANIFEST").back();
  const size_t before = ReadWholeFile(manifest).size();
  for (const std::string name : {"default", "a", "b"}) PutIn(name, "k", "2");
  // The logs as they are now, and what the flush adds.
  const std::string copy = dir_.Sub("copy");
  CopyDirectory(path_, copy);
  FlushOne("b");
  const std::string whole = ReadWholeFile(manifest);
  ASSERT_GT(whole.size(), before);
  ReleaseHandles();
  db_.reset();
  int opened = 0;
  for (size_t size = before; size < whole.size(); size += 7) {
    SCOPED_TRACE(size);
    CopyDirectory(copy, path_);
    WriteWholeFile(manifest, whole.substr(0, size));
    OpenAll();
    if (HasFatalFailure()) return;
    for (const std::string name : {"default", "a", "b"}) {
      EXPECT_EQ(GetIn(name, "k"), "2");
      // From the log: no table of the group was taken over.
      EXPECT_EQ(NumberIn(name, "varve.estimate-num-keys"), 2u) << name;
    }
    if (HasFailure()) return;
    ++opened;
    ReleaseHandles();
    db_.reset();
  }
  EXPECT_GT(opened, 20);
}

// Log data is in no memtable. The logs that have nothing else are freed by a
// flush of an empty memtable, of one family or atomically of all.
TEST_F(DbFamiliesLogsTest, LogDataAloneKeepsNoLogs) {
  for (const bool has_others : {false, true}) {
    for (const bool atomic : {false, true}) {
      SCOPED_TRACE(std::string(has_others ? "families" : "one family") +
                   (atomic ? ", atomic" : ""));
      ReleaseHandles();
      db_.reset();
      std::filesystem::remove_all(path_);
      options_.atomic_flush = atomic;
      OpenNew(has_others ? std::vector<std::string>{"a", "b"}
                         : std::vector<std::string>{});
      WriteBatch batch;
      batch.PutLogData(std::string(10000, 'n'));
      for (int i = 0; i < 400; ++i) {
        ASSERT_TRUE(Ok(db_->Write({}, &batch)));
        // A log that gets full during a flush is freed by the next one.
        AwaitRemovals();
      }
      EXPECT_LE(LogFiles().size(), 2u);
      if (!has_others) {
        ASSERT_TRUE(Ok(db_->Flush({})));
        AwaitRemovals();
        EXPECT_EQ(LogFiles().size(), 1u);
      }
    }
  }
}

// A full device: deletions are taken in all families, and everything goes on
// when there is space.
TEST_F(DbFamiliesLogsTest, FullDeviceLosesNothingInAnyFamily) {
  SmallDeviceEnv env(Env::Default(), 400 << 10);
  options_.env = &env;
  options_.compression = CompressionType::kNone;
  OpenNew({"a", "b"});
  Rng rng(TestSeed());
  std::map<std::string, Entries> models;
  Status s;
  for (int i = 0; i < 20000 && s.ok(); ++i) {
    const std::string name = rng.Pick({"a", "b", "default"});
    const std::string value = rng.Bytes(100);
    s = db_->Put({}, At(name), Key(i), value);
    if (s.ok()) models[name][Key(i)] = value;
  }
  ASSERT_TRUE(IsNoSpace(s));
  for (const std::string name : {"a", "b", "default"}) {
    const std::string key = models[name].begin()->first;
    ASSERT_TRUE(Ok(db_->Delete({}, At(name), key))) << name;
    models[name].erase(key);
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), ToList(models[name])));
  }
  env.SetCapacity(100 << 20);
  ASSERT_TRUE(Ok(db_->Resume()));
  PutIn("a", "after", "1");
  models["a"]["after"] = "1";
  ReopenAll();
  for (const std::string name : {"a", "b", "default"}) {
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At(name), ToList(models[name])));
  }
  ReleaseHandles();
  db_.reset();
}

}  // namespace
}  // namespace varve::test
