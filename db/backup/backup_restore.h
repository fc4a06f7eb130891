// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Restores one backup into the directory of a database.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "db/backup/backup_set.h"
#include "db/backup/file_transfer.h"
#include "varve/backup_engine.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Reads all files of a backup, or only their sizes without `with_checksums`.
// Returns Corruption, or NotFound for a missing file. If it is a shared one,
// its path is added to *damaged, which may be null.
Status VerifyFiles(const BackupSet& set, const BackupMeta& meta,
                   bool with_checksums, int thread_count,
                   TransferControl* control, std::set<std::string>* damaged);

// Thread-safety: owned by one thread, which runs it once.
class BackupRestore {
 public:
  // `options` are the engine's. The references must stay valid. `others` may
  // have the files that the backup excludes.
  BackupRestore(const BackupEngineOptions& options,
                const RestoreOptions& restore_options, const BackupSet& set,
                const std::vector<const BackupSet*>& others, Env* db_env,
                TransferControl* control);

  // If *is_damaged is set after an error, the backup is damaged.
  Status Run(const BackupMeta& meta, const std::string& db_dir,
             const std::string& wal_dir, bool* is_damaged);

 private:
  // A file of the backup, and of the database.
  struct Item {
    const BackupSet* set;
    const BackupFile* file;
    BackupPath path;
    std::string to;
    bool is_kept = false;
  };

  Status ListItems(const BackupMeta& meta);
  Status FindExcluded(const std::string& path);
  // Looks for tables that need not be copied.
  void ChooseKept();
  bool IsInPlace(const Item& item) const;
  Status RemoveOldFiles(bool* had_database);
  Status RemoveIn(const std::string& directory, bool logs);
  Status MoveArchivedLogs();
  Status CopyItem(Item* item);
  Status InstallCurrent();
  Status SyncTarget();

  const BackupEngineOptions& options_;
  const RestoreOptions& restore_options_;
  const BackupSet& set_;
  const std::vector<const BackupSet*>& others_;
  Env* const env_;  // The database's.
  TransferControl* const control_;
  std::string db_dir_;
  std::string wal_dir_;
  std::vector<Item> items_;
  std::string temporary_current_;
};

}  // namespace varve
