// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/leveldb_guard.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "db/version/best_effort_manifest.h"
#include "env/file_names.h"

namespace varve {

namespace {

constexpr char kText[] =
    "This database is in RocksDB's format. LevelDB and goleveldb cannot read\n"
    "it, and would destroy it if they repaired it. The entries 000001.dbtmp,\n"
    "CURRENT.1 and +0.ldb make their repair functions fail.\n"
    "\n"
    "If files have disappeared from this directory, they are in lost/, and\n"
    "  varve repair --db=DIRECTORY\n"
    "brings them back.\n";

constexpr char kDirectory[] = "000001.dbtmp";
constexpr const char* kDirectories[] = {kDirectory, "CURRENT.1"};
constexpr char kFile[] = "+0.ldb";
constexpr char kTextName[] = "README.txt";

constexpr char kLost[] = "lost";

std::string Join(const std::string& directory, const std::string& name) {
  return directory + "/" + name;
}

bool IsTable(FileKind type) {
  return type == FileKind::kTable || type == FileKind::kLevelDbTable;
}

// The files of lost/ that belong to the database.
class MovedFiles {
 public:
  MovedFiles(Env* env, const std::string& path)
      : env_(env), lost_(Join(path, kLost)) {
    // Without lost/ nothing was moved.
    if (!env_->GetChildren(lost_, &lost_names_).ok()) lost_names_.clear();
    std::vector<std::string> names;
    if (none() || !env_->GetChildren(path, &names).ok()) return;
    for (const std::string& name : names) {
      uint64_t number = 0;
      FileKind type;
      if (!ParseFileName(name, &number, &type)) continue;
      if (IsTable(type)) tables_.insert(number);
      if (type == FileKind::kWal) logs_.insert(number);
    }
  }

  // Returns the name of the newest MANIFEST there that an engine has written,
  // and its content. LevelDB writes no identity. Returns "" if there is none.
  std::string EnginesManifest(BestEffortManifest* manifest) const {
    std::string newest;
    for (const std::string& name : lost_names_) {
      uint64_t number = 0;
      FileKind type;
      if (!ParseFileName(name, &number, &type) || type != FileKind::kManifest ||
          (!newest.empty() && number <= manifest->manifest_number)) {
        continue;
      }
      BestEffortManifest found;
      ReadBestEffortManifest(env_, lost_, {name}, &found);
      if (found.db_id.empty()) continue;
      *manifest = std::move(found);
      newest = name;
    }
    return newest;
  }

  // Returns the names of the tables and logs that are only there.
  std::vector<std::string> Needed(
      const std::function<bool(uint64_t)>& names_table,
      const std::function<bool(uint64_t)>& replays_log) const {
    std::vector<std::string> needed;
    for (const std::string& name : lost_names_) {
      uint64_t number = 0;
      FileKind type;
      if (!ParseFileName(name, &number, &type)) continue;
      if ((IsTable(type) && !tables_.contains(number) && names_table(number)) ||
          (type == FileKind::kWal && !logs_.contains(number) &&
           replays_log(number))) {
        needed.push_back(name);
      }
    }
    return needed;
  }

  bool none() const { return lost_names_.empty(); }
  const std::string& lost() const { return lost_; }

 private:
  Env* const env_;
  const std::string lost_;
  std::vector<std::string> lost_names_;
  std::set<uint64_t> tables_;  // In the directory itself.
  std::set<uint64_t> logs_;
};

bool IsLevelDbManifest(const BestEffortManifest& manifest) {
  return manifest.db_id.empty() &&
         std::all_of(manifest.tables.begin(), manifest.tables.end(),
                     [](const auto& table) {
                       return table.second.file.sequences_unknown;
                     });
}

}  // namespace

bool IsLevelDbManifest(const ManifestState& manifest) {
  bool result = manifest.db_id.empty() && !manifest.logs_are_files;
  manifest.ForEachFile([&result](const FileMetaData* file) {
    result = result && file->sequences_unknown;
  });
  return result;
}

Status AddLevelDbGuard(Env* env, const std::string& path) {
  Status status;
  for (const char* const name : kDirectories) {
    const std::string directory = Join(path, name);
    if (status.ok()) status = env->CreateDirIfMissing(directory);
    // A directory with a file in it is not removed by mistake.
    if (status.ok()) {
      status = WriteStringToFile(env, kText, Join(directory, kTextName), false);
    }
  }
  if (!status.ok()) return status;
  return WriteStringToFile(env, kText, Join(path, kFile), false);
}

bool IsLevelDbGuard(Env* env, const std::string& path,
                    const std::string& name) {
  return name == kDirectory &&
         env->FileExists(Join(Join(path, name), kTextName)).ok();
}

void RemoveLevelDbGuard(Env* env, const std::string& path) {
  for (const char* const name : kDirectories) {
    const std::string directory = Join(path, name);
    if (!env->RemoveFile(Join(directory, kTextName)).ok()) continue;
    // It stays if other files are in it.
    env->RemoveDir(directory).IgnoreError();
  }
  env->RemoveFile(Join(path, kFile)).IgnoreError();  // It may not exist.
}

Status CheckMovedByLevelDb(Env* env, const std::string& path,
                           const ManifestState& manifest) {
  const MovedFiles moved(env, path);
  if (moved.none()) return Status::OK();
  constexpr char kAdvice[] =
      "LevelDB's repair function seems to have moved it there; RepairDB or "
      "`varve repair` brings it back";
  BestEffortManifest engines;
  std::string name;
  if (IsLevelDbManifest(manifest)) name = moved.EnginesManifest(&engines);
  if (name.empty()) {
    std::set<uint64_t> tables;
    manifest.ForEachFile(
        [&tables](const FileMetaData* file) { tables.insert(file->number); });
    const auto needed = moved.Needed(
        [&](uint64_t number) { return tables.contains(number); },
        [&](uint64_t number) {
          return manifest.logs_are_files && manifest.ReplaysLog(number);
        });
    if (!needed.empty()) name = needed.front();
  }
  if (name.empty()) return Status::OK();
  return Status::Corruption(
      Join(moved.lost(), name) + " is a file of the database", kAdvice);
}

Status MoveBackFromLost(Env* env, const std::string& path) {
  const MovedFiles moved(env, path);
  std::vector<std::string> names;
  if (moved.none() || !env->GetChildren(path, &names).ok()) {
    return Status::OK();
  }
  BestEffortManifest manifest;
  ReadBestEffortManifest(env, path, names, &manifest);
  BestEffortManifest engines;
  std::string current = moved.EnginesManifest(&engines);
  // LevelDB has replaced the MANIFEST, or moved it and could not replace it. A
  // MANIFEST that an earlier repair of ours has moved is not named by CURRENT.
  const bool is_replaced =
      manifest.manifest_number != 0
          ? IsLevelDbManifest(manifest)
          : manifest.current_number == engines.manifest_number;
  if (is_replaced && !current.empty()) {
    manifest = std::move(engines);
  } else {
    current.clear();
  }
  if (manifest.db_id.empty()) return Status::OK();
  const std::vector<std::string> needed = moved.Needed(
      [&](uint64_t number) { return manifest.tables.contains(number); },
      [&](uint64_t number) { return !manifest.IsObsoleteLog(number); });
  if (needed.empty() && current.empty()) return Status::OK();
  std::unique_ptr<Directory> directory;
  Status status = env->NewDirectory(path, &directory);
  for (const std::string& name : needed) {
    if (status.ok()) {
      status = env->RenameFile(Join(moved.lost(), name), Join(path, name));
    }
  }
  // It stays there too, so that another repair finds the same if this one is
  // interrupted.
  if (status.ok() && !current.empty()) {
    const std::string from = Join(moved.lost(), current);
    const std::string to = Join(path, current);
    if (!env->LinkFile(from, to).ok()) status = env->RenameFile(from, to);
  }
  if (status.ok()) status = directory->Sync();
  if (status.ok() && !current.empty()) {
    status =
        SetCurrentFile(env, path, directory.get(), manifest.manifest_number);
  }
  // It may not happen again, even if the database was converted without it.
  if (status.ok()) status = AddLevelDbGuard(env, path);
  return status;
}

}  // namespace varve
