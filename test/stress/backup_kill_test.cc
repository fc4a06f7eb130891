// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: after a kill of a process at any step of its backups, deletions and
// restores, all backups that it had made are whole, and the next process goes
// on. Method: a child writes numbered entries, backs up, deletes and restores,
// and is killed at a random step, which it counts in shared memory. Then all
// backups are verified, and one is restored. VARVE_BACKUP_KILLS sets the number
// of kills.

#include "test/testing/db/backup_fixture.h"
#include "test/testing/engines/killed_children.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class BackupKillTest : public BackupTestBase {
 protected:
  BackupKillTest() {
    backup_options_.callback_trigger_interval_size = 2000;
    backup_options_.sync = false;  // A kill loses nothing that was written.
    options_.disable_auto_compactions = false;
  }

  // The number of the last entry that was written before a backup was begun is
  // its metadata, and entries are written in their order.
  void Work(uint64_t seed, int first) {
    Rng rng(seed);
    std::unique_ptr<BackupEngine> engine;
    std::unique_ptr<DB> db;
    if (!BackupEngine::Open(backup_options_, nullptr, &engine).ok() ||
        !DB::Open(options_, path_, &db).ok()) {
      _exit(3);
    }
    CreateBackupOptions create;
    create.progress_callback = [&] { ++progress_->steps; };
    for (int n = first;; ++n) {
      ++progress_->steps;
      if (!db->Put({}, Key(n), rng.Bytes(rng.Below(500))).ok()) _exit(4);
      progress_->written = n;
      if (!rng.OneIn(20)) continue;
      create.flush_before_backup = rng.OneIn(2);
      BackupID id = 0;
      if (!engine
               ->CreateNewBackupWithMetadata(create, db.get(),
                                             std::to_string(n), &id)
               .ok()) {
        _exit(5);
      }
      progress_->backup = static_cast<int>(id);
      ++progress_->steps;
      if (rng.OneIn(3) && !engine->PurgeOldBackups(3).ok()) _exit(6);
      ++progress_->steps;
      if (rng.OneIn(5) &&
          !engine->RestoreDBFromBackup({}, id, restored_, restored_).ok()) {
        _exit(7);
      }
    }
  }

  struct Progress {
    std::atomic<int64_t> steps;
    std::atomic<int> written;
    std::atomic<int> backup;  // The newest that was created.
  };
  Progress* const progress_ = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
};

TEST_F(BackupKillTest, KeepsWhatItHad) {
  Rng rng(TestSeed());
  ASSERT_NE(progress_, MAP_FAILED);
  progress_->written = -1;
  const int kills = EnvironmentInt("VARVE_BACKUP_KILLS", 20);
  for (int kill_number = 0; kill_number < kills && !HasFailure();
       ++kill_number) {
    SCOPED_TRACE("kill " + std::to_string(kill_number));
    const int64_t until = progress_->steps + rng.Between(1, 400);
    const uint64_t seed = rng.Next();
    const pid_t child = fork();
    if (child == 0) Work(seed, progress_->written + 1);
    ASSERT_GT(child, 0);
    siginfo_t ended;
    ended.si_pid = 0;
    while (progress_->steps < until && ended.si_pid == 0) {
      sched_yield();
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended,
                       WEXITED | WNOHANG | WNOWAIT),
                0);
    }
    // Anywhere between two steps.
    for (uint64_t i = rng.Below(200); i > 0; --i) sched_yield();
    kill(child, SIGKILL);
    int outcome = 0;
    ASSERT_EQ(waitpid(child, &outcome, 0), child);
    ASSERT_TRUE(WIFSIGNALED(outcome)) << "exit " << WEXITSTATUS(outcome);

    ASSERT_NO_FATAL_FAILURE(OpenEngine());
    std::vector<BackupID> corrupt;
    engine_->GetCorruptedBackups(&corrupt);
    EXPECT_TRUE(corrupt.empty());
    std::vector<BackupInfo> infos;
    engine_->GetBackupInfo(&infos);
    if (progress_->backup > 0) {
      ASSERT_FALSE(infos.empty());
      EXPECT_GE(infos.back().backup_id,
                static_cast<BackupID>(progress_->backup));
    }
    for (const BackupInfo& info : infos) {
      EXPECT_TRUE(Ok(engine_->VerifyBackup(info.backup_id, true)));
    }
    if (infos.empty()) continue;
    const BackupInfo& any = infos[rng.Below(infos.size())];
    ASSERT_TRUE(Ok(TryRestore(any.backup_id)));
    const EntryList entries = ContentsOf(restored_);
    EXPECT_EQ(entries.size(),
              static_cast<size_t>(std::stoi(any.app_metadata)) + 1);
  }
  printf("%d kills, %d entries, %d backups\n", kills,
         progress_->written.load() + 1, progress_->backup.load());
  munmap(progress_, sizeof(Progress));
}

}  // namespace
}  // namespace varve::test
