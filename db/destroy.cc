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
  for (const std::string& name : names) {
    uint64_t number;
    FileType type;
    if (ParseFileName(name, &number, &type) && type != FileType::kLock) {
      ours.push_back(name);
    }
  }
  if (ours.empty()) {
    env->RemoveFile(LockFileName(path)).IgnoreError();  // Often not there.
    env->RemoveDir(path).IgnoreError();                 // Nor empty.
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
  status = env->UnlockFile(std::move(lock));
  if (result.ok()) result = status;
  env->RemoveFile(lock_path).IgnoreError();  // An empty file does no harm.
  env->RemoveDir(path).IgnoreError();        // Other files may be in it.
  return result;
}

}  // namespace varve
