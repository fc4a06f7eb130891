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
  if (core_.is_read_only) return ReadOnlyError();
  Status status = core_.control.CheckWritable();
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  if (core_.control.IsClosedLocked()) return ClosedError();
  if (!core_.control.error().ok()) return core_.control.error();
  return flusher_.FlushLogLocked(sync);
}

// Makes durable what Close must. An update of a database that is closed is in
// one of three places:
// - In a table that the MANIFEST names. LogAndApply synced both when it was
//   flushed, and the directory with the names of the table and of the log that
//   follows.
// - In a log. One sync of that log makes it durable, with the name if the
//   directory was not synced since the log was created. The log also holds what
//   manual_wal_flush left in a buffer, and what was stored into a mapping.
// - With disable_wal, in a memtable alone. CloseLocked has flushed it.
// So nothing is left to sync if the newest log is the only one and has no
// record but the one that names its predecessor. That record is needed only for
// updates after it. Without it, as after a power cut directly after the flush,
// the log is empty. The same is true of a log that an Open created, and whose
// name nothing depends on yet.
//
// A log whose updates were all synced is synced again: that is one more system
// call at the end of a session, and no state to keep for it at each write.
Status DBImpl::SyncLogAtClose() {
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  // After other failures the log still holds all written updates.
  if (core_.wals.has_failed()) return core_.control.error();
  if (core_.wals.OldestLocked() == core_.wals.NewestLocked() &&
      core_.wals.UpdateBytes() == 0) {
    return core_.directory.Verify();
  }
  // Before the sync, which makes both durable. After it, the release would wait
  // for the file system's journal once more.
  core_.wals.ReleaseSpaceLocked();
  return flusher_.FlushLogLocked(true);
}

// Records in the MANIFEST the last update in the logs, if they hold any that no
// table has. Without it, a log that is later deleted, emptied or replaced by an
// older copy looks like one that never held more. May release the mutex and
// reacquire it.
//
// The record is not synced, because no update depends on it: the logs are
// synced before it is written, so it never names an update that a power cut can
// take. A power cut soon after Close may lose the record, and then such a log
// is not noticed. It may also tear it. Recovery takes that for an edit that was
// being written, and begins a new MANIFEST.
void DBImpl::NoteLogsEndLocked() {
  if (core_.is_read_only ||
      !core_.default_family.memtables().HasBegunLocked() ||
      !core_.control.error().ok())
    return;
  bool any = false;
  for (const ColumnFamily* family : core_.families.live()) {
    any |= !family->memtable()->empty() ||
           std::any_of(family->memtables().immutable().begin(),
                       family->memtables().immutable().end(),
                       [](const MemTable* m) { return !m->empty(); });
  }
  // The last update may then be in no log.
  if (!any || core_.families.HasUnloggedLocked()) return;
  VersionEdit edit;
  // Later updates were in no log, and are in tables.
  edit.SetLogsEnd(core_.wals.last_logged());
  const Status status =
      core_.versions->AppendLastLocked(core_.default_family.versions(), &edit);
  if (!status.ok()) {
    // No update depends on it: the logs are synced.
    Log(LogLevel::kWarn, &core_.log, "the end of the logs is not noted: %s",
        status.ToString().c_str());
  }
}

Status DBImpl::Flush(const FlushOptions& options, ColumnFamilyHandle* family) {
  return Flush(options, std::vector<ColumnFamilyHandle*>{family});
}

Status DBImpl::Flush(const FlushOptions& options,
                     const std::vector<ColumnFamilyHandle*>& families) {
  std::vector<ColumnFamily*> found = FamiliesOf(core_.families, families);
  if (!found.empty() && found.front() == nullptr) return ForeignHandleError();
  return FlushFamilies(options, std::move(found));
}

Status DBImpl::FlushFamilies(const FlushOptions& options,
                             std::vector<ColumnFamily*> families) {
  if (core_.is_read_only) return ReadOnlyError();
  Status status = admission_.ResumeIfFull();
  if (!status.ok()) return status;
  std::vector<uint64_t> targets;
  for (bool switched = false; !switched;) {
    WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    if (!core_.control.error().ok()) return core_.control.error();
    // A log that no memtable accounts for is freed by a switch too.
    const bool frees_log =
        !core_.families.HasOthers() && core_.wals.UpdateBytes() > 0;
    std::vector<ColumnFamily*> filled;
    bool has_slots = true;
    for (ColumnFamily* const family : families) {
      if (family->is_dropped()) {
        return FamilyDroppedError(family->name());
      }
      if (family->memtable()->empty() && !frees_log) continue;
      filled.push_back(family);
      has_slots &= family->memtables().SlotFreeLocked();
    }
    switched = filled.empty();
    // No job is started any more that would write it.
    if (!switched && core_.scheduler.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    if (!switched && has_slots) {
      status = flusher_.SwitchLocked(std::move(filled));
      if (!status.ok()) return status;
      switched = true;
    }
    targets.clear();
    for (const ColumnFamily* family : families) {
      targets.push_back(family->memtables().switched_count());
    }
    if (!switched) {
      // Others may write during the wait.
      leader.Leave();
      core_.scheduler.WaitLocked();
    }
  }
  if (!options.wait) return Status::OK();
  MutexLock lock(core_.mutex());
  for (size_t i = 0; i < families.size() && status.ok(); ++i) {
    status = flusher_.AwaitLocked(*families[i], targets[i]);
  }
  return status;
}

Status DBImpl::FlushUnlogged() {
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  if (!core_.families.HasUnloggedLocked()) return Status::OK();
  return core_.control.error().ok() ? flusher_.FlushAllLocked()
                                    : core_.control.error();
}

Status DBImpl::Resume() {
  if (core_.is_read_only) return ReadOnlyError();
  {
    MutexLock lock(core_.mutex());
    Status status = core_.control.WritableLocked();
    if (core_.control.IsClosedLocked()) return status;
    // First: in a child of fork(), the directory's mutex may be held forever.
    if (core_.control.inheritance().is_inherited()) return status;
    const Status failure = core_.directory.directory()->failure();
    if (!failure.ok() && core_.control.error().ok()) {
      // No caller relied on that sync, but the next one will.
      core_.control.SetErrorLocked(failure, "a sync of the directory");
      core_.events.DeliverLocked();
    }
  }
  // An error that a running job meets must not be taken for one after this.
  const auto jobs_run = [this]() VARVE_REQUIRES(kDbMutex) {
    return core_.scheduler.JobsLocked(JobKind::kFlush) > 0 ||
           core_.families.AnyCompactsLocked();
  };
  for (;;) {
    {
      // Without leadership, so that writes are refused at once. Close drops a
      // queued flush, which then never ends.
      MutexLock lock(core_.mutex());
      while (jobs_run() && !core_.control.error().ok() &&
             !core_.control.IsEndingLocked()) {
        core_.scheduler.WaitLocked();
      }
    }
    // No thread writes before this is done, since the error is set. Leadership
    // is needed for the log.
    const WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    if (core_.control.error().ok()) {
      compactor_.ResumeLocked();
      return Status::OK();
    }
    if (core_.control.IsEndingLocked()) return Status::ShutdownInProgress();
    // Unless another Resume came first, and another error since.
    if (!jobs_run()) return ResumeAsLeaderLocked();
  }
}

// An error that a running job meets must not be taken for one after the Resume:
// a failed sync is reported once, and the next one succeeds. So this requires
// that no job runs. None starts while core_.control.error() is set.
Status DBImpl::ResumeAsLeaderLocked() {
  // Updates are in a log and not visible, and only an Open brings them back.
  if (core_.write_queue.order().has_failed()) return core_.control.error();
  // A job that met a failed sync of the directory has removed the files that it
  // had created, except the log.
  core_.wals.ClearDirectoryErrorLocked(core_.control.error());
  // Until its updates are in tables, and the MANIFEST says so, a power failure
  // may lose the log's end. The logs after it would not count then.
  Status status;
  if (core_.control.error().IsNoSpace()) core_.wals.ReleaseSpaceLocked();
  // An earlier Resume may have failed to write the rest of a log, above.
  if (!core_.wals.AreGoodLocked()) core_.wals.FailLocked();
  std::vector<ColumnFamily*> filled = core_.families.live();
  std::erase_if(filled, [](const ColumnFamily* family) {
    return family->memtable()->empty();
  });
  const bool logs_failed = core_.wals.has_failed();
  if (logs_failed || !filled.empty()) {
    status = flusher_.SwitchLocked(std::move(filled));
  }
  // The flush makes the MANIFEST name the new log as the first.
  if (status.ok() && logs_failed) status = flusher_.MovePreparedLocked(false);
  // Together, so that no part of a batch is left out.
  const std::vector<ColumnFamily*> families = core_.families.live();
  std::vector<size_t> counts;
  if (status.ok()) status = flusher_.FlushLocked(families, true, &counts);
  core_.jobs.PurgeLocked();  // This may free space, even after a failure.
  if (status.ok()) {
    for (size_t i = 0; i < families.size(); ++i) {
      families[i]->memtables().CountFlushedLocked(counts[i]);
    }
    // Checks that the new log can be synced. The earlier logs are not needed.
    status = core_.wals.SyncLocked();
    if (!status.ok()) core_.wals.FailLocked();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &core_.log, "still read-only: %s",
        status.ToString().c_str());
    return status;
  }
  core_.control.ClearErrorLocked();
  Log(LogLevel::kInfo, &core_.log, "writable again");
  core_.control.UpdateGateLocked();
  compactor_.ResumeLocked();
  core_.jobs.StartDueLocked();
  core_.scheduler.SignalLocked();
  core_.events.DeliverLocked();
  return status;
}

}  // namespace varve
