// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/mounted_backup.h"

namespace varve {

namespace {

Status ReadOnlyError(const std::string& path) {
  return Status::NotSupported(path, "a backup is opened for reading only");
}

}  // namespace

MountedBackup::MountedBackup(Env* base, const std::string& directory,
                             const BackupMeta& meta)
    : EnvWrapper(base), name_(directory + "/" + PrivateFolder(meta.id)) {
  for (const BackupFile& file : meta.files) {
    BackupPath path;
    if (!ParseBackupPath(file.path, meta.id, &path) || !path.is_shared) {
      continue;
    }
    shared_[name_ + "/" + path.db_name] = directory + "/" + file.path;
    shared_names_.push_back(path.db_name);
  }
}

const std::string& MountedBackup::Find(const std::string& path) const {
  const auto found = shared_.find(path);
  return found == shared_.end() ? path : found->second;
}

Status MountedBackup::NewSequentialFile(const std::string& path,
                                        const FileOptions& options,
                                        std::unique_ptr<SequentialFile>* file) {
  return target()->NewSequentialFile(Find(path), options, file);
}

Status MountedBackup::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<RandomAccessFile>* file) {
  return target()->NewRandomAccessFile(Find(path), options, file);
}

Status MountedBackup::FileExists(const std::string& path) {
  return target()->FileExists(Find(path));
}

Status MountedBackup::GetChildren(const std::string& path,
                                  std::vector<std::string>* names) {
  Status status = target()->GetChildren(path, names);
  if (status.ok() && (path == name_ || path == name_ + "/")) {
    names->insert(names->end(), shared_names_.begin(), shared_names_.end());
  }
  return status;
}

Status MountedBackup::GetFileSize(const std::string& path, uint64_t* size) {
  return target()->GetFileSize(Find(path), size);
}

Status MountedBackup::NewWritableFile(const std::string& path,
                                      const FileOptions& /*options*/,
                                      std::unique_ptr<WritableFile>* file) {
  file->reset();
  return ReadOnlyError(path);
}

Status MountedBackup::RemoveFile(const std::string& path) {
  return ReadOnlyError(path);
}

Status MountedBackup::CreateDirIfMissing(const std::string& path) {
  return target()->FileExists(path).ok() ? Status::OK() : ReadOnlyError(path);
}

Status MountedBackup::RemoveDir(const std::string& path) {
  return ReadOnlyError(path);
}

Status MountedBackup::RenameFile(const std::string& source,
                                 const std::string& /*target*/) {
  return ReadOnlyError(source);
}

Status MountedBackup::LinkFile(const std::string& source,
                               const std::string& /*target*/) {
  return ReadOnlyError(source);
}

Status MountedBackup::SyncFile(const std::string& path) {
  return ReadOnlyError(path);
}

Status MountedBackup::Truncate(const std::string& path, uint64_t /*size*/) {
  return ReadOnlyError(path);
}

Status MountedBackup::LockFile(const std::string& path,
                               std::unique_ptr<FileLock>* lock) {
  lock->reset();
  return ReadOnlyError(path);
}

Status MountedBackup::NewLogger(const std::string& path,
                                std::shared_ptr<Logger>* logger) {
  logger->reset();
  return ReadOnlyError(path);
}

}  // namespace varve
