// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/directory/db_directory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "env/file_names.h"
#include "util/base/system_random.h"

namespace varve {

namespace {

constexpr size_t kMaxIdentityBytes = 255;

// 36 characters, version 4 of RFC 4122.
std::string NewUuid() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string uuid = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  uint64_t bits = 0;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i % 16 == 0) bits = SystemRandom();
    if (uuid[i] == 'x') uuid[i] = kDigits[bits & 15];
    if (uuid[i] == 'y') uuid[i] = kDigits[8 + (bits & 3)];
    bits >>= 4;
  }
  return uuid;
}

// LOCK is the first file that is created. A directory without it may still
// contain a database that was copied or damaged.
bool HoldsDatabaseFiles(Env* env, const std::string& path) {
  std::vector<std::string> names;
  // The lock reports errors of the directory.
  if (!env->GetChildren(path, &names).ok()) return true;
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    uint64_t number = 0;
    FileKind type = FileKind::kInfoLog;
    return ParseFileName(name, &number, &type) && type != FileKind::kInfoLog;
  });
}

}  // namespace

Status NoDatabase(const std::string& path, bool read_only) {
  return Status::InvalidArgument(
      path, read_only ? "holds no database"
                      : "holds no database (create_if_missing is false)");
}

Status DbDirectory::Open(bool name_is_safe, bool create_if_missing) {
  // CURRENT was created after the directory's name was durable.
  Status status = env_->FileExists(CurrentFileName(path_));
  if (status.IsNotFound()) {
    status = name_is_safe ? Status::OK()
                          : MakeSafeDirectory(env_, path_, create_if_missing);
    // A directory without a database is left alone unless a database is to be
    // created. Without the lock, its contents may change at any time.
    if (status.ok() && !create_if_missing) {
      status = HoldsDatabaseFiles(env_, path_) ? Status::OK()
                                               : NoDatabase(path_, false);
    }
  }
  if (status.ok() && directory_env_ != nullptr) status = directory_env_->Hold();
  return status.ok() ? LockForWriting() : status;
}

Status DbDirectory::LockForWriting() {
  Status status = env_->LockFile(LockFileName(path_), &lock_);
  if (!status.ok()) return status;
  std::unique_ptr<Directory> directory;
  status = env_->NewDirectory(path_, &directory);
  if (status.ok()) {
    directory_ = std::make_unique<StickyErrorDirectory>(std::move(directory));
  }
  return status;
}

void DbDirectory::OpenForReading() {
  // Recovery meets the same, by name.
  if (directory_env_ != nullptr) directory_env_->Hold().IgnoreError();
}

Status DbDirectory::Unlock() {
  return lock_ != nullptr ? env_->UnlockFile(std::move(lock_)) : Status::OK();
}

Status DbDirectory::Close() {
  Status status = Unlock();
  directory_.reset();
  if (directory_env_ != nullptr) directory_env_->LetGo();
  return status;
}

Status DbDirectory::LoadIdentity(const std::string& db_id) {
  const std::string path = IdentityFileName(path_);
  // A longer file is not an identity.
  char scratch[kMaxIdentityBytes + 1];
  Slice text;
  std::unique_ptr<SequentialFile> file;
  Status status = env_->NewSequentialFile(path, FileOptions(), &file);
  if (status.ok()) status = file->Read(sizeof(scratch), &text, scratch);
  if (!status.ok() && !status.IsNotFound()) return status;
  while (!text.empty() && text[text.size() - 1] == '\n') {
    text.remove_suffix(1);
  }
  if (status.ok() && !text.empty() && text.size() <= kMaxIdentityBytes) {
    identity_ = text.ToString();
    identity_is_stored_ = true;
    return Status::OK();
  }
  identity_ = db_id.empty() ? NewUuid() : db_id;
  return Status::OK();
}

Status DbDirectory::StoreIdentity(const std::string& temporary) {
  if (identity_is_stored_) return Status::OK();
  const std::string path = IdentityFileName(path_);
  Status status = WriteStringToFile(env_, identity_, temporary, true);
  // Synced with the directory before the first MANIFEST is.
  if (status.ok()) status = env_->RenameFile(temporary, path);
  return status;
}

}  // namespace varve
