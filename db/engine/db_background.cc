// Varve: a key-value storage engine. MIT licence, see LICENSE.

#include "db/engine/db_impl.h"
#include "db/options/options_check.h"
#include "db/parts/common_errors.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "util/base/probe.h"

namespace varve {

void DBImpl::MaybeScheduleLocked() {
  if (read_only_ || scheduler_.is_stopping() || !background_error_.ok() ||
      inheritance_.is_inherited()) {
    return;
  }
  if (!family_.immutable().empty() &&
      scheduler_.JobsLocked(JobKind::kFlush) == 0) {
    ScheduleLocked(JobKind::kFlush, &DBImpl::BackgroundFlush);
  }
  if ((dead_walks_.reports()->Any() || dead_walks_.ReadsRangeDeletions() ||
       cleaner_.MustExamineLocked()) &&
      CleansLocked() && scheduler_.JobsLocked(JobKind::kCleanup) == 0) {
    // Without a thread, nothing but this is left undone.
    scheduler_
        .ScheduleLocked(JobKind::kCleanup, [this] { BackgroundCleanup(); })
        .IgnoreError();
  }
  if (!family_.compactions().is_exclusive && family_.compactions().error.ok() &&
      scheduler_.JobsLocked(JobKind::kCompaction) < MaxCompactions(options_) &&
      CompactionDueLocked()) {
    ScheduleLocked(JobKind::kCompaction, &DBImpl::BackgroundCompaction,
                   family_.CompactionsAreUrgentLocked());
  }
}

// Sets background_error_ if no thread can be started. The event waits for the
// next DeliverLocked.
void DBImpl::ScheduleLocked(JobKind kind, void (DBImpl::*job)(), bool urgent) {
  const Status status = scheduler_.ScheduleLocked(
      kind, [this, job] { (this->*job)(); }, urgent);
  if (!status.ok()) {
    SetBackgroundErrorLocked(status, "starting a background job");
  }
}

void DBImpl::SetBackgroundErrorLocked(const Status& status, const char* where) {
  ++background_error_count_;
  VARVE_PROBE(background_error, where, static_cast<int>(status.code()));
  RecordTick(stats_, Ticker::kBackgroundErrors);
  if (status.IsIOError()) RecordTick(stats_, Ticker::kBackgroundIoErrors);
  Log(LogLevel::kError, &log_, "%s: %s", where, status.ToString().c_str());
  if (background_error_.ok()) {
    background_error_ = status.Annotate(
        std::string("the database is read-only since ") + where + " failed");
    UpdateStallStateLocked();
    const std::string what = where;
    events_.Add([what, status](EventListener* listener) {
      listener->OnBackgroundError(what, status);
    });
    if (IsTransientError(status) && !IsEndingLocked())
      auto_resume_.StartLocked();
  }
  scheduler_.SignalLocked();
}

void DBImpl::BackgroundFlush() {
  const TimedMutexLock lock(&mutex_, stats_, env_);
  if (!scheduler_.is_stopping() && background_error_.ok() &&
      !family_.immutable().empty()) {
    size_t count = 0;
    const Status status = FlushImmutablesLocked(&count);
    if (!status.ok()) SetBackgroundErrorLocked(status, "a flush");
    PurgeObsoleteLocked();
    if (status.ok()) family_.CountFlushedLocked(count);
    cleaner_.WakeLocked();
    events_.DeliverLocked();
  }
  scheduler_.FinishLocked(JobKind::kFlush);
  MaybeScheduleLocked();
}

// Sets *count to the number of memtables in the flush, also if it fails.
Status DBImpl::FlushImmutablesLocked(size_t* count) {
  FlushJobInfo info;
  info.db_path = db_directory_.path();
  info.memtables = family_.immutable().size();
  events_.Add(
      [info](EventListener* listener) { listener->OnFlushBegin(info); });
  events_.DeliverLocked();
  const Stopwatch flushing(env_);
  {
    const HistogramTimer timer(stats_, HistogramType::kFlushTime, env_);
    info.status = table_jobs_.FlushLocked(&info);
  }
  if (info.status.ok()) {
    family_.MeasureFlushLocked(info.memtables, flushing.ElapsedMicros());
    const std::vector<MemTable*> flushed =
        family_.RemoveFlushedLocked(info.memtables);
    InstallSuperVersionLocked();
    family_.RetireLocked(flushed);
    wals_.ReleaseLocked(versions_->log_number());
  }
  cleaner_.CountFlushedLocked(info.file_bytes);
  info.micros = flushing.ElapsedMicros();
  *count = info.memtables;
  events_.Add(
      [info](EventListener* listener) { listener->OnFlushCompleted(info); });
  events_.DeliverLocked();
  return info.status;
}

void DBImpl::PurgeObsoleteLocked() {
  if (read_only_ || inheritance_.is_inherited() || !obsolete_.AnyLocked()) {
    return;
  }
  obsolete_.RemoveLocked();
}

// Lets another thread call PurgeObsoleteLocked if there is something to remove.
void DBImpl::FreeLaterLocked() {
  if (obsolete_.AnyLocked() && scheduler_.QueuedLocked(JobKind::kPurge) == 0 &&
      !closed_ && !read_only_ && !inheritance_.is_inherited()) {
    ScheduleLocked(JobKind::kPurge, &DBImpl::BackgroundPurge);
  }
}

void DBImpl::BackgroundPurge() {
  MutexLock lock(&mutex_);
  PurgeObsoleteLocked();
  scheduler_.FinishLocked(JobKind::kPurge);
}

}  // namespace varve
