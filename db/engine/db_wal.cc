// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The logs: writing, syncing and replacing them, and recovery from errors,
// which needs a new log.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// Returns the families of the handles without duplicates. The first is null if
// a handle is not of this DB.
std::vector<ColumnFamily*> FamiliesOf(
    const FamilySet& families,
    const std::vector<ColumnFamilyHandle*>& handles) {
  std::vector<ColumnFamily*> found;
  for (ColumnFamilyHandle* const handle : handles) {
    found.push_back(FamilyHandle::FamilyOf(families, handle));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

Status DBImpl::SyncWAL() { return FlushWAL(true); }

Status DBImpl::FlushWAL(bool sync) {
  if (read_only_) return ReadOnlyError();
  Status status = CheckWritable();
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (control_.IsClosedLocked()) return ClosedError();
  if (!control_.error().ok()) return control_.error();
  return flusher_.FlushLogLocked(sync);
}

Status DBImpl::SyncLogAtClose() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  // After other failures the log still holds all written updates.
  return wals_.has_failed() ? control_.error() : flusher_.FlushLogLocked(true);
}

// Records in the MANIFEST the last update in the logs, if they hold any that no
// table has. Without it, a log that is later deleted, emptied or replaced by an
// older copy looks like one that never held more. May release the mutex and
// reacquire it.
void DBImpl::NoteLogsEndLocked() {
  if (read_only_ || !family_.HasBegunLocked() || !control_.error().ok()) return;
  bool any = false;
  for (const ColumnFamily* family : families_.live()) {
    any |= !family->memtable()->empty() ||
           std::any_of(family->immutable().begin(), family->immutable().end(),
                       [](const MemTable* m) { return !m->empty(); });
  }
  // The last update may then be in no log.
  if (!any || families_.HasUnloggedLocked()) return;
  VersionEdit edit;
  // Later updates were in no log, and are in tables.
  edit.SetLogsEnd(wals_.last_logged());
  const Status status = versions_->LogAndApply(family_.versions(), &edit);
  if (!status.ok()) {
    // No update depends on it: the logs are synced.
    Log(LogLevel::kWarn, &log_, "the end of the logs is not noted: %s",
        status.ToString().c_str());
  }
}

Status DBImpl::Flush(const FlushOptions& options, ColumnFamilyHandle* family) {
  return Flush(options, std::vector<ColumnFamilyHandle*>{family});
}

Status DBImpl::Flush(const FlushOptions& options,
                     const std::vector<ColumnFamilyHandle*>& families) {
  std::vector<ColumnFamily*> found = FamiliesOf(families_, families);
  if (!found.empty() && found.front() == nullptr) return ForeignHandleError();
  return FlushFamilies(options, std::move(found));
}

Status DBImpl::FlushFamilies(const FlushOptions& options,
                             std::vector<ColumnFamily*> families) {
  if (read_only_) return ReadOnlyError();
  Status status = ResumeIfFull();
  if (!status.ok()) return status;
  std::vector<uint64_t> targets;
  for (bool switched = false; !switched;) {
    WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (control_.IsClosedLocked()) return ClosedError();
    if (!control_.error().ok()) return control_.error();
    // A log that no memtable accounts for is freed by a switch too.
    const bool frees_log = !families_.HasOthers() && wals_.UpdateBytes() > 0;
    std::vector<ColumnFamily*> filled;
    bool has_slots = true;
    for (ColumnFamily* const family : families) {
      if (family->is_dropped()) {
        return FamilyDroppedError(family->name());
      }
      if (family->memtable()->empty() && !frees_log) continue;
      filled.push_back(family);
      has_slots &= family->SlotFreeLocked();
    }
    switched = filled.empty();
    // No job is started any more that would write it.
    if (!switched && scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    if (!switched && has_slots) {
      status = flusher_.SwitchLocked(std::move(filled));
      if (!status.ok()) return status;
      switched = true;
    }
    targets.clear();
    for (const ColumnFamily* family : families) {
      targets.push_back(family->switched_count());
    }
    if (!switched) {
      // Others may write during the wait.
      leader.Leave();
      scheduler_.WaitLocked();
    }
  }
  if (!options.wait) return Status::OK();
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < families.size() && status.ok(); ++i) {
    status = flusher_.AwaitLocked(*families[i], targets[i]);
  }
  return status;
}

Status DBImpl::FlushUnlogged() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (!families_.HasUnloggedLocked()) return Status::OK();
  return control_.error().ok() ? flusher_.FlushAllLocked() : control_.error();
}

Status DBImpl::Resume() {
  if (read_only_) return ReadOnlyError();
  {
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    if (control_.IsClosedLocked()) return status;
    // First: in a child of fork(), the directory's mutex may be held forever.
    if (control_.inheritance().is_inherited()) return status;
    const Status failure = db_directory_.directory()->failure();
    if (!failure.ok() && control_.error().ok()) {
      // No caller relied on that sync, but the next one will.
      control_.SetErrorLocked(failure, "a sync of the directory");
      events_.DeliverLocked();
    }
  }
  // An error that a running job meets must not be taken for one after this.
  const auto jobs_run = [this]() VARVE_NO_THREAD_SAFETY_ANALYSIS {
    return scheduler_.JobsLocked(JobKind::kFlush) > 0 ||
           families_.AnyCompactsLocked();
  };
  for (;;) {
    {
      // Without leadership, so that writes are refused at once. Close drops a
      // queued flush, which then never ends.
      MutexLock lock(&mutex_);
      while (jobs_run() && !control_.error().ok() &&
             !control_.IsEndingLocked()) {
        scheduler_.WaitLocked();
      }
    }
    // No thread writes before this is done, since the error is set. Leadership
    // is needed for the log.
    const WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (control_.IsClosedLocked()) return ClosedError();
    if (control_.error().ok()) {
      compactor_.ResumeLocked();
      return Status::OK();
    }
    if (control_.IsEndingLocked()) return Status::ShutdownInProgress();
    // Unless another Resume came first, and another error since.
    if (!jobs_run()) return ResumeAsLeaderLocked();
  }
}

// An error that a running job meets must not be taken for one after the Resume:
// a failed sync is reported once, and the next one succeeds. So this requires
// that no job runs. None starts while control_.error() is set.
Status DBImpl::ResumeAsLeaderLocked() {
  // A job that met a failed sync of the directory has removed the files that it
  // had created, except the log.
  wals_.ClearDirectoryErrorLocked(control_.error());
  // Until its updates are in tables, and the MANIFEST says so, a power failure
  // may lose the log's end. The logs after it would not count then.
  Status status;
  if (control_.error().IsNoSpace()) wals_.ReleaseSpaceLocked();
  // An earlier Resume may have failed to write the rest of a log, above.
  if (!wals_.AreGoodLocked()) wals_.FailLocked();
  std::vector<ColumnFamily*> filled = families_.live();
  std::erase_if(filled, [](const ColumnFamily* family) {
    return family->memtable()->empty();
  });
  if (wals_.has_failed() || !filled.empty()) {
    status = flusher_.SwitchLocked(std::move(filled));
  }
  // Together, so that no part of a batch is left out.
  const std::vector<ColumnFamily*> families = families_.live();
  std::vector<size_t> counts;
  if (status.ok()) status = flusher_.FlushLocked(families, true, &counts);
  jobs_.PurgeLocked();  // This may free space, even after a failure.
  if (status.ok()) {
    for (size_t i = 0; i < families.size(); ++i) {
      families[i]->CountFlushedLocked(counts[i]);
    }
    // Checks that the new log can be synced. The earlier logs are not needed.
    status = wals_.SyncLocked();
    if (!status.ok()) wals_.FailLocked();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &log_, "still read-only: %s",
        status.ToString().c_str());
    return status;
  }
  control_.ClearErrorLocked();
  Log(LogLevel::kInfo, &log_, "writable again");
  control_.UpdateGateLocked();
  compactor_.ResumeLocked();
  jobs_.StartDueLocked();
  scheduler_.SignalLocked();
  events_.DeliverLocked();
  return status;
}

}  // namespace varve
