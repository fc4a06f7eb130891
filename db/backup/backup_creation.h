// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Creates one backup: copies the files of a database that no backup has yet.

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "db/backup/backup_set.h"
#include "db/backup/file_transfer.h"
#include "varve/backup_engine.h"
#include "varve/db.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: owned by one thread, which runs it once.
class BackupCreation {
 public:
  // `options` are the engine's. The references must stay valid. `damaged` are
  // paths of shared files that were found damaged.
  BackupCreation(const BackupEngineOptions& options,
                 const CreateBackupOptions& create_options,
                 const std::set<std::string>& damaged, DB* db, BackupSet* set,
                 TransferControl* control);

  // Creates backup `id` and adds it to the set. After an error, files of it may
  // be left.
  Status Run(BackupID id, const std::string& app_metadata);

  // Returns the paths of damaged files that were written again.
  const std::vector<std::string>& healed() const { return healed_; }

 private:
  // A file of the database, and its place in the backup.
  struct Item {
    LiveFileStorageInfo source;
    bool is_shared = false;
    bool is_excluded = false;
    bool is_gone = false;  // An OPTIONS file that the database replaced.
    bool was_healed = false;
    std::string from;
    // The size and checksum are known once it was copied or found.
    BackupFile file;
  };

  Status ListItems(BackupID id);
  Status Exclude();
  // Chooses the path of a shared file.
  Status NameShared(Item* item);
  Status CopyAll();
  Status CopyPrivate(Item* item);
  Status CopyShared(Item* item);
  // Sets *found if the file is in the backup directory, and right.
  Status FindShared(Item* item, bool* found);
  Status SyncFolders(BackupID id);

  const BackupEngineOptions& options_;
  const CreateBackupOptions& create_options_;
  const std::set<std::string>& damaged_;
  DB* const db_;
  Env* const from_env_;
  BackupSet* const set_;
  TransferControl* const control_;
  std::vector<Item> items_;
  std::vector<std::string> healed_;
};

// Returns what a priority adds to a thread's nice value.
int NiceOf(const CreateBackupOptions& options);

}  // namespace varve
