// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/obsolete_files.h"

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "env/file_names.h"

namespace varve {

bool ObsoleteFiles::AnyLocked() const {
  bool any_memtables = false;
  parts_.families->ForEachUsedLocked([&](const ColumnFamily* family) {
    any_memtables |= family->HasObsoleteLocked();
  });
  if (any_memtables) return true;
  return !is_held() && (parts_.families->HasDeadLocked() ||
                        parts_.wals->HasObsoleteLocked() ||
                        !parts_.versions->obsolete_files()->empty() ||
                        !parts_.versions->obsolete_manifests()->empty());
}

std::vector<MemTable*> ObsoleteFiles::TakeMemTablesLocked() {
  std::vector<MemTable*> memtables;
  parts_.families->ForEachUsedLocked([&](ColumnFamily* family) {
    const std::vector<MemTable*> taken = family->TakeObsoleteLocked();
    memtables.insert(memtables.end(), taken.begin(), taken.end());
  });
  return memtables;
}

// The analysis cannot tell that the mutex is the DB's.
void ObsoleteFiles::RemoveLocked() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<VersionSet::ObsoleteTable> files;
  std::vector<uint64_t> manifests;
  std::vector<WalSet::Wal> wals;
  std::vector<std::unique_ptr<ColumnFamily>> families;
  ++running_;
  if (!is_held()) {
    families = parts_.families->TakeDeadLocked();
    if (!families.empty()) {
      // Their tables are obsolete when their last versions are released.
      parts_.mutex->Unlock();
      for (const auto& family : families) family->Close();
      parts_.mutex->Lock();
      for (const auto& family : families) {
        parts_.versions->RemoveFamilyLocked(family->versions());
      }
    }
  }
  // Again: a hold may have begun while the mutex was released.
  if (!is_held()) {
    files.swap(*parts_.versions->obsolete_files());
    manifests.swap(*parts_.versions->obsolete_manifests());
    wals = parts_.wals->TakeObsoleteLocked();
  }
  const std::vector<MemTable*> memtables = TakeMemTablesLocked();
  parts_.mutex->Unlock();
  // A file that cannot be removed now is found at the next open.
  const Status place = parts_.place->Verify();
  const auto remove = [&](const std::string& path) {
    return place.ok() ? parts_.place->env()->RemoveFile(path) : place;
  };
  // The logs first: writers may wait for that.
  for (WalSet::Wal& wal : wals) {
    wal.writer.reset();
    remove(WalFileName(parts_.place->path(), wal.number)).IgnoreError();
  }
  if (!wals.empty()) {
    parts_.mutex->Lock();
    parts_.wals->CountRemovedLocked(wals);
    parts_.scheduler->SignalLocked();
    parts_.mutex->Unlock();
  }
  for (MemTable* memtable : memtables) delete memtable;
  std::vector<TableFileInfo> deleted;
  for (const auto& [file, table_cache] : files) {
    if (table_cache != nullptr) table_cache->Evict(file->number);
    TableFileInfo info = {parts_.place->path(),
                          TableFileName(parts_.place->path(), file->number),
                          file->number, file->file_size, Status()};
    info.status = remove(info.file_path);
    if (info.status.IsNotFound()) {
      info.file_path = LevelDbTableFileName(parts_.place->path(), file->number);
      info.status = remove(info.file_path);
    }
    if (info.status.ok()) RecordTick(parts_.stats, Ticker::kFilesDeleted);
    deleted.push_back(std::move(info));
    delete file;
  }
  for (const uint64_t number : manifests) {
    remove(ManifestFileName(parts_.place->path(), number)).IgnoreError();
  }
  parts_.mutex->Lock();
  std::move(families.begin(), families.end(), std::back_inserter(closed_));
  if (running_ == 1 && !closed_.empty()) {
    families = std::exchange(closed_, {});
    parts_.mutex->Unlock();
    families.clear();
    parts_.mutex->Lock();
  }
  for (const TableFileInfo& info : deleted) {
    parts_.events->Add([info](EventListener* listener) {
      listener->OnTableFileDeleted(info);
    });
  }
  parts_.events->DeliverLocked();
  if (!files.empty() || !wals.empty()) has_removed_ = true;
  --running_;
  parts_.scheduler->SignalLocked();
}

}  // namespace varve
