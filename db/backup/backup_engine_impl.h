// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "db/backup/backup_set.h"
#include "db/backup/file_transfer.h"
#include "varve/backup_engine.h"

namespace varve {

// Both BackupEngine and BackupEngineReadOnly are a shell around this class.
class BackupEngineImpl {
 public:
  BackupEngineImpl(const BackupEngineOptions& options, Env* db_env,
                   bool is_read_only);

  // Called once, before all others.
  Status Open();

  Status GetInfo(BackupID id, BackupInfo* info, bool details) const;
  Status GetLatestInfo(BackupInfo* info, bool details) const;
  void GetInfos(std::vector<BackupInfo>* infos, bool details) const;
  void GetCorrupted(std::vector<BackupID>* ids) const;
  Status Restore(const RestoreOptions& options, BackupID id,
                 const std::string& db_dir, const std::string& wal_dir) const;
  Status RestoreLatest(const RestoreOptions& options, const std::string& db_dir,
                       const std::string& wal_dir, BackupID* restored) const;
  Status Verify(BackupID id, bool with_checksums) const;

  Status Create(const CreateBackupOptions& options, DB* db,
                const std::string& app_metadata, BackupID* id);
  void Stop();
  Status GarbageCollect();
  Status Purge(uint32_t count);
  Status Delete(BackupID id);

 private:
  // Excludes engines of the same directory, while it lives.
  class FolderLock;

  Status CreateFolders();
  Status DestroyOldData();
  // Sees what other engines did. REQUIRES: mu_ is held for writing.
  Status Refresh();
  // Calls `change` with the lock, on the present backups.
  template <typename Change>
  Status ChangeBackups(Change change);
  Status RestoreOne(const RestoreOptions& options, const BackupMeta& meta,
                    const std::string& db_dir, const std::string& wal_dir,
                    bool* is_damaged) const;
  void Describe(const BackupMeta& meta, bool details, BackupInfo* info) const;
  TransferControl NewControl(RateLimiter* limiter) const;

  const bool is_read_only_;
  BackupEngineOptions options_;
  Env* const db_env_;
  Env* const env_;  // The backups'.
  const std::string directory_;
  std::atomic<bool> is_stopped_{false};

  // Held shared by calls that read the backups.
  mutable std::shared_mutex mu_;
  BackupSet set_;
  // Garbage may be there. It is collected after the next change.
  bool may_have_garbage_ = true;

  mutable Mutex damaged_mu_;
  // Paths of shared files that were found damaged.
  mutable std::set<std::string> damaged_ VARVE_GUARDED_BY(damaged_mu_);
};

}  // namespace varve
