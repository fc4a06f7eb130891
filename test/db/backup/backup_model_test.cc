// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: variants
//
// Goal: after any sequence of writes, backups, deletions, restores, also over
// the database itself, and damage to any file, each backup restores to the
// contents at its time, or its damage is found. Method: random steps beside a
// model of the contents and of the damaged files. TEST_SEED repeats a run, and
// VARVE_BACKUP_STEPS sets the number of steps.

#include "test/testing/db/backup_fixture.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class BackupModelTest : public BackupTestBase {
 protected:
  BackupModelTest() : rng_(TestSeed()) {
    options_.disable_auto_compactions = false;
  }

  void Writes() {
    const int count = rng_.Between(1, 300);
    for (int i = 0; i < count; ++i) {
      const std::string key = Key(static_cast<int>(rng_.Below(500)));
      if (rng_.OneIn(5)) {
        Delete(key);
      } else {
        Put(key, rng_.Bytes(rng_.Below(400)));
      }
    }
    if (rng_.OneIn(3)) Flush();
    if (rng_.OneIn(8)) CompactAll();
    if (rng_.OneIn(8)) Reopen();
  }

  void RandomEngine() {
    using Naming = BackupEngineOptions::ShareFilesNaming;
    backup_options_.schema_version = rng_.Between(1, 2);
    backup_options_.max_background_operations = rng_.Between(1, 3);
    backup_options_.sync = rng_.OneIn(3);
    backup_options_.share_table_files = !rng_.OneIn(8);
    backup_options_.share_files_with_checksum_naming = static_cast<Naming>(
        rng_.Pick<uint32_t>({1U, 2U, 2U | (1U << 31), 2U | (1U << 31)}));
    backup_options_.callback_trigger_interval_size =
        rng_.OneIn(2) ? 1000 : 4 << 20;
    OpenEngine();
  }

  void BackUp() {
    CreateBackupOptions options;
    options.flush_before_backup = rng_.OneIn(3);
    uint64_t until_stop = rng_.OneIn(5) ? rng_.Below(50) : UINT64_MAX;
    options.progress_callback = [&] {
      if (until_stop-- == 0) engine_->StopBackup();
    };
    BackupID id = 0;
    const Status status = engine_->CreateNewBackup(options, db_.get(), &id);
    if (status.IsIncomplete()) {
      RandomEngine();
      return;
    }
    ASSERT_TRUE(Ok(status));
    const BackupID latest = states_.empty() ? 0 : states_.rbegin()->first;
    EXPECT_GT(id, latest);
    states_[id] = Contents();
    RefreshFiles();
  }

  // Notes which files the backups need.
  void RefreshFiles() {
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos, true);
    for (const BackupInfo& info : infos) {
      std::set<std::string>& files = files_[info.backup_id];
      files.clear();
      for (const BackupFileInfo& file : info.file_details) {
        files.insert(backups_ + "/" + file.relative_filename);
      }
    }
  }

  void DeleteSome() {
    if (states_.empty()) return;
    if (rng_.OneIn(2)) {
      const auto count = static_cast<uint32_t>(rng_.Below(6));
      std::vector<BackupInfo> infos;
      engine_->GetBackupInfo(&infos);
      ASSERT_TRUE(Ok(engine_->PurgeOldBackups(count)));
      for (size_t i = 0; i + count < infos.size(); ++i) {
        Forget(infos[i].backup_id);
      }
    } else {
      auto any = states_.begin();
      std::advance(any, rng_.Below(states_.size()));
      const BackupID id = any->first;
      ASSERT_TRUE(Ok(engine_->DeleteBackup(id)));
      Forget(id);
    }
    EXPECT_EQ(std::filesystem::exists(backups_ + "/private") &&
                  !FilesIn("private").empty(),
              !states_.empty());
  }
  void Forget(BackupID id) {
    states_.erase(id);
    files_.erase(id);
    std::erase_if(originals_, [&](const auto& original) {
      return !std::any_of(files_.begin(), files_.end(), [&](const auto& files) {
        return files.second.contains(original.first);
      });
    });
  }

  bool IsDamaged(const std::string& path) const {
    const auto original = originals_.find(path);
    if (original == originals_.end()) return false;
    return !std::filesystem::exists(path) || Read(path) != original->second;
  }
  bool IsWhole(BackupID id) const {
    const auto& files = files_.at(id);
    return std::none_of(files.begin(), files.end(),
                        [&](const std::string& f) { return IsDamaged(f); });
  }

  void Damage() {
    if (states_.empty()) return;
    auto any = files_.begin();
    std::advance(any, rng_.Below(files_.size()));
    auto file = any->second.begin();
    std::advance(file, rng_.Below(any->second.size()));
    if (IsDamaged(*file)) return;
    const std::string bytes = Read(*file);
    originals_[*file] = bytes;
    switch (rng_.Below(3)) {
      case 0:
        if (!bytes.empty()) Flip(*file, rng_.Below(bytes.size()));
        break;
      case 1:
        Write(*file, bytes.substr(0, rng_.Below(bytes.size() + 1)));
        break;
      default:
        std::filesystem::remove(*file);
    }
    // As by a program that starts later.
    if (rng_.OneIn(2)) RandomEngine();
    VerifyAll();
  }
  void Repair() {
    for (const auto& [path, bytes] : originals_) Write(path, bytes);
    originals_.clear();
    RandomEngine();
    VerifyAll();
  }

  void VerifyAll() {
    for (const auto& [id, state] : states_) {
      const Status status = engine_->VerifyBackup(id, true);
      EXPECT_EQ(status.ok(), IsWhole(id)) << id << ": " << status.ToString();
    }
  }

  void Restore() {
    BackupID newest_whole = 0;
    for (const auto& [id, state] : states_) {
      if (IsWhole(id)) newest_whole = id;
    }
    RestoreOptions options;
    options.verify_before_replacing = rng_.OneIn(2);
    if (rng_.OneIn(2)) options.mode = RestoreOptions::kVerifyChecksum;
    BackupID restored = 0;
    const Status latest = engine_->RestoreDBFromLatestBackup(
        options, restored_, restored_, &restored);
    // Tables in place need not be copied from a damaged file.
    const bool may_be_newer = options.mode == RestoreOptions::kVerifyChecksum;
    EXPECT_TRUE(latest.ok() == (restored != 0)) << latest.ToString();
    EXPECT_TRUE(may_be_newer ? restored >= newest_whole
                             : restored == newest_whole)
        << restored << ", " << newest_whole;
    if (restored != 0) {
      EXPECT_TRUE(SameEntries(states_[restored], ContentsOf(restored_)));
    }
    for (const auto& [id, state] : states_) {
      if (!rng_.OneIn(4)) continue;
      options.mode = rng_.Pick({RestoreOptions::kPurgeAllFiles,
                                RestoreOptions::kKeepLatestDbSessionIdFiles,
                                RestoreOptions::kVerifyChecksum});
      const Status status = TryRestore(id, options);
      if (!IsWhole(id)) {
        // As above.
        if (options.mode == RestoreOptions::kPurgeAllFiles) {
          EXPECT_FALSE(status.ok());
        }
      } else {
        ASSERT_TRUE(Ok(status));
      }
      if (status.ok()) {
        EXPECT_TRUE(SameEntries(state, ContentsOf(restored_))) << id;
      }
    }
  }

  // The database goes on from an older state, with file numbers that tables in
  // backups have, too.
  void GoBack() {
    std::vector<BackupID> whole;
    for (const auto& [id, state] : states_) {
      if (IsWhole(id)) whole.push_back(id);
    }
    if (whole.empty()) return;
    const BackupID id = whole[rng_.Below(whole.size())];
    Close();
    ASSERT_TRUE(Ok(engine_->RestoreDBFromBackup({}, id, path_, path_)));
    Open();
    EXPECT_TRUE(SameEntries(states_[id], Contents()));
  }

  Rng rng_;
  std::map<BackupID, EntryList> states_;
  std::map<BackupID, std::set<std::string>> files_;
  std::map<std::string, std::string> originals_;  // Of damaged files.
};

TEST_F(BackupModelTest, RestoresEachStateOrFindsTheDamage) {
  Open();
  RandomEngine();
  const int steps = EnvironmentInt("VARVE_BACKUP_STEPS", 150);
  for (int i = 0; i < steps && !HasFailure(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    switch (rng_.Below(12)) {
      case 0:
      case 1:
      case 2:
        Writes();
        break;
      case 3:
      case 4:
      case 5:
        BackUp();
        break;
      case 6:
        DeleteSome();
        break;
      case 7:
        Damage();
        break;
      case 8:
        if (rng_.OneIn(2)) Repair();
        break;
      case 9:
        Restore();
        break;
      case 10:
        GoBack();
        break;
      default:
        RandomEngine();
        EXPECT_TRUE(Ok(engine_->GarbageCollect()));
        VerifyAll();
    }
  }
  if (!HasFailure()) Repair();
}

}  // namespace
}  // namespace varve::test
