// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "db/backup/file_transfer.h"

namespace varve {

namespace {

// A missing directory has no entries.
Status ListFolder(Env* env, const std::string& path,
                  std::vector<std::string>* names) {
  names->clear();
  Status status = env->FileExists(path);
  if (status.IsNotFound()) return Status::OK();
  if (status.ok()) status = env->GetChildren(path, names);
  return status;
}

// Whether an error says that a backup is damaged, and not that the device or
// the Env failed.
bool IsDamage(const Status& status) {
  return status.IsCorruption() || status.IsNotSupported() ||
         status.IsNotFound();
}

}  // namespace

Status BackupSet::ListIds(std::vector<BackupID>* ids) const {
  ids->clear();
  std::vector<std::string> names;
  Status status = ListFolder(env_, PathOf(kMetaFolder), &names);
  for (const std::string& name : names) {
    BackupID id;
    if (ParseBackupId(name, &id)) ids->push_back(id);
  }
  std::sort(ids->begin(), ids->end());
  return status;
}

bool BackupSet::HasChanged() const {
  std::vector<BackupID> ids;
  return !ListIds(&ids).ok() || ids != listed_;
}

Status BackupSet::Load(size_t max_valid) {
  backups_.clear();
  corrupt_.clear();
  index_.clear();
  Status status = ListIds(&listed_);
  std::map<std::string, uint64_t> sizes;
  for (auto id = listed_.rbegin();
       status.ok() && id != listed_.rend() && backups_.size() < max_valid;
       ++id) {
    status = LoadOne(*id, &sizes);
  }
  if (status.ok()) status = SettleConflicts();
  for (const auto& [id, meta] : backups_) AddToIndex(meta, true);
  for (const auto& [id, corrupt] : corrupt_) {
    if (corrupt.meta.has_value()) AddToIndex(*corrupt.meta, false);
  }
  // The next change reads them again.
  if (!status.ok()) listed_.clear();
  return status;
}

Status BackupSet::LoadOne(BackupID id, std::map<std::string, uint64_t>* sizes) {
  std::string text;
  BackupMeta meta;
  Status status = ReadFileToString(env_, PathOf(MetaPath(id)), &text);
  bool is_readable = false;
  if (status.ok()) {
    status = ParseBackupMeta(text, id, &meta);
    is_readable = status.ok();
  }
  if (status.ok()) status = CheckFiles(sizes, &meta);
  if (status.ok()) {
    backups_[id] = std::move(meta);
    return status;
  }
  if (!IsDamage(status)) return status;
  Log(LogLevel::kWarn, log_, "backup %u: %s", id, status.ToString().c_str());
  Corrupt& corrupt = corrupt_[id];
  // As RocksDB says it, whatever is wrong.
  corrupt.reason = status.IsNotFound() ? Status::Corruption("a file is missing",
                                                            status.ToString())
                                       : status;
  if (is_readable) corrupt.meta = std::move(meta);
  return Status::OK();
}

Status BackupSet::CheckFiles(std::map<std::string, uint64_t>* sizes,
                             BackupMeta* meta) const {
  for (BackupFile& file : meta->files) {
    const auto [known, is_new] = sizes->try_emplace(file.path, kUnknownSize);
    if (is_new) {
      Status status = env_->GetFileSize(PathOf(file.path), &known->second);
      if (!status.ok()) {
        sizes->erase(known);
        return status;
      }
    }
    if (file.size == kUnknownSize) file.size = known->second;
    if (file.size != known->second) {
      return Status::Corruption(PathOf(file.path),
                                "has " + std::to_string(known->second) +
                                    " bytes, and should have " +
                                    std::to_string(file.size));
    }
  }
  return Status::OK();
}

BackupID BackupSet::LatestId() const {
  return listed_.empty() ? 0 : listed_.back();
}

Status BackupSet::Find(BackupID id, const BackupMeta** meta) const {
  const auto corrupt = corrupt_.find(id);
  if (corrupt != corrupt_.end()) return corrupt->second.reason;
  const auto found = backups_.find(id);
  if (found == backups_.end()) {
    return Status::NotFound("there is no backup " + std::to_string(id));
  }
  *meta = &found->second;
  return Status::OK();
}

const BackupFile* BackupSet::FindFile(const std::string& path) const {
  const auto found = index_.find(path);
  return found == index_.end() ? nullptr : &found->second.file;
}

void BackupSet::AddToIndex(const BackupMeta& meta, bool is_complete) {
  for (const BackupFile& file : meta.files) {
    Indexed& indexed = index_[file.path];
    // The first, or the first that counts.
    if (indexed.complete_count == 0 &&
        (is_complete || indexed.corrupt_count == 0)) {
      indexed.file = file;
    }
    ++(is_complete ? indexed.complete_count : indexed.corrupt_count);
  }
}

void BackupSet::TakeFromIndex(const BackupMeta& meta, bool is_complete) {
  for (const BackupFile& file : meta.files) {
    const auto found = index_.find(file.path);
    Indexed& indexed = found->second;
    --(is_complete ? indexed.complete_count : indexed.corrupt_count);
    if (indexed.complete_count + indexed.corrupt_count == 0) {
      index_.erase(found);
    }
  }
}

Status BackupSet::SettleConflicts() {
  std::unordered_map<std::string, uint32_t> checksums;
  std::set<std::string> disputed;
  for (const auto& [id, meta] : backups_) {
    for (const BackupFile& file : meta.files) {
      if (!file.has_checksum) continue;
      const auto first = checksums.try_emplace(file.path, file.crc32c).first;
      if (first->second != file.crc32c) disputed.insert(file.path);
    }
  }
  TransferControl control(nullptr, nullptr, 0, 0, nullptr);
  for (const std::string& path : disputed) {
    TransferResult real;
    Status status =
        ChecksumFile(env_, PathOf(path), kUnknownSize, &control, &real);
    if (!status.ok()) return status;
    for (auto backup = backups_.begin(); backup != backups_.end();) {
      BackupMeta& meta = backup->second;
      const bool is_wrong = std::any_of(
          meta.files.begin(), meta.files.end(), [&](const BackupFile& file) {
            return file.path == path && file.has_checksum &&
                   file.crc32c != real.crc32c;
          });
      if (!is_wrong) {
        ++backup;
        continue;
      }
      Corrupt& corrupt = corrupt_[backup->first];
      corrupt.reason = Status::Corruption(
          PathOf(path), "has another checksum than another backup says");
      corrupt.meta = std::move(meta);
      backup = backups_.erase(backup);
    }
  }
  return Status::OK();
}

// ---- Changes ----------------------------------------------------------------

Status BackupSet::SyncFolder(const std::string& relative) const {
  std::unique_ptr<Directory> folder;
  Status status = env_->NewDirectory(PathOf(relative), &folder);
  if (status.ok()) status = folder->Sync();
  return status;
}

Status BackupSet::Add(BackupMeta meta, int schema_version, bool sync) {
  const BackupID id = meta.id;
  const std::string temporary = PathOf(MetaPath(id, /*is_temporary=*/true));
  Status status = WriteStringToFile(
      env_, FormatBackupMeta(meta, schema_version), temporary, sync);
  if (status.ok()) status = env_->RenameFile(temporary, PathOf(MetaPath(id)));
  if (status.ok() && sync) {
    status = SyncFolder(kMetaFolder);
    // The caller is told that there is no such backup.
    if (!status.ok()) env_->RemoveFile(PathOf(MetaPath(id))).IgnoreError();
  }
  if (!status.ok()) {
    env_->RemoveFile(temporary).IgnoreError();  // Or by CollectGarbage.
    return status;
  }
  AddToIndex(meta, true);
  backups_[id] = std::move(meta);
  listed_.push_back(id);
  return status;
}

Status BackupSet::Remove(BackupID id, bool sync) {
  if (!std::binary_search(listed_.begin(), listed_.end(), id)) {
    return Status::NotFound("there is no backup " + std::to_string(id));
  }
  Status status = env_->RemoveFile(PathOf(MetaPath(id)));
  if (status.IsNotFound()) status = Status::OK();
  // A power cut must not bring it back without its files.
  if (status.ok() && sync) status = SyncFolder(kMetaFolder);
  if (!status.ok()) return status;
  const auto backup = backups_.find(id);
  if (backup != backups_.end()) {
    TakeFromIndex(backup->second, true);
    backups_.erase(backup);
  }
  const auto corrupt = corrupt_.find(id);
  if (corrupt != corrupt_.end()) {
    if (corrupt->second.meta.has_value()) {
      TakeFromIndex(*corrupt->second.meta, false);
    }
    corrupt_.erase(corrupt);
  }
  listed_.erase(std::lower_bound(listed_.begin(), listed_.end(), id));
  Log(LogLevel::kInfo, log_, "backup %u: deleted", id);
  return status;
}

void BackupSet::RemoveFile(const std::string& relative, Status* first_error) {
  Status status = env_->RemoveFile(PathOf(relative));
  Log(LogLevel::kInfo, log_, "remove %s: %s", relative.c_str(),
      status.ToString().c_str());
  if (!status.ok() && !status.IsNotFound() && first_error->ok()) {
    *first_error = status;
  }
}

void BackupSet::CollectShared(const char* folder, Status* first_error) {
  std::vector<std::string> names;
  Status status = ListFolder(env_, PathOf(folder), &names);
  if (!status.ok()) {
    if (first_error->ok()) *first_error = status;
    return;
  }
  // A corrupt backup whose list cannot be read may need any of them.
  const bool is_known =
      std::all_of(corrupt_.begin(), corrupt_.end(),
                  [](const auto& c) { return c.second.meta.has_value(); });
  for (const std::string& name : names) {
    const std::string path = std::string(folder) + "/" + name;
    BackupPath parsed;
    if (IsTemporaryName(name) || (is_known && !index_.contains(path) &&
                                  ParseBackupPath(path, /*id=*/0, &parsed))) {
      RemoveFile(path, first_error);
    }
  }
}

Status BackupSet::RemovePrivateFolder(BackupID id) {
  const std::string folder = PrivateFolder(id);
  std::vector<std::string> names;
  Status status = ListFolder(env_, PathOf(folder), &names);
  for (const std::string& name : names) {
    RemoveFile(folder + "/" + name, &status);
  }
  if (status.ok()) status = env_->FileExists(PathOf(folder));
  if (status.ok()) status = env_->RemoveDir(PathOf(folder));
  return status.IsNotFound() ? Status::OK() : status;
}

Status BackupSet::CollectGarbage() {
  Status first_error;
  std::vector<std::string> names;
  const auto list = [&](const char* folder) {
    Status status = ListFolder(env_, PathOf(folder), &names);
    if (!status.ok()) names.clear();
    if (first_error.ok()) first_error = status;
  };
  list(kMetaFolder);
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) {
      RemoveFile(std::string(kMetaFolder) + "/" + name, &first_error);
    }
  }
  CollectShared(kSharedFolder, &first_error);
  CollectShared(kSharedChecksumFolder, &first_error);
  list(kPrivateFolder);
  for (const std::string& name : names) {
    BackupID id;
    if (ParseBackupId(name, &id) &&
        !std::binary_search(listed_.begin(), listed_.end(), id)) {
      Status status = RemovePrivateFolder(id);
      if (first_error.ok()) first_error = status;
    }
  }
  return first_error;
}

}  // namespace varve
