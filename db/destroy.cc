// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/file_names.h"
#include "varve/db.h"

namespace varve {

Status DestroyDB(const std::string& path, const Options& options) {
  Env* const env = options.env;
  std::vector<std::string> names;
  Status status = env->GetChildren(path, &names);
  if (status.IsNotFound()) return Status::OK();
  if (!status.ok()) return status;
  std::vector<std::string> ours;
  bool has_lock = false;
  for (const std::string& name : names) {
    uint64_t number;
    FileType type;
    if (!ParseFileName(name, &number, &type)) continue;
    if (type == FileType::kLock) {
      has_lock = true;
    } else {
      ours.push_back(name);
    }
  }
  if (ours.empty() && !has_lock) {
    env->RemoveDir(path).IgnoreError();  // It may not be empty.
    return Status::OK();
  }
  std::unique_ptr<FileLock> lock;
  const std::string lock_path = LockFileName(path);
  status = env->LockFile(lock_path, &lock);
  if (!status.ok()) return status;
  // CURRENT goes first: what is left after a failure is no database.
  Status result = env->RemoveFile(CurrentFileName(path));
  if (result.IsNotFound()) result = Status::OK();
  for (const std::string& name : ours) {
    if (name == "CURRENT") continue;
    status = env->RemoveFile(path + "/" + name);
    if (result.ok() && !status.IsNotFound()) result = status;
  }
  // While it is held: afterwards it may be another's. An empty file does no
  // harm.
  env->RemoveFile(lock_path).IgnoreError();
  status = env->UnlockFile(std::move(lock));
  if (result.ok()) result = status;
  env->RemoveDir(path).IgnoreError();  // Other files may be in it.
  return result;
}

}  // namespace varve
