// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_creation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/backup/user_calls.h"
#include "table/reader/table_opener.h"

namespace varve {

namespace {

// Returns the identity of the session that wrote a table, or "" if it has none
// that can be a part of a name.
std::string SessionOf(Env* env, const std::string& path, uint64_t size) {
  TableReaderOptions options;
  options.file_name = path;
  options.file_size = size;
  std::unique_ptr<RandomAccessFile> file;
  PropertiesBlock properties;
  Status status = env->NewRandomAccessFile(path, FileOptions(), &file);
  if (status.ok()) {
    status = ReadPropertiesOf(options, std::move(file), &properties);
  }
  // A table that cannot be read is copied all the same: it may be all there is.
  if (!status.ok() || !IsSessionName(properties.session_identity)) return "";
  return properties.session_identity;
}

// Ends the hold of the database's files.
class DeletionsDisabled {
 public:
  explicit DeletionsDisabled(DB* db)
      : db_(db), status_(db->DisableFileDeletions()) {}
  DeletionsDisabled(const DeletionsDisabled&) = delete;
  DeletionsDisabled& operator=(const DeletionsDisabled&) = delete;
  // The files are removed later at the latest when the database is opened.
  ~DeletionsDisabled() {
    if (status_.ok()) db_->EnableFileDeletions().IgnoreError();
  }

  const Status& status() const { return status_; }

 private:
  DB* const db_;
  const Status status_;
};

}  // namespace

int NiceOf(const CreateBackupOptions& options) {
  if (!options.decrease_background_thread_cpu_priority) return 0;
  switch (options.background_thread_cpu_priority) {
    case CpuPriority::kIdle:
      return 19;
    case CpuPriority::kLow:
      return 10;
    case CpuPriority::kNormal:
    case CpuPriority::kHigh:
      break;
  }
  return 0;
}

BackupCreation::BackupCreation(const BackupEngineOptions& options,
                               const CreateBackupOptions& create_options,
                               const std::set<std::string>& damaged, DB* db,
                               BackupSet* set, TransferControl* control)
    : options_(options),
      create_options_(create_options),
      damaged_(damaged),
      db_(db),
      from_env_(db->GetEnv()),
      set_(set),
      control_(control) {}

Status BackupCreation::Run(BackupID id, const std::string& app_metadata) {
  BackupMeta meta;
  meta.id = id;
  meta.app_metadata = app_metadata;
  {
    // Before the files are listed, and until they are copied.
    const DeletionsDisabled hold(db_);
    Status status = hold.status();
    if (status.ok()) status = ListItems(id);
    if (status.ok()) status = Exclude();
    if (status.ok()) {
      status = set_->env()->CreateDirIfMissing(set_->PathOf(PrivateFolder(id)));
    }
    if (status.ok()) status = CopyAll();
    if (!status.ok()) return status;
    meta.sequence = db_->GetLatestSequenceNumber();
  }
  for (Item& item : items_) {
    if (item.was_healed) healed_.push_back(item.file.path);
    if (item.is_gone) continue;
    if (item.is_excluded) {
      meta.excluded.push_back(std::move(item.file.path));
    } else {
      meta.files.push_back(std::move(item.file));
    }
  }
  // The date of the backup.
  meta.timestamp_s = static_cast<int64_t>(set_->env()->NowMicros() / 1'000'000);
  // All of it must be durable before it is visible.
  Status status;
  if (options_.sync) status = SyncFolders(id);
  if (status.ok()) status = control_->CheckStop();
  if (status.ok()) {
    status = set_->Add(std::move(meta), options_.schema_version, options_.sync);
  }
  return status;
}

Status BackupCreation::ListItems(BackupID id) {
  LiveFilesStorageInfoOptions live_options;
  live_options.wal_size_for_flush =
      create_options_.flush_before_backup ? 0 : UINT64_MAX;
  std::vector<LiveFileStorageInfo> files;
  Status status = db_->GetLiveFilesStorageInfo(live_options, &files);
  if (!status.ok()) return status;
  for (LiveFileStorageInfo& file : files) {
    if (file.file_type == FileType::kWalFile && !options_.backup_log_files) {
      continue;
    }
    Item& item = items_.emplace_back();
    item.source = std::move(file);
    item.from = item.source.directory + "/" + item.source.relative_filename;
    item.is_shared = options_.share_table_files &&
                     (item.source.file_type == FileType::kTableFile ||
                      item.source.file_type == FileType::kBlobFile);
    if (item.is_shared) {
      status = NameShared(&item);
    } else {
      item.file.path = PrivateFolder(id) + "/" + item.source.relative_filename;
    }
    if (status.ok()) status = control_->CheckStop();
    if (!status.ok()) return status;
  }
  // The small files first, since the database may replace the OPTIONS file.
  std::stable_sort(
      items_.begin(), items_.end(),
      [](const Item& a, const Item& b) { return a.is_shared < b.is_shared; });
  return status;
}

Status BackupCreation::NameShared(Item* item) {
  const std::string& name = item->source.relative_filename;
  if (!options_.share_files_with_checksum) {
    item->file.path = std::string(kSharedFolder) + "/" + name;
    return Status::OK();
  }
  const uint32_t naming = options_.share_files_with_checksum_naming;
  if ((naming & BackupEngineOptions::kMaskNoNamingFlags) ==
      BackupEngineOptions::kUseDbSessionId) {
    const std::string session =
        SessionOf(from_env_, item->from, item->source.size);
    if (!session.empty()) {
      item->file.path = SessionPath(
          name, session, item->source.size,
          (naming & BackupEngineOptions::kFlagIncludeFileSize) != 0);
      return Status::OK();
    }
  }
  TransferResult read;
  Status status =
      ChecksumFile(from_env_, item->from, item->source.size, control_, &read);
  if (status.ok()) {
    item->file.path = ChecksumPath(name, read.crc32c, read.size);
  }
  return status;
}

Status BackupCreation::Exclude() {
  if (!create_options_.exclude_files_callback) return Status::OK();
  std::vector<MaybeExcludeBackupFile> files;
  std::vector<Item*> items;
  for (Item& item : items_) {
    if (!item.is_shared || !options_.share_files_with_checksum) continue;
    files.emplace_back().info.relative_file = item.file.path;
    items.push_back(&item);
  }
  if (files.empty()) return Status::OK();
  Status status = CallExclude(create_options_.exclude_files_callback,
                              files.data(), files.data() + files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    items[i]->is_excluded = files[i].exclude_decision;
  }
  return status;
}

// ---- Copies -----------------------------------------------------------------

Status BackupCreation::CopyAll() {
  return RunTransfers(items_.size(), options_.max_background_operations,
                      NiceOf(create_options_), [&](size_t i) {
                        Item* const item = &items_[i];
                        if (item->is_excluded) return Status::OK();
                        return item->is_shared ? CopyShared(item)
                                               : CopyPrivate(item);
                      });
}

Status BackupCreation::CopyPrivate(Item* item) {
  const LiveFileStorageInfo& source = item->source;
  const std::string to = set_->PathOf(item->file.path);
  TransferResult copied;
  Status status;
  if (!source.replacement_contents.empty()) {
    status = TransferContents(source.replacement_contents, set_->env(), to,
                              options_.sync, control_, &copied);
  } else {
    status = TransferFile(from_env_, item->from, source.size, set_->env(), to,
                          options_.sync, control_, &copied);
  }
  if (status.IsNotFound() && source.file_type == FileType::kOptionsFile) {
    // File deletions do not hold it, and nothing needs it.
    item->is_gone = true;
    return set_->env()->RemoveFile(to);
  }
  item->file.size = copied.size;
  item->file.crc32c = copied.crc32c;
  item->file.has_checksum = true;
  return status;
}

Status BackupCreation::FindShared(Item* item, bool* found) {
  *found = false;
  const std::string to = set_->PathOf(item->file.path);
  if (damaged_.contains(item->file.path)) return Status::OK();
  uint64_t size = 0;
  Status status = set_->env()->FileExists(to);
  if (status.ok()) status = set_->env()->GetFileSize(to, &size);
  if (status.IsNotFound()) return Status::OK();
  if (!status.ok() || size != item->source.size) return status;
  const BackupFile* const known = set_->FindFile(item->file.path);
  if (known != nullptr && known->has_checksum &&
      options_.share_files_with_checksum) {
    // A session's identity and a number name one table. The ends find what
    // hardly happens: another table, or damage to this one.
    if (known->size != size) return Status::OK();
    status = CompareEnds(from_env_, item->from, set_->env(), to, size, found);
    if (*found) {
      item->file.size = known->size;
      item->file.crc32c = known->crc32c;
      item->file.has_checksum = true;
    }
    return status;
  }
  // Of an interrupted backup, or a name without a meaning.
  TransferResult source;
  TransferResult present;
  status = ChecksumFile(from_env_, item->from, size, control_, &source);
  if (status.ok()) {
    status = ChecksumFile(set_->env(), to, kUnknownSize, control_, &present);
  }
  *found = status.ok() && source.size == present.size &&
           source.crc32c == present.crc32c &&
           (known == nullptr || !known->has_checksum ||
            known->crc32c == source.crc32c);
  if (*found && known == nullptr && options_.sync) {
    // The interrupted call may not have synced it.
    *found = set_->env()->SyncFile(to).ok();
  }
  item->file.size = present.size;
  item->file.crc32c = present.crc32c;
  item->file.has_checksum = true;
  return status;
}

Status BackupCreation::CopyShared(Item* item) {
  bool found = false;
  Status status = FindShared(item, &found);
  if (!status.ok() || found) return status;
  Env* const env = set_->env();
  const std::string temporary = set_->PathOf(TemporaryPath(item->file.path));
  TransferResult copied;
  status = TransferFile(from_env_, item->from, item->source.size, env,
                        temporary, options_.sync, control_, &copied);
  if (!status.ok()) return status;
  item->file.size = copied.size;
  item->file.crc32c = copied.crc32c;
  item->file.has_checksum = true;
  const BackupFile* const known = set_->FindFile(item->file.path);
  const auto differs = [&](const BackupFile* file) {
    return file != nullptr &&
           (!file->has_checksum || file->crc32c != copied.crc32c ||
            file->size != copied.size);
  };
  if (differs(known)) {
    // Earlier backups need the other file.
    item->file.path = ChecksumPath(item->source.relative_filename,
                                   copied.crc32c, copied.size);
    if (!options_.share_files_with_checksum ||
        differs(set_->FindFile(item->file.path))) {
      env->RemoveFile(temporary).IgnoreError();  // Or by CollectGarbage.
      return Status::InvalidArgument(
          item->from, "is another table than that of an earlier backup");
    }
  } else {
    // The same bytes: earlier backups become right if it was damaged.
    item->was_healed = known != nullptr;
  }
  return env->RenameFile(temporary, set_->PathOf(item->file.path));
}

// ---- Durability -------------------------------------------------------------

Status BackupCreation::SyncFolders(BackupID id) {
  std::set<std::string> folders = {PrivateFolder(id), kPrivateFolder};
  for (const Item& item : items_) {
    if (!item.is_shared || item.is_excluded) continue;
    folders.insert(options_.share_files_with_checksum ? kSharedChecksumFolder
                                                      : kSharedFolder);
  }
  Status status;
  for (const std::string& folder : folders) {
    if (status.ok()) status = set_->SyncFolder(folder);
  }
  return status;
}

}  // namespace varve
