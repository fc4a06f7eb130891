// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/write_control.h"

#include <string>

#include "db/family/common_errors.h"
#include "db/jobs/db_core.h"
#include "db/jobs/job_events.h"
#include "util/base/probe.h"

namespace varve {

bool WriteControl::IsClosedLocked() const {
  return is_closing_ && core_.wals.EmptyLocked();
}

bool WriteControl::IsEndingLocked() const {
  return is_closing_ || core_.scheduler.is_stopping();
}

Status WriteControl::WritableLocked() {
  if (IsClosedLocked()) return ClosedError();
  if (inheritance_.is_inherited()) [[unlikely]]
    core_.calls.take_over();
  return error_;
}

Status WriteControl::CheckWritable() {
  MutexLock lock(core_.mutex());
  return WritableLocked();
}

void WriteControl::SetErrorLocked(const Status& status, const char* where) {
  ++error_count_;
  VARVE_PROBE(background_error, where, static_cast<int>(status.code()));
  RecordTick(core_.stats, Ticker::kBackgroundErrors);
  if (status.IsIOError()) RecordTick(core_.stats, Ticker::kBackgroundIoErrors);
  Log(LogLevel::kError, &core_.log, "%s: %s", where, status.ToString().c_str());
  if (error_.ok()) {
    error_ = status.Annotate(std::string("the database is read-only since ") +
                             where + " failed");
    UpdateGateLocked();
    // No flush begins that would free them.
    for (ColumnFamily* const family : core_.families.live()) {
      family->memtables().MarkFlushExpectedLocked(false);
    }
    const std::string what = where;
    core_.events.Add([what, status](EventListener* listener) {
      listener->OnBackgroundError(what, status);
    });
    if (IsTransientError(status) && !IsEndingLocked())
      core_.auto_resume.StartLocked();
  }
  core_.scheduler.SignalLocked();
}

void WriteControl::SetInheritedErrorLocked() {
  if (error_.ok()) error_ = inheritance_.Error(core_.directory.path());
}

void WriteControl::UpdateStallLocked(ColumnFamily* family) {
  const WriteStallState before = family->pace().stall();
  const WriteDebt debt = family->pace().UpdateStallLocked(*family->version());
  ReportStall(core_.directory.path(), family->name(), before,
              family->pace().stall(), debt, &core_.log, &core_.events);
  UpdateGateLocked();
}

void WriteControl::UpdateGateLocked() {
  bool stops = false;
  bool slows = false;
  for (const ColumnFamily* family : core_.families.live()) {
    stops |= family->pace().stall().pressure == WritePressure::kStop;
    slows |= family->pace().stall().pressure == WritePressure::kSlow;
  }
  stops |= core_.log_bound.holds_up();
  gate_.Update(!error_.ok() || inheritance_.is_inherited() || IsClosedLocked(),
               stops, slows);
}

// While files are held, to wait would free no log.
bool WriteControl::CheckLogsLocked() {
  return core_.log_bound.CheckLocked((core_.families.CountToFlushLocked() > 0 ||
                                      core_.obsolete.running() > 0) &&
                                     error_.ok() && !core_.obsolete.is_held());
}

bool WriteControl::LogsHoldUpLocked() {
  if (!core_.log_bound.holds_up()) return false;
  const bool hold_up = CheckLogsLocked();
  if (!hold_up) UpdateGateLocked();
  return hold_up;
}

bool WriteControl::LogsBeginToHoldUpLocked() {
  const bool hold_up = CheckLogsLocked();
  UpdateGateLocked();
  return hold_up;
}

void WriteControl::InstallSuperVersionLocked(ColumnFamily* family) {
  VARVE_PROBE(super_version_install, family->memtables().immutable().size());
  family->InstallSuperVersionLocked(IsClosedLocked());
  UpdateStallLocked(family);
  core_.scheduler.SignalLocked();
}

}  // namespace varve
