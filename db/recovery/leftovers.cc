// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/leftovers.h"

#include <algorithm>
#include <memory>

#include "db/recovery/foreign_files.h"
#include "db/recovery/leveldb_guard.h"
#include "db/recovery/unused_logs.h"
#include "env/file_names.h"
#include "monitoring/span.h"

namespace varve {

namespace {

constexpr size_t kInfoLogsToKeep = 10;

// Moves a table that the MANIFEST does not know to lost/, if it is whole.
bool KeepUnknownTable(const DbDirectory& place,
                      const std::vector<TableCache*>& table_caches, Logger* log,
                      const std::string& name, uint64_t number) {
  Env* const env = place.env();
  const std::string path = place.path() + "/" + name;
  TableFile file;
  file.number = number;
  bool whole = false;
  if (env->GetFileSize(path, &file.size).ok()) {
    // It is not known whose it is. A family of another comparator refuses it.
    for (TableCache* const table_cache : table_caches) {
      std::shared_ptr<Table> table;
      whole |= table_cache->Find(file, &table).ok();
      table_cache->Evict(number);
    }
  }
  if (!whole) return false;
  const std::string lost = LostDirectory(place.path());
  Log(LogLevel::kWarn, log, "%s is not in the MANIFEST: to lost/",
      path.c_str());
  std::unique_ptr<Directory> handle;
  Status status = env->CreateDirIfMissing(lost);
  if (status.ok()) {
    status = env->RenameFile(path, FreeLostName(env, place.path(), name));
  }
  if (status.ok()) status = env->NewDirectory(lost, &handle);
  if (status.ok()) status = handle->Sync();
  if (status.ok()) status = place.directory()->Sync();
  if (!status.ok()) {
    Log(LogLevel::kError, log, "it stays, or may be back: %s",
        status.ToString().c_str());
  }
  return true;
}

}  // namespace

void RemoveLeftovers(const DbDirectory& place,
                     const std::vector<TableCache*>& table_caches, Logger* log,
                     const LiveFiles& live) {
  Env* const env = place.env();
  const LocalSpan span("remove leftovers");
  std::vector<std::string> names;
  if (!env->GetChildren(place.path(), &names).ok()) return;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type)) continue;
    if (live.foreign.contains(name)) continue;
    bool keep = true;
    switch (type) {
      case FileKind::kTable:
      case FileKind::kLevelDbTable:
        // A table that no edit names is the output of a job that died. Or the
        // MANIFEST has lost its end.
        keep = std::binary_search(live.tables.begin(), live.tables.end(),
                                  number) ||
               (number >= live.next_file_number &&
                KeepUnknownTable(place, table_caches, log, name, number));
        break;
      case FileKind::kWal:
        keep = number >= live.log_number;
        break;
      case FileKind::kManifest:
        keep = number >= live.manifest_number;
        break;
      case FileKind::kTemp:
        keep = IsLevelDbGuard(env, place.path(), name);
        break;
      default:
        break;
    }
    if (keep) continue;
    if (type == FileKind::kWal && live.archive != nullptr &&
        number <= live.last_replayed_log && live.archive->Add(number).ok()) {
      Log(LogLevel::kInfo, log, "archived %s", name.c_str());
      continue;
    }
    Log(LogLevel::kInfo, log, "removing %s", name.c_str());
    // It is tried again at the next open.
    env->RemoveFile(place.path() + "/" + name).IgnoreError();
  }
}

void RemoveOldInfoLogs(const DbDirectory& place,
                       std::vector<std::string> names) {
  Env* const env = place.env();
  // Their names are dates.
  SortOldInfoLogs(env->NowMicros(), &names);
  for (size_t i = 0; i + kInfoLogsToKeep < names.size(); ++i) {
    const std::string path = place.path() + "/" + names[i];
    uint64_t time_us = 0;
    FileKind type = FileKind::kInfoLog;
    if (ParseFileName(names[i], &time_us, &type) &&
        IsForeignFile(env, path, type, time_us, 0)) {
      continue;
    }
    // It is tried again at the next open.
    env->RemoveFile(path).IgnoreError();
  }
}

}  // namespace varve
