// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The files of the open database, for programs that copy them or plan by them.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/live_files/storage_info.h"
#include "db/live_files/table_metadata.h"
#include "db/live_files/wal_files.h"
#include "db/streams/change_stream.h"
#include "db/streams/db_source.h"
#include "db/streams/directory_source.h"
#include "db/wal/wal_archive.h"
#include "env/file_names.h"

namespace varve {

// ---- Removal of files -------------------------------------------------------

Status DBImpl::DisableFileDeletions() {
  if (core_.is_read_only) return ReadOnlyError();
  MutexLock lock(core_.mutex());
  if (core_.control.IsClosedLocked()) return ClosedError();
  ++file_deletion_holds_;
  core_.obsolete.HoldLocked();
  return Status::OK();
}

Status DBImpl::EnableFileDeletions() {
  if (core_.is_read_only) return ReadOnlyError();
  MutexLock lock(core_.mutex());
  if (core_.control.IsClosedLocked()) return ClosedError();
  // Holds of checkpoints are not the program's to end.
  if (file_deletion_holds_ == 0) return Status::OK();
  --file_deletion_holds_;
  core_.obsolete.LetGoLocked();
  core_.jobs.PurgeLocked();
  return Status::OK();
}

// ---- Files of one state -----------------------------------------------------

// Without a flush it needs no leadership of the write queue, so that listeners
// may call it.
Status DBImpl::GetLiveFiles(std::vector<std::string>* files,
                            uint64_t* manifest_file_size, bool flush) {
  files->clear();
  *manifest_file_size = 0;
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  Status status;
  if (flush) status = FlushAll();
  if (!status.ok()) return status;
  CheckpointCut cut;
  core_.mutex()->Lock();
  core_.obsolete.HoldLocked();
  status = CutTablesLocked(&cut);
  core_.mutex()->Unlock();
  std::vector<LiveFileStorageInfo> all;
  if (status.ok()) {
    status = ListLiveFiles(core_.env, core_.directory.path(), cut, &all);
  }
  EndCut(cut);
  if (!status.ok()) return status;
  *manifest_file_size = cut.manifest_size;
  for (const LiveFileStorageInfo& file : all) {
    files->push_back("/" + file.relative_filename);
  }
  return status;
}

Status DBImpl::GetLiveFilesStorageInfo(
    const LiveFilesStorageInfoOptions& options,
    std::vector<LiveFileStorageInfo>* files) {
  files->clear();
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  Status status = core_.control.CheckWritable();
  if (!status.ok()) return status;
  uint64_t wal_bytes = 0;
  if (options.wal_size_for_flush != 0) {
    const WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    for (const auto& [number, bytes] : core_.wals.SizesFromLocked(0)) {
      wal_bytes += bytes;
    }
  }
  if (wal_bytes >= options.wal_size_for_flush) status = FlushAll();
  if (!status.ok()) return status;
  CheckpointCut cut;
  status = Cut(&cut, nullptr);
  if (status.ok()) {
    status = ListLiveFiles(core_.env, core_.directory.path(), cut, files);
  }
  EndCut(cut);
  if (!status.ok()) files->clear();
  return status;
}

// ---- Tables -----------------------------------------------------------------

std::vector<FamilyTables> DBImpl::ListAllTables() {
  MutexLock lock(core_.mutex());
  std::vector<FamilyTables> result;
  for (ColumnFamily* const family : core_.families.RefLiveLocked()) {
    result.push_back(ListTablesLocked(family));
  }
  return result;
}

// Releases the families, too.
void DBImpl::UnrefTables(const std::vector<FamilyTables>& families) {
  MutexLock lock(core_.mutex());
  for (const FamilyTables& tables : families) {
    core_.versions->UnrefVersionLocked(tables.version);
    core_.families.UnrefLocked(tables.family);
  }
  core_.jobs.PurgeLaterLocked();
}

void DBImpl::GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) {
  metadata->clear();
  if (IsClosed()) return;
  const std::vector<FamilyTables> families = ListAllTables();
  for (const FamilyTables& tables : families) {
    for (const FamilyTables::Table& table : tables.tables) {
      LiveFileMetaData& result = metadata->emplace_back();
      static_cast<SstFileMetaData&>(result) =
          DescribeTable(tables, table, core_.directory.path());
      result.column_family_name = tables.family->name();
      result.level = table.level;
    }
  }
  UnrefTables(families);
}

void DBImpl::GetColumnFamilyMetaData(ColumnFamilyHandle* handle,
                                     ColumnFamilyMetaData* metadata) {
  *metadata = ColumnFamilyMetaData();
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr || IsClosed()) return;
  core_.mutex()->Lock();
  family->Ref();
  const FamilyTables tables = ListTablesLocked(family);
  core_.mutex()->Unlock();
  metadata->name = family->name();
  metadata->levels.resize(static_cast<size_t>(
      std::max(tables.num_levels, tables.version->DeepestLevel() + 1)));
  for (size_t i = 0; i < metadata->levels.size(); ++i) {
    metadata->levels[i].level = static_cast<int>(i);
  }
  for (const FamilyTables::Table& table : tables.tables) {
    LevelMetaData& level = metadata->levels[static_cast<size_t>(table.level)];
    level.files.push_back(DescribeTable(tables, table, core_.directory.path()));
    level.size += table.file->file_size;
    metadata->size += table.file->file_size;
    ++metadata->file_count;
  }
  UnrefTables({tables});
}

Status DBImpl::GetCreationTimeOfOldestFile(uint64_t* creation_time) {
  *creation_time = 0;
  if (IsClosed()) return ClosedError();
  const std::vector<FamilyTables> families = ListAllTables();
  uint64_t oldest = UINT64_MAX;
  Status status;
  for (const FamilyTables& tables : families) {
    for (const FamilyTables::Table& table : tables.tables) {
      uint64_t time_s = table.file->FindTimes().file_creation_s;
      if (time_s == 0 && status.ok()) {
        // It is in no MANIFEST. An open table tells it.
        std::shared_ptr<Table> opened;
        status = tables.family->table_cache()->FindDescription(
            table.file->table_file(), &opened);
        if (status.ok()) time_s = opened->properties().file_creation_time_s;
      }
      oldest = std::min(oldest, time_s);
    }
  }
  UnrefTables(families);
  if (status.ok()) *creation_time = oldest;
  return status;
}

// ---- Logs -------------------------------------------------------------------

Status DBImpl::GetSortedWalFiles(VectorWalPtr* files) {
  return ListWals(files, /*only_newest=*/false);
}

Status DBImpl::GetCurrentWalFile(std::unique_ptr<WalFile>* file) {
  file->reset();
  VectorWalPtr files;
  Status status = ListWals(&files, /*only_newest=*/true);
  if (!files.empty()) *file = std::move(files.back());
  return status;
}

Status DBImpl::ListWals(VectorWalPtr* files, bool only_newest) {
  files->clear();
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  Status status = core_.control.CheckWritable();
  if (!status.ok()) return status;
  std::vector<std::pair<uint64_t, uint64_t>> wals;
  std::vector<uint64_t> archived;
  {
    // No thread writes a log while this thread leads the queue.
    const WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    status = core_.control.error();
    if (status.ok()) status = flusher_.FlushLogLocked(false);
    if (!status.ok()) return status;
    core_.obsolete.HoldLocked();
    wals = core_.wals.AllSizesLocked();
  }
  if (only_newest && !wals.empty()) wals.erase(wals.begin(), wals.end() - 1);
  // After the others: a log that moves in the meantime is in both lists.
  if (!only_newest) {
    status = ListArchive(core_.env, core_.directory.path(), &archived);
  }
  if (status.ok()) {
    status =
        DescribeWals(core_.env, core_.directory.path(), archived, wals, files);
  }
  MutexLock lock(core_.mutex());
  core_.obsolete.LetGoLocked();
  core_.jobs.PurgeLaterLocked();
  return status;
}

// ---- Streams of updates -----------------------------------------------------

Status DBImpl::GetUpdatesSince(
    uint64_t sequence, std::unique_ptr<TransactionLogIterator>* iterator,
    const TransactionLogIterator::ReadOptions& /*options*/) {
  iterator->reset();
  if (IsClosed()) return ClosedError();
  std::unique_ptr<StreamSource> source;
  if (core_.is_read_only) {
    source = std::make_unique<DirectorySource>(
        core_.env, core_.directory.path(), core_.versions->LastSequence());
  } else {
    source = std::make_unique<DbSource>(core_, flusher_);
  }
  // relaxed: only the count matters.
  live_streams_.fetch_add(1, std::memory_order_relaxed);
  auto stream = std::make_unique<ChangeStream>(std::move(source), [this] {
    // release: pairs with Close, which frees what the stream has used.
    live_streams_.fetch_sub(1, std::memory_order_release);
  });
  Status status = stream->Start(sequence);
  if (status.ok()) *iterator = std::move(stream);
  return status;
}

}  // namespace varve
