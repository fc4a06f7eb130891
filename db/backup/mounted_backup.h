// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env in which a backup is the directory of a database, so that it can be
// opened for reading without a copy.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/backup/backup_meta.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// The directory private/<id> has the shared files of the backup under their
// names in a database. Calls that would change files return NotSupported.
// Thread-safety: thread-safe.
class MountedBackup final : public EnvWrapper {
 public:
  // `directory` is the absolute path of the backups. `base` outlives this.
  MountedBackup(Env* base, const std::string& directory,
                const BackupMeta& meta);

  // Returns the absolute path of private/<id>.
  const std::string& name() const { return name_; }

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override;
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override;
  Status FileExists(const std::string& path) override;
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override;
  Status RemoveFile(const std::string& path) override;
  Status CreateDirIfMissing(const std::string& path) override;
  Status RemoveDir(const std::string& path) override;
  Status RenameFile(const std::string& source,
                    const std::string& target) override;
  Status LinkFile(const std::string& source,
                  const std::string& target) override;
  Status SyncFile(const std::string& path) override;
  Status Truncate(const std::string& path, uint64_t size) override;
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override;
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;

 private:
  // Returns where the file of a path is.
  const std::string& Find(const std::string& path) const;

  const std::string name_;
  std::map<std::string, std::string> shared_;  // Paths as a database has them.
  std::vector<std::string> shared_names_;
};

}  // namespace varve
