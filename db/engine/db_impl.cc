// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Closing, and calls that need no more than one part.

#include "db/engine/db_impl.h"

#include "db/family/common_errors.h"
#include "db/follower/follower.h"
#include "util/base/probe.h"

namespace varve {

DBImpl::~DBImpl() {
  core_.mutex()->Lock();
  if (!core_.control.is_closing())
    CloseLocked().IgnoreError();  // A destructor has no status.
  core_.mutex()->Unlock();
  handles_->Orphan();
  core_.mutex()->Lock();
  std::vector<std::unique_ptr<ColumnFamily>> others =
      core_.families.TakeAllLocked();
  core_.mutex()->Unlock();
  for (const auto& family : others) family->Close();
  core_.default_family.Close();
  core_.mutex()->Lock();
  for (const auto& family : others) {
    // Of a follower: the default family had SuperVersions of theirs.
    for (MemTable* const memtable : family->memtables().TakeObsoleteLocked())
      delete memtable;
  }
  for (const auto& family : others) {
    core_.versions->RemoveFamilyLocked(family->versions());
  }
  core_.versions.reset();
  core_.mutex()->Unlock();
  FreeRetired();  // The blocks of its tables, for one.
}

bool DBImpl::IsClosed() {
  MutexLock lock(core_.mutex());
  return core_.control.IsClosedLocked();
}

Status DBImpl::Close() {
  MutexLock lock(core_.mutex());
  if (core_.control.is_closing()) return core_.control.close_status();
  if (AbandonInheritedLocked()) return Status::OK();
  const int64_t iterators = core_.families.CountIteratorsLocked();
  if (iterators > 0) {
    return Status::Busy("iterators are still out", std::to_string(iterators));
  }
  // acquire: pairs with the release of the streams' ends.
  const int streams = live_streams_.load(std::memory_order_acquire);
  if (streams > 0) {
    return Status::Busy("streams of updates are still out",
                        std::to_string(streams));
  }
  const size_t snapshots = core_.default_family.snapshots()->CountLocked();
  if (snapshots > 0) {
    return Status::Busy("snapshots or read transactions are still out",
                        std::to_string(snapshots));
  }
  core_.control.SetCloseStatusLocked(CloseLocked());
  return core_.control.close_status();
}

Status DBImpl::CloseLocked() {
  if (AbandonInheritedLocked()) return Status::OK();
  core_.control.SetClosingLocked();
  core_.scheduler.SignalLocked();  // See Resume.
  Status status;
  if (!core_.is_read_only &&
      core_.default_family.memtables().HasBegunLocked()) {
    if (core_.families.HasUnloggedLocked() &&
        !core_.options.avoid_flush_during_shutdown) {
      core_.scheduler.GoOnLocked();
      core_.jobs.StartDueLocked();  // Memtables may wait for a flush.
      const std::vector<ColumnFamily*> families = core_.families.live();
      core_.mutex()->Unlock();
      status = FlushFamilies(FlushOptions(), families);
      core_.mutex()->Lock();
    }
    core_.mutex()->Unlock();
    const Status sync_status = SyncLogAtClose();
    core_.mutex()->Lock();
    if (status.ok()) status = sync_status;
  }
  StopJobsLocked();
  core_.scheduler.DropQueuedLocked();
  const std::vector<ColumnFamily*> families = core_.families.live();
  core_.mutex()->Unlock();
  for (ColumnFamily* const family : families) family->memtables().LeaveBudget();
  // A change that came before may still write its file.
  { const MutexLock written(&options_files_mutex_); }
  core_.mutex()->Lock();
  WaitForBackgroundLocked();
  if (status.ok()) NoteLogsEndLocked();
  const Status wals_status = core_.wals.CloseLocked();
  if (status.ok()) status = wals_status;
  core_.control.UpdateGateLocked();
  core_.jobs.PurgeLocked();
  ReleaseAllLocked();
  core_.events.FinishLocked();
  Log(LogLevel::kInfo, &core_.log, "closed: %s", status.ToString().c_str());
  core_.log.SetTarget(nullptr);
  const Status directory_status = core_.directory.Close();
  if (status.ok()) status = directory_status;
  return status;
}

// Gives back what the database holds, because its object may live on for long:
// memtables, tables with their files and cache charges, the MANIFEST, and
// threads. May release the mutex and reacquire it.
void DBImpl::ReleaseAllLocked() {
  core_.versions->CloseLocked();
  std::vector<TableCache*> table_caches;
  core_.families.ForEachUsedLocked(
      [&](ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
        if (family->memtables().HasBegunLocked()) family->EmptyLocked();
        table_caches.push_back(family->table_cache());
      });
  const std::vector<MemTable*> memtables = core_.obsolete.TakeMemTablesLocked();
  const auto tables = core_.versions->TakeReleasedLocked();
  core_.mutex()->Unlock();
  for (MemTable* const memtable : memtables) delete memtable;
  for (const VersionSet::ObsoleteTable& table : tables) delete table.file;
  for (TableCache* const table_cache : table_caches) table_cache->EvictAll();
  FreeRetired();
  if (!core_.is_read_only) core_.space.Close();
  core_.auto_resume.EndThread();
  quiet_watch_.EndThread();
  age_watch_.EndThread();
  core_.mutex()->Lock();
}

void DBImpl::StopJobsLocked() {
  core_.scheduler.StopLocked();
  // No flush begins that would free their memory.
  for (ColumnFamily* const family : core_.families.live()) {
    family->memtables().MarkFlushExpectedLocked(false);
  }
  age_watch_.SignalLocked();
}

void DBImpl::WaitForBackgroundLocked() {
  while (WorkRunsLocked() || core_.auto_resume.is_running() ||
         quiet_watch_.is_running() || age_watch_.is_running()) {
    core_.scheduler.WaitLocked();
  }
}

// Returns whether a job, a call of CompactRange or a removal of files runs.
bool DBImpl::WorkRunsLocked() const {
  return core_.scheduler.JobsLocked() > 0 ||
         core_.picker.gate().manual_count > 0 || core_.obsolete.running() > 0;
}

Status DBImpl::GetApproximateSizes(ColumnFamilyHandle* handle,
                                   const Range* ranges, size_t count,
                                   uint64_t* sizes) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  if (IsClosed()) return ClosedError();
  SuperVersion* const super_version = family->super_versions().Reference();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t start = super_version->version->ApproximateOffsetOf(
        MakeInternalKey(ranges[i].start, SeekTrailer(kMaxSequenceNumber)));
    const uint64_t limit = super_version->version->ApproximateOffsetOf(
        MakeInternalKey(ranges[i].limit, SeekTrailer(kMaxSequenceNumber)));
    sizes[i] = limit > start ? limit - start : 0;
  }
  family->super_versions().Release(super_version);
  return Status::OK();
}

bool DBImpl::GetProperty(ColumnFamilyHandle* handle, const Slice& property,
                         std::string* value) {
  value->clear();
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  return family != nullptr && !IsClosed() &&
         DbProperties(core_, *family).Get(property, value);
}

bool DBImpl::GetIntProperty(ColumnFamilyHandle* handle, const Slice& property,
                            uint64_t* value) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  return family != nullptr && !IsClosed() &&
         DbProperties(core_, *family).GetInt(property, value);
}

bool DBImpl::GetMapProperty(ColumnFamilyHandle* handle, const Slice& property,
                            std::map<std::string, std::string>* value) {
  value->clear();
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  return family != nullptr && !IsClosed() &&
         DbProperties(core_, *family).GetMap(property, value);
}

bool DBImpl::GetAggregatedIntProperty(const Slice& property, uint64_t* value) {
  *value = 0;
  if (IsClosed()) return false;
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(core_.mutex());
    families = core_.families.RefLiveLocked();
  }
  bool all = true;
  for (ColumnFamily* const family : families) {
    uint64_t one = 0;
    all = all && DbProperties(core_, *family).GetInt(property, &one);
    *value += one;
  }
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(families);
  core_.jobs.PurgeLaterLocked();
  return all;
}

Status DBImpl::VerifyChecksum() {
  if (IsClosed()) return ClosedError();
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(core_.mutex());
    families = core_.families.RefLiveLocked();
  }
  Status status;
  for (ColumnFamily* const family : families) {
    if (!status.ok()) break;
    SuperVersion* const super_version = family->super_versions().Reference();
    for (const auto& files : super_version->version->levels()) {
      for (const FileMetaData* file : files) {
        if (!status.ok()) break;
        std::shared_ptr<Table> table;
        status = family->table_cache()->Find(file->table_file(), &table);
        if (status.ok()) status = table->VerifyChecksum();
      }
    }
    family->super_versions().Release(super_version);
  }
  MutexLock lock(core_.mutex());
  core_.families.UnrefLocked(families);
  core_.jobs.PurgeLaterLocked();
  return status;
}

uint64_t DBImpl::GetLatestSequenceNumber() const {
  return core_.versions->LastSequence();
}

}  // namespace varve
