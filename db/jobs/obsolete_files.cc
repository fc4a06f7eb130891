// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/obsolete_files.h"

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/jobs/db_core.h"
#include "env/file_names.h"

namespace varve {

bool ObsoleteFiles::AnyLocked() const {
  bool any_memtables = false;
  core_.families.ForEachUsedLocked(
      [&](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
        any_memtables |= family->memtables().HasObsoleteLocked();
      });
  if (any_memtables) return true;
  return !is_held() &&
         (core_.archive.IsDueLocked() || core_.families.HasDeadLocked() ||
          core_.wals.HasObsoleteLocked() ||
          !core_.versions->obsolete_files()->empty() ||
          !core_.versions->obsolete_manifests()->empty());
}

void ObsoleteFiles::AwaitLocked() {
  while (running_ > 0) core_.scheduler.WaitLocked();
}

std::vector<MemTable*> ObsoleteFiles::TakeMemTablesLocked() {
  std::vector<MemTable*> memtables;
  core_.families.ForEachUsedLocked(
      [&](ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
        const std::vector<MemTable*> taken =
            family->memtables().TakeObsoleteLocked();
        memtables.insert(memtables.end(), taken.begin(), taken.end());
      });
  return memtables;
}

// The analysis cannot tell that the mutex is the DB's.
void ObsoleteFiles::RemoveLocked() {
  std::vector<VersionSet::ObsoleteTable> files;
  std::vector<uint64_t> manifests;
  std::vector<WalSet::Wal> wals;
  std::vector<std::unique_ptr<ColumnFamily>> families;
  bool purges = false;
  ++running_;
  if (!is_held()) {
    families = core_.families.TakeDeadLocked();
    if (!families.empty()) {
      // Their tables are obsolete when their last versions are released.
      core_.mutex()->Unlock();
      for (const auto& family : families) family->Close();
      core_.mutex()->Lock();
      for (const auto& family : families) {
        core_.versions->RemoveFamilyLocked(family->versions());
      }
    }
  }
  // Again: a hold may have begun while the mutex was released.
  if (!is_held()) {
    files.swap(*core_.versions->obsolete_files());
    manifests.swap(*core_.versions->obsolete_manifests());
    wals = core_.wals.TakeObsoleteLocked();
    purges = core_.archive.BeginPurgeLocked(!wals.empty());
  }
  const std::vector<MemTable*> memtables = TakeMemTablesLocked();
  core_.mutex()->Unlock();
  // A file that cannot be removed now is found at the next open.
  const Status place = core_.directory.Verify();
  const auto remove = [&](const std::string& path) {
    return place.ok() ? core_.env->RemoveFile(path) : place;
  };
  const auto remove_table = [&](const std::string& path) {
    return place.ok() ? core_.space.Remove(path) : place;
  };
  // The logs first: writers may wait for that.
  for (WalSet::Wal& wal : wals) {
    wal.writer.reset();
    if (core_.archive.keeps_logs()) {
      // If it stays, the next open archives it.
      if (place.ok()) core_.archive.Add(wal.number).IgnoreError();
      continue;
    }
    remove(WalFileName(core_.directory.path(), wal.number)).IgnoreError();
  }
  if (!wals.empty()) {
    core_.mutex()->Lock();
    core_.wals.CountRemovedLocked(wals);
    core_.scheduler.SignalLocked();
    core_.mutex()->Unlock();
  }
  for (MemTable* memtable : memtables) delete memtable;
  if (purges) {
    const uint64_t next_due_s =
        place.ok() ? core_.archive.Purge(&core_.log) : WalArchive::kNever;
    core_.mutex()->Lock();
    core_.archive.EndPurgeLocked(next_due_s);
    core_.mutex()->Unlock();
  }
  std::vector<TableFileInfo> deleted;
  for (const auto& [file, table_cache] : files) {
    if (table_cache != nullptr) table_cache->Evict(file->number);
    TableFileInfo info = {core_.directory.path(),
                          TableFileName(core_.directory.path(), file->number),
                          file->number,
                          file->file_size,
                          Status(),
                          nullptr};
    info.status = remove_table(info.file_path);
    if (info.status.IsNotFound()) {
      info.file_path =
          LevelDbTableFileName(core_.directory.path(), file->number);
      info.status = remove_table(info.file_path);
    }
    if (info.status.ok()) RecordTick(core_.stats, Ticker::kFilesDeleted);
    deleted.push_back(std::move(info));
    delete file;
  }
  for (const uint64_t number : manifests) {
    remove(ManifestFileName(core_.directory.path(), number)).IgnoreError();
  }
  core_.mutex()->Lock();
  std::move(families.begin(), families.end(), std::back_inserter(closed_));
  if (running_ == 1 && !closed_.empty()) {
    families = std::exchange(closed_, {});
    core_.mutex()->Unlock();
    families.clear();
    core_.mutex()->Lock();
  }
  for (const TableFileInfo& info : deleted) {
    core_.events.Add([info](EventListener* listener) {
      listener->OnTableFileDeleted(info);
    });
  }
  core_.events.DeliverLocked();
  if (!files.empty() || !wals.empty()) has_removed_ = true;
  --running_;
  core_.scheduler.SignalLocked();
}

}  // namespace varve
