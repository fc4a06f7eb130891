// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <string>
#include <vector>

#include "db/recovery/foreign_files.h"
#include "db/recovery/leveldb_guard.h"
#include "db/version/best_effort_manifest.h"
#include "db/wal/wal_archive.h"
#include "env/file_names.h"
#include "env/held_directory.h"
#include "varve/db.h"

namespace varve {

namespace {

// The names of a database's files. Foreign ones are left where they are.
Status ListFiles(Env* env, const std::string& path,
                 std::vector<std::string>* names) {
  Status status = env->GetChildren(path, names);
  if (!status.ok()) return status;
  BestEffortManifest manifest;
  ReadBestEffortManifest(env, path, *names, &manifest);
  std::erase_if(*names, [&](const std::string& name) {
    uint64_t number;
    FileKind type;
    return !ParseFileName(name, &number, &type) ||
           IsLevelDbGuard(env, path, name) ||
           (!manifest.Names(type, number) &&
            IsForeignFile(env, path + "/" + name, type, number,
                          manifest.next_file_number));
  });
  return status;
}

// Removes the archived logs, and the folder unless other files are in it.
Status RemoveArchive(Env* env, const std::string& path) {
  if (env->FileExists(ArchiveDirectory(path)).IsNotFound()) {
    return Status::OK();
  }
  std::vector<uint64_t> numbers;
  Status result = ListArchive(env, path, &numbers);
  for (const uint64_t number : numbers) {
    const Status status = env->RemoveFile(ArchivedWalFileName(path, number));
    if (result.ok() && !status.IsNotFound()) result = status;
  }
  env->RemoveDir(ArchiveDirectory(path)).IgnoreError();  // Or it is missing.
  return result;
}

// CURRENT goes first: what is left after a failure is no database.
Status RemoveFiles(Env* env, const std::string& path) {
  std::vector<std::string> names;
  Status result = ListFiles(env, path, &names);
  if (!result.ok()) return result;
  result = env->RemoveFile(CurrentFileName(path));
  if (result.IsNotFound()) result = Status::OK();
  for (const std::string& name : names) {
    if (name == "CURRENT" || name == "LOCK") continue;
    const Status status = env->RemoveFile(path + "/" + name);
    if (result.ok() && !status.IsNotFound()) result = status;
  }
  RemoveLevelDbGuard(env, path);
  const Status archive = RemoveArchive(env, path);
  return result.ok() ? archive : result;
}

}  // namespace

Status DestroyDB(const std::string& given_path, const Options& options) {
  if (options.env == nullptr) return Status::InvalidArgument("env is null");
  const HeldDirectory directory(options.env, given_path);
  Env* const env = directory.env();
  const std::string& path = directory.path();
  std::vector<std::string> names;
  Status status = ListFiles(env, path, &names);
  if (status.IsNotFound()) return Status::OK();
  if (!status.ok()) return status;
  if (names.empty()) {
    RemoveLevelDbGuard(env, path);
    env->RemoveDir(path).IgnoreError();  // It may not be empty.
    return Status::OK();
  }
  std::unique_ptr<FileLock> lock;
  const std::string lock_path = LockFileName(path);
  status = env->LockFile(lock_path, &lock);
  if (!status.ok()) return status;
  // Another process may have created files in the meantime.
  Status result = RemoveFiles(env, path);
  // While it is held: afterwards it may be another's. An empty file does no
  // harm.
  env->RemoveFile(lock_path).IgnoreError();
  status = env->UnlockFile(std::move(lock));
  if (result.ok()) result = status;
  env->RemoveDir(path).IgnoreError();  // Other files may be in it.
  return result;
}

}  // namespace varve
