// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The backups of a directory: which there are, which of them are complete, and
// which files they need. Removes backups, and files that none needs.
//
// The order of steps makes a backup visible when all of its files are durable,
// and invisible before any of them is removed: the file in meta/ comes last,
// and goes first.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/backup/backup_meta.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: const methods may run at the same time.
class BackupSet {
 public:
  // A backup that cannot be used.
  struct Corrupt {
    Status reason;
    std::optional<BackupMeta> meta;  // If it could be read.
  };

  // `directory` is absolute.
  BackupSet(Env* env, std::string directory, Logger* log)
      : env_(env), directory_(std::move(directory)), log_(log) {}

  // Reads all backups, but only the newest `max_valid` that are complete.
  // Returns an error only if a directory or file cannot be read.
  Status Load(size_t max_valid);
  // Returns true if others have added or deleted backups since Load, or if
  // that cannot be found out.
  bool HasChanged() const;

  const std::map<BackupID, BackupMeta>& backups() const { return backups_; }
  const std::map<BackupID, Corrupt>& corrupt() const { return corrupt_; }
  // Returns the highest number of a backup, complete or not; 0 if there is
  // none.
  BackupID LatestId() const;
  // Returns OK and *meta, NotFound, or the reason why it cannot be used.
  Status Find(BackupID id, const BackupMeta** meta) const;
  // Returns the file at the path as a backup has it, or null. A complete
  // backup's list counts more than a corrupt one's.
  const BackupFile* FindFile(const std::string& path) const;

  // Makes a backup visible: writes its file in meta/, and syncs it if `sync`.
  // REQUIRES: its files and their names are durable, if that is wanted.
  Status Add(BackupMeta meta, int schema_version, bool sync);
  // Makes a backup invisible, durably if `sync`, but does not remove its files.
  Status Remove(BackupID id, bool sync);
  // Removes the files that no backup needs. Continues after errors, and returns
  // the first.
  Status CollectGarbage();
  // Removes private/<id> with its files.
  Status RemovePrivateFolder(BackupID id);

  Env* env() const { return env_; }
  std::string PathOf(const std::string& relative) const {
    return directory_ + "/" + relative;
  }
  Status SyncFolder(const std::string& relative) const;

 private:
  Status ListIds(std::vector<BackupID>* ids) const;
  // Reads a backup, and looks up its sizes in *sizes or on the device.
  Status LoadOne(BackupID id, std::map<std::string, uint64_t>* sizes);
  Status CheckFiles(std::map<std::string, uint64_t>* sizes,
                    BackupMeta* meta) const;
  // If backups give a file different checksums, those that are wrong become
  // corrupt: a damaged digit in one must not make the others useless.
  Status SettleConflicts();
  void AddToIndex(const BackupMeta& meta, bool is_complete);
  void TakeFromIndex(const BackupMeta& meta, bool is_complete);
  void CollectShared(const char* folder, Status* first_error);
  void RemoveFile(const std::string& relative, Status* first_error);

  // A file, and by how many backups it is needed.
  struct Indexed {
    BackupFile file;
    uint32_t complete_count = 0;
    uint32_t corrupt_count = 0;
  };

  Env* const env_;
  const std::string directory_;
  Logger* const log_;
  std::map<BackupID, BackupMeta> backups_;
  std::map<BackupID, Corrupt> corrupt_;
  std::unordered_map<std::string, Indexed> index_;
  std::vector<BackupID> listed_;  // All, sorted, as of Load and changes since.
};

}  // namespace varve
