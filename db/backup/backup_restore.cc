// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_restore.h"

#include <algorithm>
#include <utility>

#include "table/reader/table_opener.h"
#include "util/base/mutex.h"

namespace varve {

namespace {

constexpr char kArchiveFolder[] = "/archive";

Status ChecksumError(const std::string& path, uint32_t wanted, uint32_t found) {
  return Status::Corruption(path, "has checksum " + std::to_string(found) +
                                      ", and should have " +
                                      std::to_string(wanted));
}

Status CheckSize(const BackupSet& set, const BackupFile& file) {
  uint64_t size = 0;
  const std::string path = set.PathOf(file.path);
  Status status = set.env()->GetFileSize(path, &size);
  if (status.ok() && size != file.size) {
    status = Status::Corruption(path, "has " + std::to_string(size) +
                                          " bytes, and should have " +
                                          std::to_string(file.size));
  }
  return status;
}

bool IsDamage(const Status& status) {
  return status.IsCorruption() || status.IsNotFound();
}

// Returns a name that no entry of the directory has. One that a file gets is
// removed by the next open, if it is left over.
std::string FreeTemporaryName(Env* env, const std::string& directory) {
  uint64_t number = 1;
  while (env->FileExists(TempFileName(directory, number)).ok()) ++number;
  return TempFileName(directory, number);
}

bool IsTable(FileKind kind) {
  return kind == FileKind::kTable || kind == FileKind::kLevelDbTable;
}

}  // namespace

Status VerifyFiles(const BackupSet& set, const BackupMeta& meta,
                   bool with_checksums, int thread_count,
                   TransferControl* control, std::set<std::string>* damaged) {
  Mutex mu;
  return RunTransfers(
      meta.files.size(), thread_count, /*nice=*/0, [&](size_t i) {
        const BackupFile& file = meta.files[i];
        const std::string path = set.PathOf(file.path);
        Status status = CheckSize(set, file);
        if (status.ok() && with_checksums) {
          TransferResult read;
          status = ChecksumFile(set.env(), path, kUnknownSize, control, &read);
          if (status.ok() && read.size != file.size) {
            status = Status::Corruption(path, "has another size");
          }
          if (status.ok() && file.has_checksum && read.crc32c != file.crc32c) {
            status = ChecksumError(path, file.crc32c, read.crc32c);
          }
        }
        BackupPath parsed;
        if (IsDamage(status) && damaged != nullptr &&
            ParseBackupPath(file.path, meta.id, &parsed) && parsed.is_shared) {
          MutexLock lock(&mu);
          damaged->insert(file.path);
        }
        return status;
      });
}

BackupRestore::BackupRestore(const BackupEngineOptions& options,
                             const RestoreOptions& restore_options,
                             const BackupSet& set,
                             const std::vector<const BackupSet*>& others,
                             Env* db_env, TransferControl* control)
    : options_(options),
      restore_options_(restore_options),
      set_(set),
      others_(others),
      env_(db_env),
      control_(control) {}

Status BackupRestore::Run(const BackupMeta& meta, const std::string& db_dir,
                          const std::string& wal_dir, bool* is_damaged) {
  *is_damaged = false;
  db_dir_ = env_->AbsolutePath(db_dir);
  wal_dir_ = env_->AbsolutePath(wal_dir);
  Status status = MakeSafeDirectory(env_, db_dir_, true);
  if (status.ok()) status = MakeSafeDirectory(env_, wal_dir_, true);
  std::unique_ptr<FileLock> lock;
  if (status.ok()) status = env_->LockFile(LockFileName(db_dir_), &lock);
  if (!status.ok()) return status;
  status = ListItems(meta);
  // Before anything is removed.
  if (status.ok()) {
    Status exists = env_->FileExists(CurrentFileName(db_dir_));
    const bool verify = exists.ok() && restore_options_.verify_before_replacing;
    status = VerifyFiles(set_, meta, verify, options_.max_background_operations,
                         control_, nullptr);
    *is_damaged = IsDamage(status);
  }
  if (status.ok()) {
    ChooseKept();
    bool had_database;
    status = RemoveOldFiles(&had_database);
  }
  if (status.ok()) {
    status = RunTransfers(items_.size(), options_.max_background_operations,
                          /*nice=*/0,
                          [&](size_t i) { return CopyItem(&items_[i]); });
    *is_damaged = IsDamage(status);
  }
  if (status.ok()) status = InstallCurrent();
  Status unlocked = env_->UnlockFile(std::move(lock));
  return status.ok() ? unlocked : status;
}

Status BackupRestore::ListItems(const BackupMeta& meta) {
  for (const BackupFile& file : meta.files) {
    items_.push_back({&set_, &file, {}, {}});
  }
  for (const std::string& path : meta.excluded) {
    Status status = FindExcluded(path);
    if (!status.ok()) return status;
  }
  for (Item& item : items_) {
    if (!ParseBackupPath(item.file->path, meta.id, &item.path)) {
      return Status::Corruption(item.file->path, "is not a file of a backup");
    }
    if (item.path.kind == FileKind::kCurrent) {
      // It is the last that gets its name.
      temporary_current_ = FreeTemporaryName(env_, db_dir_);
      item.to = temporary_current_;
    } else if (item.path.kind == FileKind::kWal) {
      item.to = wal_dir_ + "/" + item.path.db_name;
    } else {
      item.to = db_dir_ + "/" + item.path.db_name;
    }
  }
  return Status::OK();
}

Status BackupRestore::FindExcluded(const std::string& path) {
  for (const BackupSet* const set : others_) {
    const BackupFile* const file = set->FindFile(path);
    if (file != nullptr) {
      items_.push_back({set, file, {}, {}});
      return Status::OK();
    }
  }
  return Status::InvalidArgument(
      path, "was excluded, and is in none of the other backup directories");
}

// ---- The files that are there
// -------------------------------------------------

void BackupRestore::ChooseKept() {
  if (restore_options_.mode == RestoreOptions::kPurgeAllFiles) return;
  for (Item& item : items_) {
    item.is_kept = IsTable(item.path.kind) && IsInPlace(item);
  }
}

bool BackupRestore::IsInPlace(const Item& item) const {
  uint64_t size = 0;
  if (!env_->GetFileSize(item.to, &size).ok() || size != item.file->size) {
    return false;
  }
  if (restore_options_.mode == RestoreOptions::kVerifyChecksum) {
    TransferResult read;
    return item.file->has_checksum &&
           ChecksumFile(env_, item.to, kUnknownSize, control_, &read).ok() &&
           read.crc32c == item.file->crc32c;
  }
  TableReaderOptions options;
  options.file_name = item.to;
  options.file_size = size;
  std::unique_ptr<RandomAccessFile> file;
  PropertiesBlock properties;
  if (!env_->NewRandomAccessFile(item.to, FileOptions(), &file).ok() ||
      !ReadPropertiesOf(options, std::move(file), &properties).ok()) {
    return false;
  }
  const std::string& session = properties.session_identity;
  return IsSessionName(session) &&
         item.file->path ==
             SessionPath(item.path.db_name, session, size, /*with_size=*/true);
}

Status BackupRestore::RemoveOldFiles(bool* had_database) {
  // Without CURRENT there is no database, whatever else is left of it.
  Status status = env_->RemoveFile(CurrentFileName(db_dir_));
  *had_database = status.ok();
  if (status.IsNotFound()) status = Status::OK();
  if (status.ok() && *had_database && options_.sync) status = SyncTarget();
  const bool keep_logs = restore_options_.keep_log_files;
  if (status.ok()) status = RemoveIn(db_dir_, /*logs=*/!keep_logs);
  if (keep_logs) {
    if (status.ok()) status = MoveArchivedLogs();
    return status;
  }
  if (status.ok() && wal_dir_ != db_dir_) status = RemoveIn(wal_dir_, true);
  if (status.ok()) status = RemoveIn(wal_dir_ + kArchiveFolder, true);
  return status;
}

// Removes the files of a database but those that are kept.
Status BackupRestore::RemoveIn(const std::string& directory, bool logs) {
  std::vector<std::string> names;
  Status status = env_->FileExists(directory);
  if (status.IsNotFound()) return Status::OK();
  if (status.ok()) status = env_->GetChildren(directory, &names);
  std::set<std::string> kept;
  for (const Item& item : items_) {
    if (item.is_kept) kept.insert(item.to);
  }
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    uint64_t number;
    FileKind kind;
    if (!status.ok()) break;
    if (!ParseFileName(name, &number, &kind) || kind == FileKind::kLock ||
        (kind == FileKind::kWal && !logs) || kept.contains(path)) {
      continue;
    }
    // In the directory of logs, nothing else is the database's.
    if (directory != db_dir_ && kind != FileKind::kWal) continue;
    // Directories, pipes and so on are no files of a database.
    uint64_t size = 0;
    if (env_->GetFileSize(path, &size).IsNotSupported()) continue;
    status = env_->RemoveFile(path);
    if (status.IsNotFound()) status = Status::OK();
  }
  return status;
}

Status BackupRestore::MoveArchivedLogs() {
  const std::string archive = wal_dir_ + kArchiveFolder;
  std::vector<std::string> names;
  Status status = env_->FileExists(archive);
  if (status.IsNotFound()) return Status::OK();
  if (status.ok()) status = env_->GetChildren(archive, &names);
  for (const std::string& name : names) {
    uint64_t number;
    FileKind kind;
    if (status.ok() && ParseFileName(name, &number, &kind) &&
        kind == FileKind::kWal) {
      status = env_->RenameFile(archive + "/" + name, wal_dir_ + "/" + name);
    }
  }
  return status;
}

// ---- Copies -----------------------------------------------------------------

Status BackupRestore::CopyItem(Item* item) {
  if (item->is_kept) return Status::OK();
  const std::string from = item->set->PathOf(item->file->path);
  TransferResult copied;
  Status status = TransferFile(item->set->env(), from, kUnknownSize, env_,
                               item->to, options_.sync, control_, &copied);
  if (status.ok() && copied.size != item->file->size) {
    status = Status::Corruption(from, "has another size than it had");
  }
  if (status.ok() && item->file->has_checksum &&
      copied.crc32c != item->file->crc32c) {
    status = ChecksumError(from, item->file->crc32c, copied.crc32c);
  }
  // The next restore may keep tables that look right.
  if (!status.ok()) env_->RemoveFile(item->to).IgnoreError();
  return status;
}

Status BackupRestore::SyncTarget() {
  Status status;
  for (const std::string& path : {db_dir_, wal_dir_}) {
    std::unique_ptr<Directory> directory;
    if (status.ok()) status = env_->NewDirectory(path, &directory);
    if (status.ok()) status = directory->Sync();
  }
  return status;
}

Status BackupRestore::InstallCurrent() {
  Status status;
  if (options_.sync) status = SyncTarget();
  if (status.ok() && !temporary_current_.empty()) {
    status = env_->RenameFile(temporary_current_, CurrentFileName(db_dir_));
    if (status.ok() && options_.sync) status = SyncTarget();
  }
  return status;
}

}  // namespace varve
