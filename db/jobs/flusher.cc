// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/flusher.h"

#include <algorithm>

#include "db/family/common_errors.h"
#include "db/jobs/db_core.h"
#include "db/jobs/large_batch.h"
#include "db/jobs/table_jobs.h"
#include "db/write/write_batch_internal.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "util/base/probe.h"

namespace varve {

Status Flusher::SwitchLocked(std::vector<ColumnFamily*> families,
                             LargeBatch* large) {
  // Before the next step, because with atomic_flush a family that is switched
  // for the logs takes the others with it.
  core_.log_bound.AddHoldersLocked(&families);
  if (core_.options.atomic_flush && !families.empty()) {
    // An empty memtable that was requested is switched too: its flush frees
    // the log.
    for (ColumnFamily* const family : core_.families.live()) {
      if (!family->memtable()->empty() &&
          std::find(families.begin(), families.end(), family) ==
              families.end()) {
        families.push_back(family);
      }
    }
  }
  const size_t family_count = core_.families.live().size();
  core_.mutex()->Unlock();
  WalSet::Next next = core_.wals.CreateNext(core_.versions->NewFileNumber(),
                                            core_.versions->LastSequence() + 1,
                                            core_.control.gate().HasError());
  if (large != nullptr && next.status.ok()) {
    core_.wals.AddFirst(&next, large->LogRecord(), large->options().sync);
  }
  std::vector<MemTable*> memtables;
  for (const ColumnFamily* family : families) {
    if (!next.status.ok()) break;
    MemTable* const filled = large != nullptr ? large->Take(family) : nullptr;
    if (filled != nullptr) filled->SetWalNumber(next.wal.number);
    memtables.push_back(filled != nullptr ? filled
                                          : family->memtables().New(
                                                next.wal.number, family_count));
  }
  core_.mutex()->Lock();
  if (!next.status.ok()) {
    // Making a file may be tried again.
    if (!next.newest_is_whole) core_.wals.FailLocked();
    if (!next.newest_is_whole || next.was_created) {
      core_.control.SetErrorLocked(next.status, "writing the log");
      core_.events.DeliverLocked();
    }
    return next.status;
  }
  // Of the log that is complete now. A new one has no path yet.
  if (core_.wals.WritePathChangedLocked()) {
    Log(LogLevel::kInfo, &core_.log, "the log is written by: %s",
        core_.wals.WritePathLocked().c_str());
  }
  VARVE_PROBE(memtable_switch, next.wal.number);
  const uint64_t wal_number = next.wal.number;
  core_.wals.AddLocked(std::move(next.wal));
  for (size_t i = 0; i < families.size(); ++i) {
    families[i]->dead_walks()->leader_ranges()->DropUnused();
    families[i]->dead_walks()->BeginMemTable();
    // After an error, updates with later numbers may be in the memtable.
    if (core_.control.error().ok()) {
      families[i]->memtable()->SetLargestSequence(
          core_.versions->LastSequence());
    }
    families[i]->SwitchLocked(memtables[i]);
    if (core_.scheduler.is_stopping()) {
      families[i]->memtables().MarkFlushExpectedLocked(false);
    }
    core_.control.InstallSuperVersionLocked(families[i]);
  }
  for (ColumnFamily* const family : core_.families.live()) {
    if (!family->memtable()->empty()) continue;
    family->memtable()->SetWalNumber(wal_number);
    if (family->memtables().immutable().empty()) {
      family->versions()->SkipLogsLocked(wal_number);
    }
  }
  core_.jobs.StartDueLocked();
  core_.events.DeliverLocked();
  // After an error of a log, Resume moves them.
  return core_.log_bound.MustMovePreparedLocked() && core_.wals.AreGoodLocked()
             ? MovePreparedLocked(true)
             : Status::OK();
}

Status Flusher::MovePreparedLocked(bool all) {
  if (core_.prepared.empty()) return Status::OK();
  core_.mutex()->Unlock();
  Status status =
      core_.prepared.CopyTo(core_.versions->LastSequence() + 1,
                            [this](const std::vector<Slice>& parts) {
                              return core_.wals.Append(parts);
                            });
  core_.mutex()->Lock();
  // Without space, the older logs keep them.
  if (!status.ok() && all && core_.wals.HasRefused()) return Status::OK();
  if (status.ok()) {
    status = all ? core_.wals.SyncLocked() : core_.wals.SyncNewestLocked();
  }
  if (status.ok()) {
    core_.prepared.SetLog(core_.wals.NewestLocked());
    Log(LogLevel::kInfo, &core_.log,
        "%zu prepared transactions were copied to log %llu",
        core_.prepared.sections().size(),
        static_cast<unsigned long long>(core_.wals.NewestLocked()));
    return status;
  }
  core_.wals.FailLocked();
  core_.control.SetErrorLocked(status, "copying prepared transactions");
  core_.events.DeliverLocked();
  return status;
}

Status Flusher::ReplaceLogLocked(std::vector<ColumnFamily*> families,
                                 bool* wait) {
  if (core_.families.HasOthers()) {
    *wait = core_.control.LogsBeginToHoldUpLocked();
    if (*wait) return Status::OK();
  }
  return SwitchLocked(std::move(families));
}

Status Flusher::FlushLogLocked(bool sync) {
  core_.mutex()->Unlock();
  Status status = core_.wals.Flush();
  core_.mutex()->Lock();
  if (status.ok() && sync) status = core_.wals.SyncLocked();
  if (!status.ok()) {
    core_.wals.FailLocked();
    core_.control.SetErrorLocked(status, "writing the log");
    core_.events.DeliverLocked();
  }
  return status;
}

void Flusher::LogOutsideLocked(const OutsideChange& change) {
  // Nothing may be added to the log.
  if (core_.wals.has_failed() || !core_.control.error().ok()) return;
  WriteBatch note;
  change.EncodeTo(&note);
  WriteBatchInternal::SetSequence(&note, change.first);
  const Status status = core_.wals.Append({Slice(note.Data())});
  if (status.ok() || core_.wals.HasRefused()) return;
  core_.wals.FailLocked();
  core_.control.SetErrorLocked(status, "writing the log");
}

Status Flusher::FlushAllLocked() {
  return FlushAsLeaderLocked(core_.families.live());
}

Status Flusher::FlushAsLeaderLocked(
    const std::vector<ColumnFamily*>& families) {
  std::vector<ColumnFamily*> filled;
  for (ColumnFamily* const family : families) {
    if (family->memtable()->empty()) continue;
    filled.push_back(family);
    Status status = AwaitLocked(*family, family->memtables().switched_count());
    if (!status.ok()) return status;
  }
  Status status;
  if (!filled.empty()) status = SwitchLocked(std::move(filled));
  for (const ColumnFamily* family : families) {
    if (status.ok()) {
      status = AwaitLocked(*family, family->memtables().switched_count());
    }
  }
  return status;
}

Status Flusher::FlushLocked(const std::vector<ColumnFamily*>& families,
                            bool atomic, std::vector<size_t>* counts) {
  std::vector<FlushJobInfo> infos(families.size());
  for (size_t i = 0; i < families.size(); ++i) {
    FlushJobInfo& info = infos[i];
    info.db_path = core_.directory.path();
    info.cf_id = families[i]->id();
    info.cf_name = families[i]->name();
    info.memtables = families[i]->memtables().immutable().size();
    families[i]->memtables().SetFlushRunsLocked(true);
    families[i]->memtables().MarkFlushExpectedLocked(true);
    core_.events.Add(
        [info](EventListener* listener) { listener->OnFlushBegin(info); });
  }
  core_.jobs.StartDueLocked();  // Other work can run beside this.
  core_.events.DeliverLocked();
  const Stopwatch flushing(core_.env);
  Status status;
  {
    const HistogramTimer timer(core_.stats, HistogramType::kFlushTime,
                               core_.env);
    status = TableJobs(core_).FlushLocked(
        families, atomic, &infos,
        [this](const std::vector<ColumnFamily*>& flushed, uint64_t first,
               uint64_t end) VARVE_REQUIRES(kDbMutex) {
          // Makes the updates durable that the flush would leave behind in
          // logs, before it makes later ones or other parts of the same
          // batches durable. A flush of all families needs no log, not even a
          // damaged one. Nor may a prepared section outlive the mark of its
          // end.
          const bool shared =
              first < end ||
              core_.families.OthersNeedLogsLocked(flushed, end) ||
              core_.prepared.FirstLog(end) < end;
          if (shared) return core_.wals.SyncBeforeLocked(end);
          // An archived log must not lose its end. A damaged one has lost it,
          // and no table needs it.
          if (core_.archive.keeps_logs() && core_.wals.AreGoodLocked()) {
            core_.wals.SyncBeforeLocked(end).IgnoreError();
          }
          return Status::OK();
        });
  }
  for (size_t i = 0; i < families.size(); ++i) {
    ColumnFamily* const family = families[i];
    FlushJobInfo& info = infos[i];
    family->memtables().SetFlushRunsLocked(false);
    if (info.status.ok()) {
      family->pace().MeasureFlushLocked(
          info.memtables, flushing.ElapsedMicros() / families.size(),
          info.file_bytes);
      const std::vector<MemTable*> flushed =
          family->RemoveFlushedLocked(info.memtables);
      if (family->memtables().AreAllFlushedLocked()) {
        family->versions()->SkipLogsLocked(family->memtable()->wal_number());
      }
      core_.control.InstallSuperVersionLocked(family);
      family->memtables().RetireLocked(flushed);
    } else {
      family->memtables().MarkFlushExpectedLocked(false);
    }
    family->cleaner()->CountFlushedLocked(info.file_bytes);
    info.micros = flushing.ElapsedMicros();
    counts->push_back(info.status.ok() ? info.memtables : 0);
    core_.events.Add(
        [info](EventListener* listener) { listener->OnFlushCompleted(info); });
  }
  ReleaseLogsLocked();
  core_.events.DeliverLocked();
  return status;
}

void Flusher::ReleaseLogsLocked() {
  const uint64_t first = core_.versions->FirstLogNumberLocked();
  core_.wals.ReleaseLocked(first);
  core_.prepared.Forget(first);
}

Status Flusher::AwaitLocked(const ColumnFamily& family, uint64_t target) {
  while (family.memtables().flushed_count() < target &&
         core_.control.error().ok() && !family.is_dropped()) {
    // No job is started any more that would end the wait.
    if (core_.scheduler.JobsLocked(JobKind::kFlush) == 0 &&
        core_.scheduler.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    core_.scheduler.WaitLocked();
  }
  if (family.memtables().flushed_count() >= target) return Status::OK();
  return family.is_dropped() ? FamilyDroppedError(family.name())
                             : core_.control.error();
}

void Flusher::RunJob() {
  const TimedMutexLock lock(core_.mutex(), core_.stats, core_.env);
  std::vector<ColumnFamily*> families;
  if (!core_.scheduler.is_stopping() && core_.control.error().ok()) {
    families = core_.picker.PickFlushLocked();
  }
  if (!families.empty()) {
    for (ColumnFamily* const family : families) family->Ref();
    std::vector<size_t> counts;
    const Status status =
        FlushLocked(families, core_.options.atomic_flush, &counts);
    if (!status.ok() && !status.IsShutdownInProgress()) {
      core_.control.SetErrorLocked(status, "a flush");
    }
    core_.jobs.PurgeLocked();
    for (size_t i = 0; i < families.size(); ++i) {
      families[i]->memtables().CountFlushedLocked(counts[i]);
      families[i]->cleaner()->WakeLocked();
      core_.families.UnrefLocked(families[i]);
    }
    core_.events.DeliverLocked();
  }
  core_.scheduler.FinishLocked(JobKind::kFlush);
  core_.jobs.StartDueLocked();
  core_.jobs.PurgeLaterLocked();
}

bool Flusher::TryLead(WriteQueue::Writer* leader) {
  constexpr int kTries = 50;
  constexpr int kPauseUs = 100;
  for (int i = 0; i < kTries && !core_.scheduler.is_stopping(); ++i) {
    if (core_.write_queue.TryLead(leader)) return true;
    core_.env->SleepForMicroseconds(kPauseUs);
  }
  return false;
}

void Flusher::RequestSwitch(ColumnFamily* family) {
  MutexLock lock(core_.mutex());
  if (!MayBeginJobsLocked() || core_.is_read_only ||
      core_.control.inheritance().is_inherited() || family->is_dropped() ||
      family->memtable()->empty() || !family->memtables().SlotFreeLocked()) {
    family->memtables().account()->Decline();
    return;
  }
  SwitchSoonLocked(family);
}

void Flusher::SwitchSoonLocked(ColumnFamily* family) {
  family->memtables().RequestSwitchLocked();
  core_.control.gate().RequestLook();
  StartSwitchJobLocked();
}

bool Flusher::MayBeginJobsLocked() const {
  return !core_.control.IsEndingLocked() && core_.control.error().ok();
}

void Flusher::StartSwitchJobLocked() {
  if (core_.scheduler.JobsLocked(JobKind::kSwitch) > 0) return;
  // Without a thread, a leader does it.
  core_.scheduler.ScheduleLocked(JobKind::kSwitch, [this] { RunSwitchJob(); })
      .IgnoreError();
}

std::vector<ColumnFamily*> Flusher::ToSwitchLocked() const {
  std::vector<ColumnFamily*> due = core_.families.live();
  std::erase_if(due, [](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
    return !family->memtables().MustSwitchLocked() ||
           !family->memtables().SlotFreeLocked();
  });
  return due;
}

// Switches the memtables that are to be switched, if nobody writes. Does not
// wait for a leader, because a leader may wait for background work. The next
// leader may switch them, but there is none as long as all writers are refused.
// So another job tries again after those that are queued by now.
void Flusher::RunSwitchJob() {
  WriteQueue::Writer leader;
  Status status;
  if (TryLead(&leader)) {
    {
      MutexLock lock(core_.mutex());
      if (MayBeginJobsLocked()) {
        std::vector<ColumnFamily*> full = ToSwitchLocked();
        if (!full.empty()) status = SwitchLocked(std::move(full));
      }
    }
    core_.write_queue.Leave(WriteQueue::Group(&leader), Status::OK());
  }
  MutexLock lock(core_.mutex());
  core_.scheduler.FinishLocked(JobKind::kSwitch);
  // After an error the memtables stay. It is in control by now, or the next
  // leader meets it too.
  if (status.ok() && MayBeginJobsLocked() && !ToSwitchLocked().empty()) {
    // This job did not lead. Or a request came after its look, found this job,
    // and started none.
    StartSwitchJobLocked();
  }
}

}  // namespace varve
