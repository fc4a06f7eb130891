// Varve: a key-value storage engine. MIT licence, see LICENSE.

#include <algorithm>

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
  const int flushes = std::min(FlushesDueLocked(), MaxFlushes(options_));
  while (scheduler_.JobsLocked(JobKind::kFlush) < flushes &&
         background_error_.ok()) {
    ScheduleLocked(JobKind::kFlush, &DBImpl::BackgroundFlush);
  }
  const bool cleans =
      std::any_of(families_.live().begin(), families_.live().end(),
                  [this](ColumnFamily* family) VARVE_NO_THREAD_SAFETY_ANALYSIS {
                    return CleanupDueLocked(*family);
                  });
  if (cleans && scheduler_.JobsLocked(JobKind::kCleanup) == 0) {
    // Without a thread, nothing but this is left undone.
    scheduler_
        .ScheduleLocked(JobKind::kCleanup, [this] { BackgroundCleanup(); })
        .IgnoreError();
  }
  if (!compaction_gate_.is_exclusive && compaction_gate_.error.ok() &&
      scheduler_.JobsLocked(JobKind::kCompaction) < MaxCompactions(options_) &&
      CompactionDueLocked()) {
    const bool is_urgent =
        std::any_of(families_.live().begin(), families_.live().end(),
                    [](const ColumnFamily* family) {
                      return family->CompactionsAreUrgentLocked();
                    });
    ScheduleLocked(JobKind::kCompaction, &DBImpl::BackgroundCompaction,
                   is_urgent);
  }
}

// Returns how many flushes can run: one a family, or one of all families.
int DBImpl::FlushesDueLocked() const {
  int due = 0;
  for (const ColumnFamily* family : families_.live()) {
    if (!family->immutable().empty()) ++due;
  }
  return options_.atomic_flush ? std::min(due, 1) : due;
}

std::vector<ColumnFamily*> DBImpl::PickFlushLocked() {
  std::vector<ColumnFamily*> waiting = families_.live();
  std::erase_if(waiting, [](const ColumnFamily* family) {
    return family->immutable().empty() || family->flush_runs();
  });
  if (waiting.empty() || options_.atomic_flush) return waiting;
  // The one that keeps the oldest log.
  return {*std::min_element(waiting.begin(), waiting.end(),
                            [](const ColumnFamily* a, const ColumnFamily* b) {
                              return a->OldestLogLocked() <
                                     b->OldestLogLocked();
                            })};
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
    UpdateGateLocked();
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
  std::vector<ColumnFamily*> families;
  if (!scheduler_.is_stopping() && background_error_.ok()) {
    families = PickFlushLocked();
  }
  if (!families.empty()) {
    for (ColumnFamily* const family : families) family->Ref();
    std::vector<size_t> counts;
    const Status status = FlushImmutablesLocked(families, &counts);
    if (!status.ok() && !status.IsShutdownInProgress()) {
      SetBackgroundErrorLocked(status, "a flush");
    }
    PurgeObsoleteLocked();
    for (size_t i = 0; i < families.size(); ++i) {
      if (status.ok()) families[i]->CountFlushedLocked(counts[i]);
      families[i]->cleaner()->WakeLocked();
      families_.UnrefLocked(families[i]);
    }
    events_.DeliverLocked();
  }
  scheduler_.FinishLocked(JobKind::kFlush);
  MaybeScheduleLocked();
  FreeLaterLocked();
}

Status DBImpl::FlushImmutablesLocked(const std::vector<ColumnFamily*>& families,
                                     std::vector<size_t>* counts) {
  std::vector<FlushJobInfo> infos(families.size());
  for (size_t i = 0; i < families.size(); ++i) {
    FlushJobInfo& info = infos[i];
    info.db_path = db_directory_.path();
    info.cf_id = families[i]->id();
    info.cf_name = families[i]->name();
    info.memtables = families[i]->immutable().size();
    families[i]->SetFlushRunsLocked(true);
    families[i]->MarkFlushExpectedLocked(true);
    events_.Add(
        [info](EventListener* listener) { listener->OnFlushBegin(info); });
  }
  events_.DeliverLocked();
  const Stopwatch flushing(env_);
  Status status;
  {
    const HistogramTimer timer(stats_, HistogramType::kFlushTime, env_);
    status = table_jobs_.FlushLocked(
        families, &infos,
        [this, &families](uint64_t first, uint64_t end)
            VARVE_NO_THREAD_SAFETY_ANALYSIS {
              return SyncSharedLogsLocked(families, first, end);
            });
  }
  for (size_t i = 0; i < families.size(); ++i) {
    ColumnFamily* const family = families[i];
    FlushJobInfo& info = infos[i];
    info.status = status;
    family->SetFlushRunsLocked(false);
    if (status.ok()) {
      family->MeasureFlushLocked(info.memtables, flushing.ElapsedMicros());
      const std::vector<MemTable*> flushed =
          family->RemoveFlushedLocked(info.memtables);
      if (family->IsAllFlushedLocked()) {
        family->versions()->SkipLogsLocked(family->memtable()->wal_number());
      }
      InstallSuperVersionLocked(family);
      family->RetireLocked(flushed);
    } else {
      family->MarkFlushExpectedLocked(false);
    }
    family->cleaner()->CountFlushedLocked(info.file_bytes);
    info.micros = flushing.ElapsedMicros();
    counts->push_back(info.memtables);
    events_.Add(
        [info](EventListener* listener) { listener->OnFlushCompleted(info); });
  }
  if (status.ok()) wals_.ReleaseLocked(versions_->FirstLogNumberLocked());
  events_.DeliverLocked();
  return status;
}

// Makes the updates durable that a flush of these families would leave behind
// in logs, before the flush makes later ones or other parts of the same batches
// durable. See TableJobs::FlushLocked. Flushes of all families need no log, not
// even a damaged one.
Status DBImpl::SyncSharedLogsLocked(const std::vector<ColumnFamily*>& families,
                                    uint64_t first, uint64_t end) {
  bool shared = first < end;
  for (const ColumnFamily* family : families_.live()) {
    if (std::find(families.begin(), families.end(), family) != families.end()) {
      continue;
    }
    shared |= !family->IsAllFlushedLocked() && family->OldestLogLocked() < end;
  }
  return shared ? wals_.SyncBeforeLocked(end) : Status::OK();
}

// Called by the budget of write buffers, on its own thread: the memtable of
// this family frees most. The leader of the queue switches it, or a job if
// there is none.
void DBImpl::RequestSwitch(ColumnFamily* family) {
  MutexLock lock(&mutex_);
  if (IsEndingLocked() || read_only_ || inheritance_.is_inherited() ||
      family->is_dropped() || !background_error_.ok() ||
      family->memtable()->empty() || !family->SlotFreeLocked()) {
    family->account()->Decline();
    return;
  }
  family->RequestSwitchLocked();
  gate_.RequestLook();
  if (scheduler_.JobsLocked(JobKind::kSwitch) == 0) {
    // Without a thread, a leader does it.
    scheduler_.ScheduleLocked(JobKind::kSwitch, [this] { BackgroundSwitch(); })
        .IgnoreError();
  }
}

// Switches the memtables that are to be switched, if nobody writes. Does not
// wait for a leader, because a leader may wait for background work. That
// leader, or the next one, switches them otherwise.
void DBImpl::BackgroundSwitch() {
  constexpr int kTries = 50;
  constexpr int kPauseUs = 100;
  WriteQueue::Writer leader;
  bool leads = false;
  for (int i = 0; i < kTries && !scheduler_.is_stopping(); ++i) {
    leads = write_queue_.TryLead(&leader);
    if (leads) break;
    env_->SleepForMicroseconds(kPauseUs);
  }
  {
    MutexLock lock(&mutex_);
    if (leads && !IsEndingLocked() && WritableLocked().ok()) {
      std::vector<ColumnFamily*> full = families_.live();
      std::erase_if(full, [](const ColumnFamily* family) {
        return !family->MustSwitchLocked() || !family->SlotFreeLocked();
      });
      // An error is background_error_ by now, or the memtables stay.
      if (!full.empty()) SwitchLocked(std::move(full)).IgnoreError();
    }
  }
  if (leads) write_queue_.Leave(WriteQueue::Group(&leader), Status::OK());
  MutexLock lock(&mutex_);
  scheduler_.FinishLocked(JobKind::kSwitch);
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
