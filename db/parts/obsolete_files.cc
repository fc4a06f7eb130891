// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/obsolete_files.h"

#include <string>
#include <utility>
#include <vector>

#include "env/file_names.h"

namespace varve {

bool ObsoleteFiles::AnyLocked() const {
  return parts_.family->HasObsoleteLocked() ||
         (!is_held() && (parts_.wals->HasObsoleteLocked() ||
                         !versions_->obsolete_files()->empty() ||
                         !versions_->obsolete_manifests()->empty()));
}

// The analysis cannot tell that the mutex is the DB's.
void ObsoleteFiles::RemoveLocked() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<FileMetaData*> files;
  std::vector<uint64_t> manifests;
  std::vector<WalSet::Wal> wals;
  if (!is_held()) {
    files.swap(*versions_->obsolete_files());
    manifests.swap(*versions_->obsolete_manifests());
    wals = parts_.wals->TakeObsoleteLocked();
  }
  const std::vector<MemTable*> memtables = parts_.family->TakeObsoleteLocked();
  ++running_;
  parts_.mutex->Unlock();
  for (MemTable* memtable : memtables) delete memtable;
  // A file that cannot be removed now is found at the next open.
  const Status place = parts_.place->Verify();
  const auto remove = [&](const std::string& path) {
    return place.ok() ? parts_.place->env()->RemoveFile(path) : place;
  };
  std::vector<TableFileInfo> deleted;
  for (FileMetaData* file : files) {
    table_cache_->Evict(file->number);
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
  for (WalSet::Wal& wal : wals) {
    wal.writer.reset();
    remove(WalFileName(parts_.place->path(), wal.number)).IgnoreError();
  }
  parts_.mutex->Lock();
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
