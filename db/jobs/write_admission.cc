// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/write_admission.h"

#include <algorithm>
#include <vector>

#include "db/family/common_errors.h"
#include "db/write/write_batch_internal.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// A memtable that cannot be flushed accepts this many more bytes of deletions.
constexpr size_t kDeletionBytes = 1 << 20;

}  // namespace

// ---- Before the queue -------------------------------------------------------

// Waits while writes are stopped, and then for the delay of writers that are
// slowed down, at most once.
Status WriteAdmission::AdmitLater(PendingWrite* write) {
  if (write->next == PendingWrite::Next::kPause) {
    const LocalSpan stall("stall");
    core_.env->SleepForMicroseconds(write->pause_us);
    return Status::OK();
  }
  if (write->next == PendingWrite::Next::kCheck) {
    if (BudgetIsUsedUp()) {
      Status status = AwaitBudget(write->options);
      if (!status.ok()) return status;
    }
    if (core_.control.gate().IsClear()) return Status::OK();
  }
  const LocalSpan span("stall");
  const PerfTimer timer(core_.env, &GetPerfContext()->write_delay_time);
  const HistogramTimer stall_timer(core_.stats, HistogramType::kWriteStall,
                                   core_.env);
  const TimedMutexLock lock(core_.mutex(), core_.stats, core_.env);
  ColumnFamily* family = nullptr;
  Status status = AwaitStop(write, &family);
  if (!status.ok() || write->frees || write->was_delayed ||
      family->pace().stall().pressure != WritePressure::kSlow) {
    return status;
  }
  write->was_delayed = true;
  FamilyPace& pace = family->pace();
  const uint64_t delay_us = pace.DelayMicrosLocked(
      write->touched.batch().ApproximateSize(), !write->options.no_slowdown);
  if (delay_us == 0) return status;
  if (write->options.no_slowdown) {
    return Status::Incomplete("writes are slowed down",
                              StallCauseName(pace.stall().cause));
  }
  pace.CountStallLocked(pace.stall().cause, WritePressure::kSlow);
  pace.AddStallMicrosLocked(delay_us);
  core_.mutex()->Unlock();
  core_.env->SleepForMicroseconds(delay_us);
  core_.mutex()->Lock();
  return status;
}

// Waits until the memtables of all databases that share the budget take less
// than it allows.
Status WriteAdmission::AwaitBudget(const WriteOptions& options) {
  const uint64_t slice_us = options.no_slowdown ? 0 : 100000;
  const LocalSpan span("stall");
  const HistogramTimer stall_timer(core_.stats, HistogramType::kWriteStall,
                                   core_.env);
  while (!core_.default_family.memtables().account()->AwaitSpace(slice_us)) {
    MutexLock lock(core_.mutex());
    Status status = core_.control.WritableLocked();
    if (!status.ok()) return status;
    if (core_.control.IsEndingLocked()) return Status::ShutdownInProgress();
    if (options.no_slowdown) {
      return Status::Incomplete("writes are stopped",
                                "the budget of write buffers is used up");
    }
  }
  return Status::OK();
}

// Waits until writes are not stopped, or the write is admitted because it only
// deletes. Sets *family to the one that holds the write up most. May release
// the mutex and reacquire it.
Status WriteAdmission::AwaitStop(PendingWrite* write, ColumnFamily** family) {
  const WriteBatch& batch = write->touched.batch();
  const Status& no_space = core_.picker.gate().error;
  bool counted = false;
  bool tried = false;
  write->frees = false;
  for (;;) {
    Status status = core_.control.WritableLocked();
    if (!status.ok()) {
      if (!IsSpaceError(status) || core_.control.inheritance().is_inherited() ||
          !WriteBatchInternal::OnlyDeletes(batch)) {
        return status;
      }
      status = AdmitDeletionLocked(&tried);
      if (!status.ok()) return status;
      write->frees = !core_.control.error().ok();
      if (write->frees) return status;
      continue;
    }
    *family = write->touched.MostPressedLocked();
    FamilyPace& pace = (*family)->pace();
    StallCause cause = pace.StopCauseLocked();
    if (cause == StallCause::kNone && core_.control.LogsHoldUpLocked()) {
      cause = StallCause::kLogs;
    }
    if (cause == StallCause::kNone) return Status::OK();
    if (!no_space.ok() && cause != StallCause::kMemTables &&
        cause != StallCause::kLogs) {
      write->frees = WriteBatchInternal::OnlyDeletes(batch);
      return write->frees ? Status::OK() : no_space;
    }
    if (pace.stall().pressure != WritePressure::kStop &&
        cause != StallCause::kLogs) {
      core_.control.UpdateStallLocked(*family);  // Listeners hear of it.
      core_.events.DeliverLocked();
      continue;
    }
    // No job is started any more that would end the stall.
    if (core_.scheduler.is_stopping()) return Status::ShutdownInProgress();
    if (write->options.no_slowdown) {
      return Status::Incomplete("writes are stopped", StallCauseName(cause));
    }
    if (!counted) pace.CountStallLocked(cause, WritePressure::kStop);
    counted = true;
    const Stopwatch stopped(core_.env);
    VARVE_PROBE(stall_begin, static_cast<int>(cause));
    core_.scheduler.WaitLocked();
    const uint64_t stopped_us = stopped.ElapsedMicros();
    VARVE_PROBE(stall_end, static_cast<int>(cause), stopped_us);
    // The family may have been dropped, and be gone.
    write->touched.MostPressedLocked()->pace().AddStallMicrosLocked(stopped_us);
  }
}

// ---- As the leader ----------------------------------------------------------

Status WriteAdmission::ReplaceOrPause(PendingWrite* write) {
  core_.write_queue.AwaitIdle();
  Status status = ReplaceAndPlan(write);
  if (status.ok() && write->MayGo() && core_.control.gate().TakeWakeRequest()) {
    write->next = PendingWrite::Next::kGoAndWake;
  }
  return status;
}

Status WriteAdmission::ReplaceAndPlan(PendingWrite* write) {
  Status status;
  if (core_.control.gate().MakesLeaderLook() ||
      core_.default_family.memtables().IsFull()) {
    status = Replace(write);
  }
  if (!status.ok() || !write->MayGo() || write->frees || !PaceIsDue(*write)) {
    return status;
  }
  if (core_.wals.SpaceForUpdates() == 0) return ReplaceFullLog(write);
  PlanPause(write);
  return status;
}

// Replaces the memtables that are full, unless the writer has to wait.
Status WriteAdmission::Replace(PendingWrite* write) {
  const LocalSpan span("make space");
  WriteControl& control = core_.control;
  const bool looks = control.gate().TakeRequest();
  const TimedMutexLock lock(core_.mutex(), core_.stats, core_.env);
  Status status = control.WritableLocked();
  if (!status.ok()) {
    return IsSpaceError(status) && write->frees && TakesDeletionsLocked()
               ? Status::OK()
               : status;
  }
  StallCause cause =
      write->touched.MostPressedLocked()->pace().StopCauseLocked();
  if (control.LogsHoldUpLocked()) cause = StallCause::kLogs;
  // Deletions may pass although no further memtable may wait.
  bool wait = cause != StallCause::kNone &&
              (!write->frees || core_.picker.gate().error.ok());
  std::vector<ColumnFamily*> full;
  for (ColumnFamily* const family : core_.families.live()) {
    if (!family->memtables().MustSwitchLocked()) continue;
    if (family->memtables().SlotFreeLocked()) {
      full.push_back(family);
    } else if (looks &&
               family->pace().stall().pressure != WritePressure::kStop) {
      control.UpdateStallLocked(family);  // Its writers have to wait.
    }
  }
  const bool log_is_full =
      core_.wals.SpaceForUpdates() == 0 && core_.families.HasOthers();
  const bool replaces = !full.empty() || (looks && log_is_full);
  if (!wait && replaces) {
    status = flusher_.ReplaceLogLocked(std::move(full), &wait);
  }
  // It is still to be done, by a leader after the wait.
  if (wait && looks && replaces) control.gate().RequestLook();
  if (wait) write->next = PendingWrite::Next::kWait;
  return status;
}

// Replaces the log, which has no space.
Status WriteAdmission::ReplaceFullLog(PendingWrite* write) {
  MutexLock lock(core_.mutex());
  Status status = core_.control.WritableLocked();
  if (!status.ok()) return status;
  bool wait = false;
  if (core_.families.HasOthers() && !core_.families.AreAllFlushedLocked()) {
    status = flusher_.ReplaceLogLocked({}, &wait);
  } else {
    // Nobody but this family's memtable can need the log.
    ColumnFamily& family = core_.default_family;
    family.memtables().SetLogFullLocked();
    wait = family.pace().StopCauseLocked() != StallCause::kNone;
    if (!wait) status = flusher_.SwitchLocked({&family});
  }
  if (wait) write->next = PendingWrite::Next::kWait;
  return status;
}

// Plans the pause that is due for one of the families.
void WriteAdmission::PlanPause(PendingWrite* write) {
  const bool may_pause =
      write->paused_us < DebtPace::kMaxWaitUs && !write->options.no_slowdown;
  MutexLock lock(core_.mutex());
  if (core_.calls.watch_quiet) core_.calls.watch_quiet();
  write->pause_us = 0;
  for (ColumnFamily* const family : write->touched.All()) {
    FamilyPace& pace = family->pace();
    if (!pace.IsDue()) continue;
    write->pause_us = std::max(
        write->pause_us,
        pace.PauseMicrosLocked(*family->version(), core_.wals.SpaceForUpdates(),
                               may_pause));
  }
  if (write->pause_us == 0) return;
  write->paused_us += write->pause_us;
  write->next = PendingWrite::Next::kPause;
}

// ---- A full device ----------------------------------------------------------

// Whether a batch that only deletes is logged although there is no space.
bool WriteAdmission::TakesDeletionsLocked() const {
  const std::vector<ColumnFamily*>& live = core_.families.live();
  // After a log whose end is unknown, updates may be lost. A child created by
  // fork() has inherited the error, and not the log.
  return IsSpaceError(core_.control.error()) &&
         !core_.control.inheritance().is_inherited() &&
         core_.wals.AreGoodLocked() &&
         std::all_of(live.begin(), live.end(), [](const ColumnFamily* family) {
           return family->memtable()->ApproximateMemoryUsage() <=
                  family->options().write_buffer_size + kDeletionBytes;
         });
}

// Returns OK if a batch that only deletes may be written although there is an
// error. Calls DB::Resume unless *tried. May release the mutex and reacquire
// it.
Status WriteAdmission::AdmitDeletionLocked(bool* tried) {
  const Status& error = core_.control.error();
  if (TakesDeletionsLocked()) return Status::OK();
  if (*tried || !IsSpaceError(error)) return error;
  *tried = true;
  return TryResumeLocked();
}

// Calls DB::Resume. Returns the error that still prevents writes. Releases the
// mutex and reacquires it.
Status WriteAdmission::TryResumeLocked() {
  core_.mutex()->Unlock();
  Status status = core_.calls.resume();
  core_.mutex()->Lock();
  const Status& error = core_.control.error();
  return status.ok() || error.ok() ? status : error;
}

Status WriteAdmission::ResumeIfFull() {
  MutexLock lock(core_.mutex());
  Status status = core_.control.WritableLocked();
  if (!IsTransientError(status) || core_.control.inheritance().is_inherited())
    return status;
  return TryResumeLocked();
}

}  // namespace varve
