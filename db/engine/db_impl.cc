// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Closing, and calls that need no more than one part.

#include "db/engine/db_impl.h"

#include "db/family/common_errors.h"
#include "util/base/probe.h"

namespace varve {

DBImpl::~DBImpl() {
  mutex_.Lock();
  if (!control_.is_closing())
    CloseLocked().IgnoreError();  // A destructor has no status.
  const bool is_abandoned = control_.inheritance().is_abandoned();
  mutex_.Unlock();
  if (is_abandoned) {
    handles_->Abandon();
    KeepAbandoned();
    return;
  }
  handles_->Orphan();
  mutex_.Lock();
  std::vector<std::unique_ptr<ColumnFamily>> others = families_.TakeAllLocked();
  mutex_.Unlock();
  for (const auto& family : others) family->Close();
  family_.Close();
  mutex_.Lock();
  for (const auto& family : others) {
    versions_->RemoveFamilyLocked(family->versions());
  }
  versions_.reset();
  mutex_.Unlock();
  FreeRetired();  // The blocks of its tables, for one.
}

bool DBImpl::IsClosed() {
  MutexLock lock(&mutex_);
  return control_.IsClosedLocked();
}

Status DBImpl::Close() {
  MutexLock lock(&mutex_);
  if (control_.is_closing()) return control_.close_status();
  if (AbandonInheritedLocked()) return Status::OK();
  if (reader_.live_iterators() > 0) {
    return Status::Busy("iterators are still out",
                        std::to_string(reader_.live_iterators()));
  }
  const size_t snapshots = family_.snapshots()->CountLocked();
  if (snapshots > 0) {
    return Status::Busy("snapshots or read transactions are still out",
                        std::to_string(snapshots));
  }
  control_.SetCloseStatusLocked(CloseLocked());
  return control_.close_status();
}

Status DBImpl::CloseLocked() {
  if (AbandonInheritedLocked()) return Status::OK();
  control_.SetClosingLocked();
  scheduler_.SignalLocked();  // See Resume.
  Status status;
  if (!read_only_ && family_.HasBegunLocked()) {
    if (families_.HasUnloggedLocked() &&
        !options_.avoid_flush_during_shutdown) {
      scheduler_.GoOnLocked();
      jobs_.StartDueLocked();  // Memtables may wait for a flush.
      const std::vector<ColumnFamily*> families = families_.live();
      mutex_.Unlock();
      status = FlushFamilies(FlushOptions(), families);
      mutex_.Lock();
    }
    mutex_.Unlock();
    const Status sync_status = SyncLogAtClose();
    mutex_.Lock();
    if (status.ok()) status = sync_status;
  }
  StopJobsLocked();
  scheduler_.DropQueuedLocked();
  const std::vector<ColumnFamily*> families = families_.live();
  mutex_.Unlock();
  for (ColumnFamily* const family : families) family->LeaveBudget();
  mutex_.Lock();
  WaitForBackgroundLocked();
  if (status.ok()) NoteLogsEndLocked();
  const Status wals_status = wals_.CloseLocked();
  if (status.ok()) status = wals_status;
  control_.UpdateGateLocked();
  jobs_.PurgeLocked();
  ReleaseAllLocked();
  events_.FinishLocked();
  Log(LogLevel::kInfo, &log_, "closed: %s", status.ToString().c_str());
  log_.SetTarget(nullptr);
  const Status directory_status = db_directory_.Close();
  if (status.ok()) status = directory_status;
  return status;
}

// Gives back what the database holds, because its object may live on for long:
// memtables, tables with their files and cache charges, the MANIFEST, and
// threads. May release the mutex and reacquire it.
void DBImpl::ReleaseAllLocked() {
  versions_->CloseLocked();
  std::vector<TableCache*> table_caches;
  families_.ForEachUsedLocked([&](ColumnFamily* family) {
    if (family->HasBegunLocked()) family->EmptyLocked();
    table_caches.push_back(family->table_cache());
  });
  const std::vector<MemTable*> memtables = obsolete_.TakeMemTablesLocked();
  const auto tables = versions_->TakeReleasedLocked();
  mutex_.Unlock();
  for (MemTable* const memtable : memtables) delete memtable;
  for (const VersionSet::ObsoleteTable& table : tables) delete table.file;
  for (TableCache* const table_cache : table_caches) table_cache->EvictAll();
  FreeRetired();
  auto_resume_.EndThread();
  quiet_watch_.EndThread();
  age_watch_.EndThread();
  mutex_.Lock();
}

void DBImpl::StopJobsLocked() {
  scheduler_.StopLocked();
  // No flush begins that would free their memory.
  for (ColumnFamily* const family : families_.live()) {
    family->MarkFlushExpectedLocked(false);
  }
  age_watch_.SignalLocked();
}

void DBImpl::WaitForBackgroundLocked() {
  while (WorkRunsLocked() || auto_resume_.is_running() ||
         quiet_watch_.is_running() || age_watch_.is_running()) {
    scheduler_.WaitLocked();
  }
}

// Returns whether a job, a call of CompactRange or a removal of files runs.
bool DBImpl::WorkRunsLocked() const {
  return scheduler_.JobsLocked() > 0 || picker_.gate().manual_count > 0 ||
         obsolete_.running() > 0;
}

Status DBImpl::GetApproximateSizes(ColumnFamilyHandle* handle,
                                   const Range* ranges, size_t count,
                                   uint64_t* sizes) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(families_, handle);
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

DbProperties DBImpl::Properties(ColumnFamily* family) {
  return DbProperties(
      {env_, stats_, *family, *versions_, wals_, scheduler_, mutex_,
       [this, family]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
         DbProperties::Facts facts;
         facts.background_errors = control_.error_count();
         facts.is_read_only = read_only_ || !control_.error().ok();
         facts.deletes_files = !obsolete_.is_held();
         facts.compaction_is_due = picker_.CompactionDueLocked(*family);
         return facts;
       },
       [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
         return control_.log_bound().DescribeOldestLocked();
       },
       [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
         return families_.DescribeLocked();
       }});
}

bool DBImpl::GetProperty(ColumnFamilyHandle* handle, const Slice& property,
                         std::string* value) {
  value->clear();
  ColumnFamily* const family = FamilyHandle::FamilyOf(families_, handle);
  return family != nullptr && !IsClosed() &&
         Properties(family).Get(property, value);
}

bool DBImpl::GetIntProperty(ColumnFamilyHandle* handle, const Slice& property,
                            uint64_t* value) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(families_, handle);
  return family != nullptr && !IsClosed() &&
         Properties(family).GetInt(property, value);
}

Status DBImpl::VerifyChecksum() {
  if (IsClosed()) return ClosedError();
  std::vector<ColumnFamily*> families;
  {
    MutexLock lock(&mutex_);
    families = families_.RefLiveLocked();
  }
  Status status;
  for (ColumnFamily* const family : families) {
    if (!status.ok()) break;
    SuperVersion* const super_version = family->super_versions().Reference();
    for (int level = 0; level < kNumLevels && status.ok(); ++level) {
      for (const FileMetaData* file : super_version->version->files(level)) {
        std::shared_ptr<Table> table;
        status = family->table_cache()->Find(file->table_file(), &table);
        if (status.ok()) status = table->VerifyChecksum();
        if (!status.ok()) break;
      }
    }
    family->super_versions().Release(super_version);
  }
  MutexLock lock(&mutex_);
  families_.UnrefLocked(families);
  jobs_.PurgeLaterLocked();
  return status;
}

uint64_t DBImpl::GetLatestSequenceNumber() const {
  return versions_->LastSequence();
}

}  // namespace varve
