// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/write_control.h"

#include <string>

#include "db/family/common_errors.h"
#include "db/jobs/job_events.h"
#include "util/base/probe.h"

namespace varve {

void WriteControl::SetErrorLocked(const Status& status, const char* where) {
  ++error_count_;
  VARVE_PROBE(background_error, where, static_cast<int>(status.code()));
  RecordTick(parts_.stats, Ticker::kBackgroundErrors);
  if (status.IsIOError()) RecordTick(parts_.stats, Ticker::kBackgroundIoErrors);
  Log(LogLevel::kError, parts_.log, "%s: %s", where, status.ToString().c_str());
  if (error_.ok()) {
    error_ = status.Annotate(std::string("the database is read-only since ") +
                             where + " failed");
    UpdateGateLocked();
    // No flush begins that would free them.
    for (ColumnFamily* const family : parts_.families->live()) {
      family->MarkFlushExpectedLocked(false);
    }
    const std::string what = where;
    parts_.events->Add([what, status](EventListener* listener) {
      listener->OnBackgroundError(what, status);
    });
    if (IsTransientError(status) && !IsEndingLocked())
      parts_.auto_resume->StartLocked();
  }
  parts_.scheduler->SignalLocked();
}

void WriteControl::SetInheritedErrorLocked() {
  if (error_.ok()) error_ = inheritance_.Error(parts_.place->path());
}

void WriteControl::UpdateStallLocked(ColumnFamily* family) {
  const WriteStallState before = family->stall();
  const WriteDebt debt = family->UpdateStallLocked();
  ReportStall(parts_.place->path(), family->name(), before, family->stall(),
              debt, parts_.log, parts_.events);
  UpdateGateLocked();
}

void WriteControl::UpdateGateLocked() {
  bool stops = false;
  bool slows = false;
  for (const ColumnFamily* family : parts_.families->live()) {
    stops |= family->stall().pressure == WritePressure::kStop;
    slows |= family->stall().pressure == WritePressure::kSlow;
  }
  stops |= log_bound_.holds_up();
  gate_.Update(!error_.ok() || inheritance_.is_inherited() || IsClosedLocked(),
               stops, slows);
}

bool WriteControl::CheckLogsLocked() {
  return log_bound_.CheckLocked((parts_.families->CountToFlushLocked() > 0 ||
                                 parts_.obsolete->running() > 0) &&
                                error_.ok());
}

bool WriteControl::LogsHoldUpLocked() {
  if (!log_bound_.holds_up()) return false;
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
  VARVE_PROBE(super_version_install, family->immutable().size());
  family->InstallSuperVersionLocked(IsClosedLocked());
  UpdateStallLocked(family);
  parts_.scheduler->SignalLocked();
}

}  // namespace varve
