// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/job_starter.h"

#include "db/jobs/db_core.h"
#include "db/options/options_check.h"

namespace varve {

void JobStarter::StartDueLocked() {
  WriteControl& control = core_.control;
  BackgroundScheduler& scheduler = core_.scheduler;
  if (core_.is_read_only || scheduler.is_stopping() || !control.error().ok() ||
      control.inheritance().is_inherited()) {
    return;
  }
  // A queued job chooses what is due when it begins. When it has, the next one
  // is scheduled for the rest. An atomic flush is of all families.
  const int flushes =
      core_.options.atomic_flush ? 1 : MaxFlushes(core_.options);
  if (scheduler.QueuedLocked(JobKind::kFlush) == 0 &&
      scheduler.JobsLocked(JobKind::kFlush) < flushes &&
      core_.picker.FlushDueLocked()) {
    ScheduleLocked(JobKind::kFlush, core_.calls.flush);
  }
  if (scheduler.JobsLocked(JobKind::kCleanup) == 0 &&
      !core_.picker.FamiliesToCleanLocked().empty()) {
    // Without a thread, nothing but this is left undone.
    scheduler.ScheduleLocked(JobKind::kCleanup, core_.calls.clean_up)
        .IgnoreError();
  }
  if (core_.picker.GateIsOpenLocked() &&
      scheduler.JobsLocked(JobKind::kCompaction) <
          MaxCompactions(core_.options) &&
      core_.picker.CompactionDueLocked()) {
    ScheduleLocked(JobKind::kCompaction, core_.calls.compact,
                   core_.picker.CompactionsAreUrgentLocked());
  }
}

void JobStarter::TryStartDue() {
  if (!core_.mutex()->TryLock()) return;
  StartDueLocked();
  core_.mutex()->Unlock();
}

void JobStarter::ScheduleLocked(JobKind kind, const std::function<void()>& job,
                                bool urgent) {
  const Status status = core_.scheduler.ScheduleLocked(kind, job, urgent);
  if (!status.ok()) {
    core_.control.SetErrorLocked(status, "starting a background job");
  }
}

void JobStarter::PurgeLocked() {
  if (core_.is_read_only || core_.control.inheritance().is_inherited() ||
      !core_.obsolete.AnyLocked()) {
    return;
  }
  core_.obsolete.RemoveLocked();
}

void JobStarter::PurgeLaterLocked() {
  if (core_.obsolete.AnyLocked() &&
      core_.scheduler.QueuedLocked(JobKind::kPurge) == 0 &&
      !core_.control.is_closing() && !core_.is_read_only &&
      !core_.control.inheritance().is_inherited()) {
    ScheduleLocked(JobKind::kPurge, [this] {
      MutexLock lock(core_.mutex());
      PurgeLocked();
      core_.scheduler.FinishLocked(JobKind::kPurge);
    });
  }
}

}  // namespace varve
