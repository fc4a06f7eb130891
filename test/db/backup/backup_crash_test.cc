// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: wherever the power fails, or a call of the Env, earlier backups stay
// whole, a backup that was being created or deleted is complete or invisible,
// and a restored database is the old one, the new one, or none. Nothing that
// nobody needs is left after a garbage collection. Method: each operation is
// repeated with a failure, or the end of all calls and a power cut, at each of
// its calls.

#include "test/testing/db/backup_fixture.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr char kBackups[] = "/backups";
constexpr char kRestored[] = "/restored";

enum class Fault { kPowerCut, kPowerCutLosesAll, kOneCall };

class BackupCrashTest : public ::testing::TestWithParam<Fault> {
 protected:
  BackupCrashTest()
      : memory_(NewMemoryEnv(Env::Default())),
        faults_(memory_.get()),
        source_env_(NewMemoryEnv(Env::Default())),
        backup_options_(kBackups, &faults_) {
    options_ = TinyOptions();
    options_.env = source_env_.get();
    options_.disable_auto_compactions = true;
    backup_options_.max_background_operations = 1;
  }

  void SetUp() override {
    ASSERT_TRUE(Ok(DB::Open(options_, "/db", &db_)));
    ASSERT_TRUE(Ok(db_->Put({}, "a", Noise(500))));
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_TRUE(Ok(OpenEngine()));
    ASSERT_TRUE(Ok(Create()));
    ASSERT_TRUE(Ok(db_->Put({}, "b", Noise(500))));
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_TRUE(Ok(Create()));
    ASSERT_TRUE(Ok(db_->Put({}, "c", "1")));
  }
  void TearDown() override {
    engine_.reset();
    db_.reset();
  }

  Status OpenEngine() {
    engine_.reset();
    return BackupEngine::Open(backup_options_, &faults_, &engine_);
  }
  Status Create() {
    BackupID id = 0;
    Status status = engine_->CreateNewBackup({}, db_.get(), &id);
    if (status.ok()) states_[id] = Contents(db_.get());
    return status;
  }
  // Keeps the numbers of tables and calls small.
  void WriteNewTable() {
    ASSERT_TRUE(Ok(db_->Put({}, "d", Noise(100))));
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                     nullptr, nullptr)));
  }
  static EntryList Contents(DB* db) {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db, {}, &entries)));
    return entries;
  }
  Status Restore(BackupID id) {
    return engine_->RestoreDBFromBackup({}, id, kRestored, kRestored);
  }
  // Returns the entries of the restored database in *entries.
  Status OpenRestored(EntryList* entries) {
    Options options = options_;
    options.env = &faults_;
    options.create_if_missing = false;
    std::unique_ptr<DB> db;
    Status status = DB::Open(options, kRestored, &db);
    if (status.ok()) *entries = Contents(db.get());
    return status;
  }

  // Runs `operation` with a fault at its call `index`. Returns whether there
  // was one; the operation's status is in *status.
  template <typename Operation>
  bool RunWithFault(uint64_t index, Operation operation, Status* status) {
    FailureOptions failure;
    failure.once = GetParam() == Fault::kOneCall;
    faults_.FailAfter(index, FaultInjectionEnv::InjectedError(), kAllOperations,
                      failure);
    const uint64_t before = faults_.FailureCount();
    *status = operation();
    const bool was_hit = faults_.FailureCount() > before;
    faults_.ClearFailure();
    if (GetParam() == Fault::kOneCall) return was_hit;
    faults_.SetFilesystemActive(false);
    engine_.reset();
    CrashOptions crash;
    crash.seed = index;
    crash.lose_everything_unsynced = GetParam() == Fault::kPowerCutLosesAll;
    EXPECT_TRUE(Ok(faults_.CrashAndReset(crash)));
    EXPECT_TRUE(Ok(OpenEngine()));
    return was_hit;
  }

  // Checks all backups, of which `may_be_gone` may be missing.
  void ExpectWhole(BackupID may_be_gone) {
    std::vector<BackupID> corrupt;
    engine_->GetCorruptedBackups(&corrupt);
    EXPECT_TRUE(corrupt.empty()) << corrupt[0];
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    std::set<BackupID> found;
    for (const BackupInfo& info : infos) {
      found.insert(info.backup_id);
      EXPECT_TRUE(Ok(engine_->VerifyBackup(info.backup_id, true)));
    }
    for (const auto& [id, state] : states_) {
      if (id == may_be_gone) continue;
      EXPECT_TRUE(found.contains(id)) << id;
      EntryList entries;
      ASSERT_TRUE(Ok(Restore(id)));
      ASSERT_TRUE(Ok(OpenRestored(&entries)));
      EXPECT_TRUE(SameEntries(state, entries)) << id;
    }
  }

  // Checks that all files belong to backups, but the file that is locked.
  void ExpectNoGarbage() {
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos, true);
    std::set<std::string> needed = {"meta/LOCK"};
    for (const BackupInfo& info : infos) {
      needed.insert("meta/" + std::to_string(info.backup_id));
      for (const BackupFileInfo& file : info.file_details) {
        needed.insert(file.relative_filename);
      }
    }
    std::set<std::string> found;
    for (const char* const folder : {"meta", "shared_checksum"}) {
      List(folder, &found);
    }
    std::vector<std::string> privates;
    EXPECT_TRUE(
        Ok(faults_.GetChildren(std::string(kBackups) + "/private", &privates)));
    EXPECT_EQ(privates.size(), infos.size());
    for (const std::string& name : privates) List("private/" + name, &found);
    EXPECT_EQ(found, needed);
  }
  void List(const std::string& folder, std::set<std::string>* found) {
    std::vector<std::string> names;
    EXPECT_TRUE(
        Ok(faults_.GetChildren(std::string(kBackups) + "/" + folder, &names)));
    for (const std::string& name : names) found->insert(folder + "/" + name);
  }

  std::unique_ptr<Env> memory_;
  FaultInjectionEnv faults_;
  std::unique_ptr<Env> source_env_;
  Options options_;
  BackupEngineOptions backup_options_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<BackupEngine> engine_;
  std::map<BackupID, EntryList> states_;
};

TEST_P(BackupCrashTest, CreationIsCompleteOrInvisible) {
  bool was_hit = true;
  for (uint64_t i = 0; was_hit && !HasFailure(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    WriteNewTable();
    const size_t before = states_.size();
    Status status;
    was_hit = RunWithFault(
        i, [&] { return Create(); }, &status);
    ASSERT_NE(engine_, nullptr);
    // A backup is there if the call returned OK.
    ExpectWhole(0);
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    EXPECT_LE(infos.size(), before + 1);
    if (GetParam() == Fault::kOneCall && !status.ok()) {
      EXPECT_EQ(infos.size(), before);
    }
    ASSERT_TRUE(Ok(engine_->GarbageCollect()));
    ExpectNoGarbage();
    while (infos.size() > 2) {
      ASSERT_TRUE(Ok(engine_->DeleteBackup(infos.back().backup_id)));
      states_.erase(infos.back().backup_id);
      infos.pop_back();
    }
  }
  EXPECT_TRUE(Ok(Create()));
  ExpectWhole(0);
}

TEST_P(BackupCrashTest, DeletionIsCompleteOrNot) {
  bool was_hit = true;
  for (uint64_t i = 0; was_hit && !HasFailure(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    const BackupID oldest = states_.begin()->first;
    Status status;
    was_hit = RunWithFault(
        i, [&] { return engine_->PurgeOldBackups(1); }, &status);
    ASSERT_NE(engine_, nullptr);
    ExpectWhole(oldest);
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    const bool is_gone = infos[0].backup_id != oldest;
    EXPECT_TRUE(is_gone || !status.ok());
    ASSERT_TRUE(Ok(engine_->GarbageCollect()));
    ExpectNoGarbage();
    if (is_gone) {
      states_.erase(oldest);
      WriteNewTable();
      ASSERT_TRUE(Ok(Create()));
    }
  }
}

TEST_P(BackupCrashTest, RestoredDatabaseIsOldOrNewOrNone) {
  ASSERT_TRUE(Ok(Create()));
  bool was_hit = true;
  for (uint64_t i = 0; was_hit && !HasFailure(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    ASSERT_TRUE(Ok(Restore(1)));
    EntryList entries;
    ASSERT_TRUE(Ok(OpenRestored(&entries)));
    Status status;
    was_hit = RunWithFault(
        i, [&] { return Restore(3); }, &status);
    ASSERT_NE(engine_, nullptr);
    const Status opened = OpenRestored(&entries);
    if (status.ok()) {
      ASSERT_TRUE(Ok(opened));
      EXPECT_TRUE(SameEntries(states_[3], entries));
    } else if (opened.ok()) {
      EXPECT_TRUE(entries == states_[1] || entries == states_[3]);
    } else {
      EXPECT_TRUE(
          IsNotFound(faults_.FileExists(std::string(kRestored) + "/CURRENT")));
    }
  }
  ExpectWhole(0);
}

// The newest table is in the backup directory, but in no backup.
TEST_P(BackupCrashTest, ContinuationIsCompleteOrInvisible) {
  bool was_hit = true;
  for (uint64_t i = 0; was_hit && !HasFailure(); ++i) {
    SCOPED_TRACE("call " + std::to_string(i));
    WriteNewTable();
    backup_options_.callback_trigger_interval_size = 1;
    ASSERT_TRUE(Ok(OpenEngine()));
    CreateBackupOptions options;
    int calls = 0;
    // The last calls are for the tables.
    options.progress_callback = [&] {
      if (++calls > 3000) engine_->StopBackup();
    };
    engine_->CreateNewBackup(options, db_.get()).IgnoreError();
    ASSERT_TRUE(Ok(OpenEngine()));
    Status status;
    was_hit = RunWithFault(
        i, [&] { return Create(); }, &status);
    ASSERT_NE(engine_, nullptr);
    ExpectWhole(0);
    ASSERT_TRUE(Ok(engine_->PurgeOldBackups(2)));
    while (states_.size() > 2) states_.erase(states_.begin());
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    std::erase_if(states_, [&](const auto& state) {
      return state.first < infos[0].backup_id;
    });
  }
}

std::string NameOf(const ::testing::TestParamInfo<Fault>& parameter) {
  switch (parameter.param) {
    case Fault::kPowerCut:
      return "PowerCut";
    case Fault::kPowerCutLosesAll:
      return "PowerCutLosesAll";
    case Fault::kOneCall:
      return "OneCall";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, BackupCrashTest,
                         ::testing::Values(Fault::kPowerCut,
                                           Fault::kPowerCutLosesAll,
                                           Fault::kOneCall),
                         NameOf);

// Nothing can be written any more, from any write on, but files can be removed.
class BackupFullDeviceTest : public BackupCrashTest {};

TEST_P(BackupFullDeviceTest, LeavesNothingBehind) {
  constexpr OperationMask kWriting =
      kCreateOperation | kWriteOperation | kSyncOperation | kCloseOperation;
  bool was_hit = true;
  for (uint64_t i = 0; was_hit && !HasFailure(); ++i) {
    SCOPED_TRACE("write " + std::to_string(i));
    WriteNewTable();
    FailureOptions failure;
    failure.once = false;
    failure.partial_append = true;
    faults_.FailAfter(i, Status::FromErrno("write", ENOSPC), kWriting, failure);
    Status status = Create();
    was_hit = !status.ok();
    EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
    faults_.ClearFailure();
    ExpectNoGarbage();
    ExpectWhole(0);
  }
  EXPECT_TRUE(Ok(Create()));
}

INSTANTIATE_TEST_SUITE_P(All, BackupFullDeviceTest,
                         ::testing::Values(Fault::kOneCall));

}  // namespace
}  // namespace varve::test
