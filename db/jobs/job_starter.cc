// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/job_starter.h"

#include "db/options/options_check.h"

namespace varve {

void JobStarter::StartDueLocked() {
  WriteControl& control = *parts_.control;
  BackgroundScheduler& scheduler = *parts_.scheduler;
  if (parts_.is_read_only || scheduler.is_stopping() || !control.error().ok() ||
      control.inheritance().is_inherited()) {
    return;
  }
  // A queued job chooses what is due when it begins. When it has, the next one
  // is scheduled for the rest. An atomic flush is of all families.
  const int flushes =
      parts_.options->atomic_flush ? 1 : MaxFlushes(*parts_.options);
  if (scheduler.QueuedLocked(JobKind::kFlush) == 0 &&
      scheduler.JobsLocked(JobKind::kFlush) < flushes &&
      parts_.picker->FlushDueLocked()) {
    ScheduleLocked(JobKind::kFlush, jobs_.flush);
  }
  if (scheduler.JobsLocked(JobKind::kCleanup) == 0 &&
      !parts_.picker->FamiliesToCleanLocked().empty()) {
    // Without a thread, nothing but this is left undone.
    scheduler.ScheduleLocked(JobKind::kCleanup, jobs_.clean_up).IgnoreError();
  }
  if (parts_.picker->GateIsOpenLocked() &&
      scheduler.JobsLocked(JobKind::kCompaction) <
          MaxCompactions(*parts_.options) &&
      parts_.picker->CompactionDueLocked()) {
    ScheduleLocked(JobKind::kCompaction, jobs_.compact,
                   parts_.picker->CompactionsAreUrgentLocked());
  }
}

void JobStarter::TryStartDue() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  if (!parts_.mutex->TryLock()) return;
  StartDueLocked();
  parts_.mutex->Unlock();
}

void JobStarter::ScheduleLocked(JobKind kind, const std::function<void()>& job,
                                bool urgent) {
  const Status status = parts_.scheduler->ScheduleLocked(kind, job, urgent);
  if (!status.ok()) {
    parts_.control->SetErrorLocked(status, "starting a background job");
  }
}

void JobStarter::PurgeLocked() {
  if (parts_.is_read_only || parts_.control->inheritance().is_inherited() ||
      !parts_.obsolete->AnyLocked()) {
    return;
  }
  parts_.obsolete->RemoveLocked();
}

void JobStarter::PurgeLaterLocked() {
  if (parts_.obsolete->AnyLocked() &&
      parts_.scheduler->QueuedLocked(JobKind::kPurge) == 0 &&
      !parts_.control->is_closing() && !parts_.is_read_only &&
      !parts_.control->inheritance().is_inherited()) {
    ScheduleLocked(JobKind::kPurge, [this] {
      MutexLock lock(parts_.mutex);
      PurgeLocked();
      parts_.scheduler->FinishLocked(JobKind::kPurge);
    });
  }
}

}  // namespace varve
