// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_engine_impl.h"

#include <algorithm>
#include <utility>

#include "db/backup/backup_creation.h"
#include "db/backup/backup_restore.h"
#include "db/backup/mounted_backup.h"

namespace varve {

namespace {

constexpr int kMaxThreads = 64;
constexpr char kChecksumFunction[] = "FileChecksumCrc32c";

Status CheckOptions(const BackupEngineOptions& options) {
  if (options.backup_dir.empty()) {
    return Status::InvalidArgument("backup_dir", "is empty");
  }
  if (options.max_background_operations < 1 ||
      options.max_background_operations > kMaxThreads) {
    return Status::InvalidArgument("max_background_operations",
                                   "is not in [1, 64]");
  }
  if (options.schema_version < 1) {
    return Status::InvalidArgument("schema_version", "is less than 1");
  }
  if (options.schema_version > kMaxSchemaVersion) {
    return Status::NotSupported("schema_version", "is greater than 2");
  }
  if (options.max_valid_backups_to_open < 0) {
    return Status::InvalidArgument("max_valid_backups_to_open", "is negative");
  }
  const uint32_t naming = options.share_files_with_checksum_naming &
                          uint32_t{BackupEngineOptions::kMaskNoNamingFlags};
  if (naming != BackupEngineOptions::kLegacyCrc32cAndFileSize &&
      naming != BackupEngineOptions::kUseDbSessionId) {
    return Status::InvalidArgument("share_files_with_checksum_naming",
                                   "is unknown");
  }
  return Status::OK();
}

void SetLimiter(uint64_t rate, std::shared_ptr<RateLimiter>* limiter) {
  if (*limiter == nullptr && rate != 0) *limiter = NewGenericRateLimiter(rate);
}

// As RocksDB's FileChecksumCrc32c stores it.
std::string ChecksumBytes(uint32_t crc32c) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(crc32c >> shift));
  }
  return bytes;
}

FileType ToFileType(FileKind kind) {
  switch (kind) {
    case FileKind::kWal:
      return FileType::kWalFile;
    case FileKind::kTable:
    case FileKind::kLevelDbTable:
      return FileType::kTableFile;
    case FileKind::kBlob:
      return FileType::kBlobFile;
    case FileKind::kManifest:
      return FileType::kDescriptorFile;
    case FileKind::kCurrent:
      return FileType::kCurrentFile;
    case FileKind::kLock:
      return FileType::kDBLockFile;
    case FileKind::kInfoLog:
      return FileType::kInfoLogFile;
    case FileKind::kTemp:
      return FileType::kTempFile;
    case FileKind::kIdentity:
      return FileType::kIdentityFile;
    case FileKind::kOptions:
      return FileType::kOptionsFile;
  }
  return FileType::kTempFile;
}

}  // namespace

class BackupEngineImpl::FolderLock {
 public:
  // `folder` is the one of the lists, so that the backups may be in the
  // directory of a database.
  FolderLock(Env* env, const std::string& folder)
      : env_(env), status_(env->LockFile(LockFileName(folder), &lock_)) {
    // Then only the program can see to it.
    if (status_.IsNotSupported()) status_ = Status::OK();
    if (status_.IsBusy()) status_ = status_.Annotate("backups");
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // The change is done, whatever this returns.
  ~FolderLock() {
    if (lock_ != nullptr) env_->UnlockFile(std::move(lock_)).IgnoreError();
  }

  const Status& status() const { return status_; }

 private:
  Env* const env_;
  std::unique_ptr<FileLock> lock_;
  Status status_;
};

BackupEngineImpl::BackupEngineImpl(const BackupEngineOptions& options,
                                   Env* db_env, bool is_read_only)
    : is_read_only_(is_read_only),
      options_(options),
      db_env_(db_env != nullptr ? db_env : Env::Default()),
      env_(options.backup_env != nullptr ? options.backup_env : db_env_),
      directory_(env_->AbsolutePath(options.backup_dir)),
      set_(env_, directory_, options.info_log) {
  SetLimiter(options_.backup_rate_limit, &options_.backup_rate_limiter);
  SetLimiter(options_.restore_rate_limit, &options_.restore_rate_limiter);
}

Status BackupEngineImpl::Open() {
  Status status = CheckOptions(options_);
  if (!status.ok()) return status;
  if (is_read_only_) {
    if (options_.destroy_old_data) {
      return Status::InvalidArgument("destroy_old_data",
                                     "needs an engine that writes");
    }
    status = env_->FileExists(set_.PathOf(kMetaFolder));
    if (!status.ok()) return status.Annotate(directory_);
    return set_.Load(static_cast<size_t>(options_.max_valid_backups_to_open));
  }
  status = CreateFolders();
  if (status.ok() && options_.destroy_old_data) status = DestroyOldData();
  if (status.ok()) status = set_.Load(SIZE_MAX);
  return status;
}

Status BackupEngineImpl::CreateFolders() {
  Status status = MakeSafeDirectory(env_, directory_, true);
  for (const char* const folder :
       {kSharedChecksumFolder, kSharedFolder, kPrivateFolder, kMetaFolder}) {
    const bool is_unused =
        (folder == kSharedFolder &&
         (!options_.share_table_files || options_.share_files_with_checksum)) ||
        (folder == kSharedChecksumFolder &&
         (!options_.share_table_files || !options_.share_files_with_checksum));
    if (status.ok() && !is_unused) {
      status = MakeSafeDirectory(env_, set_.PathOf(folder), true);
    }
  }
  return status;
}

Status BackupEngineImpl::DestroyOldData() {
  return ChangeBackups([&] {
    std::vector<BackupID> ids;
    for (const auto& [id, meta] : set_.backups()) ids.push_back(id);
    for (const auto& [id, corrupt] : set_.corrupt()) ids.push_back(id);
    Status status;
    for (const BackupID id : ids) {
      if (status.ok()) status = set_.Remove(id, options_.sync);
    }
    return status.ok() ? set_.CollectGarbage() : status;
  });
}

TransferControl BackupEngineImpl::NewControl(RateLimiter* limiter) const {
  return TransferControl(limiter, nullptr, options_.io_buffer_size, 0, nullptr);
}

// ---- Reading ----------------------------------------------------------------

void BackupEngineImpl::Describe(const BackupMeta& meta, bool details,
                                BackupInfo* info) const {
  *info = BackupInfo();
  info->backup_id = meta.id;
  info->timestamp = meta.timestamp_s;
  info->size = meta.Size();
  info->number_files = static_cast<uint32_t>(meta.files.size());
  info->app_metadata = meta.app_metadata;
  if (!details) return;
  for (const BackupFile& file : meta.files) {
    BackupFileInfo& detail = info->file_details.emplace_back();
    BackupPath path;
    if (ParseBackupPath(file.path, meta.id, &path)) {
      detail.file_number = path.number;
      detail.file_type = ToFileType(path.kind);
    }
    detail.relative_filename = file.path;
    detail.directory = directory_;
    detail.size = file.size;
    detail.temperature = file.temperature;
    if (file.has_checksum) {
      detail.file_checksum = ChecksumBytes(file.crc32c);
      detail.file_checksum_func_name = kChecksumFunction;
    }
  }
  for (const std::string& path : meta.excluded) {
    info->excluded_files.push_back({path});
  }
  const auto mounted = std::make_shared<MountedBackup>(env_, directory_, meta);
  info->name_for_open = mounted->name();
  info->env_for_open = mounted;
}

Status BackupEngineImpl::GetInfo(BackupID id, BackupInfo* info,
                                 bool details) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  const BackupMeta* meta = nullptr;
  Status status = set_.Find(id, &meta);
  if (status.ok()) Describe(*meta, details, info);
  return status;
}

Status BackupEngineImpl::GetLatestInfo(BackupInfo* info, bool details) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  if (set_.backups().empty()) return Status::NotFound("there is no backup");
  Describe(set_.backups().rbegin()->second, details, info);
  return Status::OK();
}

void BackupEngineImpl::GetInfos(std::vector<BackupInfo>* infos,
                                bool details) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  infos->clear();
  for (const auto& [id, meta] : set_.backups()) {
    Describe(meta, details, &infos->emplace_back());
  }
}

void BackupEngineImpl::GetCorrupted(std::vector<BackupID>* ids) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  ids->clear();
  for (const auto& [id, corrupt] : set_.corrupt()) ids->push_back(id);
}

Status BackupEngineImpl::Verify(BackupID id, bool with_checksums) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  const BackupMeta* meta = nullptr;
  Status status = set_.Find(id, &meta);
  if (!status.ok()) return status;
  TransferControl control = NewControl(nullptr);
  std::set<std::string> damaged;
  status = VerifyFiles(set_, *meta, with_checksums,
                       options_.max_background_operations, &control, &damaged);
  MutexLock damaged_lock(&damaged_mu_);
  damaged_.merge(damaged);
  return status;
}

// ---- Restoring --------------------------------------------------------------

Status BackupEngineImpl::RestoreOne(const RestoreOptions& options,
                                    const BackupMeta& meta,
                                    const std::string& db_dir,
                                    const std::string& wal_dir,
                                    bool* is_damaged) const {
  // The other engines' backups as they are, under this directory's lock only:
  // their sets are loaded anew.
  std::vector<std::unique_ptr<BackupSet>> loaded;
  std::vector<const BackupSet*> others;
  Status status;
  for (const BackupEngineReadOnlyBase* const engine : options.alternate_dirs) {
    std::vector<BackupInfo> infos;
    engine->GetBackupInfo(&infos, /*include_file_details=*/true);
    if (infos.empty() || infos[0].file_details.empty()) continue;
    auto* const mounted =
        static_cast<MountedBackup*>(infos[0].env_for_open.get());
    loaded.push_back(std::make_unique<BackupSet>(
        mounted->target(), infos[0].file_details[0].directory,
        options_.info_log));
    others.push_back(loaded.back().get());
    if (status.ok()) status = loaded.back()->Load(SIZE_MAX);
  }
  if (!status.ok()) return status;
  Log(LogLevel::kInfo, options_.info_log, "backup %u: restore to %s", meta.id,
      db_dir.c_str());
  TransferControl control = NewControl(options_.restore_rate_limiter.get());
  BackupRestore restore(options_, options, set_, others, db_env_, &control);
  status = restore.Run(meta, db_dir, wal_dir, is_damaged);
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kError, options_.info_log,
      "backup %u: %s", meta.id, status.ToString().c_str());
  return status;
}

Status BackupEngineImpl::Restore(const RestoreOptions& options, BackupID id,
                                 const std::string& db_dir,
                                 const std::string& wal_dir) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  const BackupMeta* meta = nullptr;
  Status status = set_.Find(id, &meta);
  bool is_damaged;
  return status.ok() ? RestoreOne(options, *meta, db_dir, wal_dir, &is_damaged)
                     : status;
}

Status BackupEngineImpl::RestoreLatest(const RestoreOptions& options,
                                       const std::string& db_dir,
                                       const std::string& wal_dir,
                                       BackupID* restored) const {
  const std::shared_lock<std::shared_mutex> lock(mu_);
  Status first = Status::NotFound("there is no backup");
  bool is_first = true;
  for (auto backup = set_.backups().rbegin(); backup != set_.backups().rend();
       ++backup) {
    bool is_damaged = false;
    Status status =
        RestoreOne(options, backup->second, db_dir, wal_dir, &is_damaged);
    if (status.ok() && restored != nullptr) *restored = backup->first;
    if (status.ok() || !is_damaged) return status;
    if (is_first) first = status;
    is_first = false;
  }
  return first;
}

// ---- Changing ---------------------------------------------------------------

Status BackupEngineImpl::Refresh() {
  if (!set_.HasChanged()) return Status::OK();
  may_have_garbage_ = true;
  return set_.Load(SIZE_MAX);
}

template <typename Change>
Status BackupEngineImpl::ChangeBackups(Change change) {
  const std::unique_lock<std::shared_mutex> lock(mu_);
  const FolderLock folder_lock(env_, set_.PathOf(kMetaFolder));
  Status status = folder_lock.status();
  if (status.ok()) status = Refresh();
  if (status.ok()) status = change();
  return status;
}

Status BackupEngineImpl::Create(const CreateBackupOptions& options, DB* db,
                                const std::string& app_metadata, BackupID* id) {
  if (db == nullptr) return Status::InvalidArgument("the DB", "is null");
  if (app_metadata.size() > kMaxAppMetadataBytes) {
    return Status::InvalidArgument("app_metadata", "has more than 1 MiB");
  }
  if (options.exclude_files_callback && options_.schema_version < 2) {
    return Status::InvalidArgument("exclude_files_callback",
                                   "needs schema_version 2");
  }
  TransferControl control(
      options_.backup_rate_limiter.get(), &is_stopped_, options_.io_buffer_size,
      options_.callback_trigger_interval_size, &options.progress_callback);
  Status stopped = control.CheckStop();
  if (!stopped.ok()) return stopped;
  return ChangeBackups([&] {
    const BackupID latest = set_.LatestId();
    if (latest == UINT32_MAX) {
      return Status::NotSupported(directory_, "has no number left");
    }
    // Of a call that did not complete.
    Status status = set_.RemovePrivateFolder(latest + 1);
    if (!status.ok()) return status;
    std::set<std::string> damaged;
    {
      MutexLock lock(&damaged_mu_);
      damaged = damaged_;
    }
    Log(LogLevel::kInfo, options_.info_log, "backup %u: start", latest + 1);
    BackupCreation creation(options_, options, damaged, db, &set_, &control);
    status = creation.Run(latest + 1, app_metadata);
    Log(status.ok() ? LogLevel::kInfo : LogLevel::kError, options_.info_log,
        "backup %u: %s", latest + 1, status.ToString().c_str());
    if (status.ok()) {
      MutexLock lock(&damaged_mu_);
      for (const std::string& path : creation.healed()) damaged_.erase(path);
    }
    if (status.ok() && id != nullptr) *id = latest + 1;
    if (status.ok() && !creation.healed().empty() && !set_.corrupt().empty()) {
      // Earlier backups may be whole again.
      status = set_.Load(SIZE_MAX);
    }
    // The next engine continues with what a stopped one has copied.
    if (!status.ok()) may_have_garbage_ = true;
    if (may_have_garbage_ && !status.IsIncomplete()) {
      may_have_garbage_ = !set_.CollectGarbage().ok();
    }
    return status;
  });
}

void BackupEngineImpl::Stop() {
  // relaxed: see TransferControl::CheckStop.
  is_stopped_.store(true, std::memory_order_relaxed);
}

Status BackupEngineImpl::GarbageCollect() {
  return ChangeBackups([&] {
    Status status = set_.CollectGarbage();
    may_have_garbage_ = !status.ok();
    return status;
  });
}

Status BackupEngineImpl::Purge(uint32_t count) {
  return ChangeBackups([&] {
    std::vector<BackupID> ids;
    for (const auto& [id, meta] : set_.backups()) ids.push_back(id);
    ids.resize(ids.size() - std::min<size_t>(ids.size(), count));
    Status status;
    for (const BackupID id : ids) {
      if (status.ok()) status = set_.Remove(id, options_.sync);
    }
    Status collected = set_.CollectGarbage();
    may_have_garbage_ = !collected.ok();
    return status.ok() ? collected : status;
  });
}

Status BackupEngineImpl::Delete(BackupID id) {
  return ChangeBackups([&] {
    Status status = set_.Remove(id, options_.sync);
    if (!status.ok()) return status;
    status = set_.CollectGarbage();
    may_have_garbage_ = !status.ok();
    return status;
  });
}

}  // namespace varve
