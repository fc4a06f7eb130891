// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The logs: writing, syncing and replacing them, and recovery from errors,
// which needs a new log.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/parts/common_errors.h"
#include "util/base/probe.h"

namespace varve {

Status DBImpl::SyncWAL() { return FlushWAL(true); }

Status DBImpl::FlushWAL(bool sync) {
  if (read_only_) return ReadOnlyError();
  Status status = CheckWritable();
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (IsClosedLocked()) return ClosedError();
  if (!background_error_.ok()) return background_error_;
  return FlushLogLocked(sync);
}

Status DBImpl::SyncLogAtClose() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  // After other failures the log still holds all written updates.
  return wals_.has_failed() ? background_error_ : FlushLogLocked(true);
}

// Records in the MANIFEST the last update in the logs, if they hold any that no
// table has. Without it, a log that is later deleted, emptied or replaced by an
// older copy looks like one that never held more. May release the mutex and
// reacquire it.
void DBImpl::NoteLogsEndLocked() {
  if (read_only_ || !family_.HasBegunLocked() || !background_error_.ok())
    return;
  const bool any =
      std::any_of(family_.immutable().begin(), family_.immutable().end(),
                  [](const MemTable* m) { return !m->empty(); });
  // The last update may then be in no log.
  if ((!any && family_.memtable()->empty()) || family_.HasUnloggedLocked())
    return;
  VersionEdit edit;
  edit.SetLogsEnd(versions_->LastSequence());
  const Status status = versions_->LogAndApply(&edit);
  if (!status.ok()) {
    // No update depends on it: the logs are synced.
    Log(LogLevel::kWarn, &log_, "the end of the logs is not noted: %s",
        status.ToString().c_str());
  }
}

Status DBImpl::FlushLogLocked(bool sync) {
  mutex_.Unlock();
  Status status = wals_.Flush();
  mutex_.Lock();
  if (status.ok() && sync) status = wals_.SyncLocked();
  if (!status.ok()) {
    wals_.FailLocked();
    SetBackgroundErrorLocked(status, "writing the log");
    events_.DeliverLocked();
  }
  return status;
}

// Starts a new log and memtable.
Status DBImpl::SwitchMemTableLocked() {
  mutex_.Unlock();
  WalSet::Next next = wals_.CreateNext(versions_->NewFileNumber(),
                                       versions_->LastSequence() + 1,
                                       family_.StallStateHasError());
  MemTable* const memtable =
      next.status.ok() ? family_.NewMemTable(next.wal.number) : nullptr;
  mutex_.Lock();
  if (!next.status.ok()) {
    // Making a file may be tried again.
    if (!next.newest_is_whole) wals_.FailLocked();
    if (!next.newest_is_whole || next.was_created) {
      SetBackgroundErrorLocked(next.status, "writing the log");
      events_.DeliverLocked();
    }
    return next.status;
  }
  // Of the log that is complete now. A new one has no path yet.
  if (wals_.WritePathChangedLocked()) {
    Log(LogLevel::kInfo, &log_, "the log is written by: %s",
        wals_.WritePathLocked().c_str());
  }
  dead_walks_.leader_ranges()->DropUnused();
  dead_walks_.BeginMemTable();
  VARVE_PROBE(memtable_switch, next.wal.number);
  wals_.AddLocked(std::move(next.wal));
  family_.SwitchLocked(memtable, scheduler_.JobsLocked(JobKind::kFlush) > 0);
  InstallSuperVersionLocked();
  MaybeScheduleLocked();
  events_.DeliverLocked();
  return Status::OK();
}

Status DBImpl::Flush(const FlushOptions& options) {
  if (read_only_) return ReadOnlyError();
  Status resumed = ResumeIfFull();
  if (!resumed.ok()) return resumed;
  uint64_t target = 0;
  for (bool switched = false; !switched;) {
    WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (!background_error_.ok()) return background_error_;
    // A log that no memtable accounts for is freed by a switch too.
    switched = family_.memtable()->empty() && wals_.UpdateBytes() == 0;
    // No job is started any more that would write it.
    if (!switched && scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    if (!switched && family_.SlotFreeLocked()) {
      Status status = SwitchMemTableLocked();
      if (!status.ok()) return status;
      switched = true;
    }
    target = family_.switched_count();
    if (!switched) {
      // Others may write during the wait.
      leader.Leave();
      scheduler_.WaitLocked();
    }
  }
  if (!options.wait) return Status::OK();
  MutexLock lock(&mutex_);
  return AwaitFlushLocked(target);
}

Status DBImpl::FlushUnlogged() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (!family_.HasUnloggedLocked()) return Status::OK();
  return background_error_.ok() ? FlushAsLeaderLocked() : background_error_;
}

// Waits until `target` memtables have been flushed since Open.
Status DBImpl::AwaitFlushLocked(uint64_t target) {
  while (family_.flushed_count() < target && background_error_.ok()) {
    // No job is started any more that would end the wait.
    if (scheduler_.JobsLocked(JobKind::kFlush) == 0 &&
        scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    scheduler_.WaitLocked();
  }
  return family_.flushed_count() < target ? background_error_ : Status::OK();
}

// Flushes all memtables. Writers wait until this is done.
Status DBImpl::FlushAsLeaderLocked() {
  if (!family_.memtable()->empty()) {
    Status status = AwaitFlushLocked(family_.switched_count());
    if (status.ok()) status = SwitchMemTableLocked();
    if (!status.ok()) return status;
  }
  return AwaitFlushLocked(family_.switched_count());
}

Status DBImpl::Resume() {
  if (read_only_) return ReadOnlyError();
  {
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    // First: in a child of fork(), the directory's mutex may be held forever.
    if (inheritance_.is_inherited()) return status;
    const Status failure = db_directory_.directory()->failure();
    if (!failure.ok() && background_error_.ok()) {
      // No caller relied on that sync, but the next one will.
      SetBackgroundErrorLocked(failure, "a sync of the directory");
      events_.DeliverLocked();
    }
  }
  for (;;) {
    {
      // Without leadership, so that writes are refused at once. Close drops a
      // queued flush, which then never ends.
      MutexLock lock(&mutex_);
      while (JobsRunLocked() && !background_error_.ok() && !IsEndingLocked()) {
        scheduler_.WaitLocked();
      }
    }
    // No thread writes before this is done, since the error is set. Leadership
    // is needed for the log.
    const WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (background_error_.ok()) {
      ResumeCompactionsLocked();
      return Status::OK();
    }
    if (IsEndingLocked()) return Status::ShutdownInProgress();
    // Unless another Resume came first, and another error since.
    if (!JobsRunLocked()) return ResumeAsLeaderLocked();
  }
}

// An error that a running job meets must not be taken for one after the Resume:
// a failed sync is reported once, and the next one succeeds. So this requires
// that no job runs. None starts while background_error_ is set.
Status DBImpl::ResumeAsLeaderLocked() {
  // A job that met a failed sync of the directory has removed the files that it
  // had created, except the log.
  wals_.ClearDirectoryErrorLocked(background_error_);
  // Until its updates are in tables, and the MANIFEST says so, a power failure
  // may lose the log's end. The logs after it would not count then.
  Status status;
  if (background_error_.IsNoSpace()) wals_.ReleaseSpaceLocked();
  // An earlier Resume may have failed to write the rest of a log, above.
  if (!wals_.AreGoodLocked()) wals_.FailLocked();
  if (wals_.has_failed() || !family_.memtable()->empty())
    status = SwitchMemTableLocked();
  size_t count = 0;
  if (status.ok()) status = FlushImmutablesLocked(&count);
  PurgeObsoleteLocked();  // This may free space, even after a failure.
  if (status.ok()) {
    family_.CountFlushedLocked(count);
    // Checks that the new log can be synced. The earlier logs are not needed.
    status = wals_.SyncLocked();
    if (!status.ok()) wals_.FailLocked();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &log_, "still read-only: %s",
        status.ToString().c_str());
    return status;
  }
  background_error_ = Status::OK();
  Log(LogLevel::kInfo, &log_, "writable again");
  UpdateStallStateLocked();
  ResumeCompactionsLocked();
  MaybeScheduleLocked();
  scheduler_.SignalLocked();
  events_.DeliverLocked();
  return status;
}

bool DBImpl::JobsRunLocked() const {
  return scheduler_.JobsLocked(JobKind::kFlush) > 0 ||
         !family_.compactions().running.empty();
}

}  // namespace varve
