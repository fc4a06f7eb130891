// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Manual compactions, and waits for background work.

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"

namespace varve {

Status DBImpl::CompactRange(const CompactRangeOptions& options,
                            ColumnFamilyHandle* handle, const Slice* begin,
                            const Slice* end) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  const UserKeyRange range{begin, end};
  Status status = CompactRangeOnce(family, options, range);
  if (!IsSpaceError(status)) return status;
  // Tables dropped without output make space for the rest.
  bool dropped = false;
  const Status drop_status = DropCovered(family, &dropped);
  if (!dropped) return drop_status.ok() ? status : drop_status;
  return CompactRangeOnce(family, options, range);
}

Status DBImpl::CompactRangeOnce(ColumnFamily* family,
                                const CompactRangeOptions& options,
                                const UserKeyRange& range) {
  Status status = admission_.ResumeIfFull();
  // Memtables without keys of the range need not be flushed for it.
  if (status.ok() && family->MemTablesOverlap(range.begin, range.end)) {
    status = FlushFamilies(FlushOptions(), {family});
  }
  if (!status.ok()) return status;
  MutexLock lock(core_.mutex());
  status = core_.control.WritableLocked();
  return status.ok() ? compactor_.RunManualLocked(family, options, range)
                     : status;
}

void DBImpl::CancelAllBackgroundWork(bool wait) {
  MutexLock lock(core_.mutex());
  StopJobsLocked();
  core_.publications.End();
  if (wait) WaitForBackgroundLocked();
}

Status DBImpl::WaitForCompact() {
  // It would come as soon as nothing was written for some seconds.
  FlushInQuiet();
  MutexLock lock(core_.mutex());
  if (core_.control.IsClosedLocked()) return ClosedError();
  if (core_.is_read_only) return Status::OK();
  for (;;) {
    // A running job looks for more itself.
    if (core_.scheduler.JobsLocked() == 0 &&
        !core_.families.AnyCompactsLocked()) {
      // A snapshot may have been released.
      const SequenceNumber oldest =
          core_.default_family.snapshots()->FindOldestLocked().sequence;
      for (ColumnFamily* const family : core_.families.live()) {
        family->cleaner()->NoteSnapshotsLocked(oldest);
      }
      core_.jobs.StartDueLocked();
      core_.jobs.PurgeLaterLocked();
    }
    Status status = core_.control.WritableLocked();
    if (!status.ok()) return status;
    const bool runs = WorkRunsLocked();
    if (!runs && !core_.picker.gate().error.ok())
      return core_.picker.gate().error;
    const bool is_due =
        core_.picker.FlushDueLocked() || core_.picker.CompactionDueLocked();
    const bool goes_on = !core_.scheduler.is_stopping();
    if (!runs && !(is_due && goes_on)) {
      return is_due ? Status::ShutdownInProgress() : Status::OK();
    }
    core_.scheduler.WaitLocked();
  }
}

}  // namespace varve
