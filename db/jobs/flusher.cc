// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/flusher.h"

#include <algorithm>

#include "db/family/common_errors.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "util/base/probe.h"

namespace varve {

// The analysis cannot tell that the mutex is the DB's, here and below.
Status Flusher::SwitchLocked(std::vector<ColumnFamily*> families)
    VARVE_NO_THREAD_SAFETY_ANALYSIS {
  // Before the next step, because with atomic_flush a family that is switched
  // for the logs takes the others with it.
  parts_.control->log_bound().AddHoldersLocked(&families);
  if (parts_.options->atomic_flush && !families.empty()) {
    // An empty memtable that was requested is switched too: its flush frees
    // the log.
    for (ColumnFamily* const family : parts_.families->live()) {
      if (!family->memtable()->empty() &&
          std::find(families.begin(), families.end(), family) ==
              families.end()) {
        families.push_back(family);
      }
    }
  }
  const size_t family_count = parts_.families->live().size();
  parts_.mutex->Unlock();
  WalSet::Next next = parts_.wals->CreateNext(
      parts_.versions->NewFileNumber(), parts_.versions->LastSequence() + 1,
      parts_.control->gate().HasError());
  std::vector<MemTable*> memtables;
  for (const ColumnFamily* family : families) {
    if (!next.status.ok()) break;
    memtables.push_back(family->NewMemTable(next.wal.number, family_count));
  }
  parts_.mutex->Lock();
  if (!next.status.ok()) {
    // Making a file may be tried again.
    if (!next.newest_is_whole) parts_.wals->FailLocked();
    if (!next.newest_is_whole || next.was_created) {
      parts_.control->SetErrorLocked(next.status, "writing the log");
      parts_.events->DeliverLocked();
    }
    return next.status;
  }
  // Of the log that is complete now. A new one has no path yet.
  if (parts_.wals->WritePathChangedLocked()) {
    Log(LogLevel::kInfo, parts_.log, "the log is written by: %s",
        parts_.wals->WritePathLocked().c_str());
  }
  VARVE_PROBE(memtable_switch, next.wal.number);
  const uint64_t wal_number = next.wal.number;
  parts_.wals->AddLocked(std::move(next.wal));
  for (size_t i = 0; i < families.size(); ++i) {
    families[i]->dead_walks()->leader_ranges()->DropUnused();
    families[i]->dead_walks()->BeginMemTable();
    families[i]->SwitchLocked(memtables[i]);
    if (parts_.scheduler->is_stopping()) {
      families[i]->MarkFlushExpectedLocked(false);
    }
    parts_.control->InstallSuperVersionLocked(families[i]);
  }
  for (ColumnFamily* const family : parts_.families->live()) {
    if (!family->memtable()->empty()) continue;
    family->memtable()->SetWalNumber(wal_number);
    if (family->immutable().empty()) {
      family->versions()->SkipLogsLocked(wal_number);
    }
  }
  parts_.jobs->StartDueLocked();
  parts_.events->DeliverLocked();
  return Status::OK();
}

Status Flusher::ReplaceLogLocked(std::vector<ColumnFamily*> families,
                                 bool* wait) {
  if (parts_.families->HasOthers()) {
    *wait = parts_.control->LogsBeginToHoldUpLocked();
    if (*wait) return Status::OK();
  }
  return SwitchLocked(std::move(families));
}

Status Flusher::FlushLogLocked(bool sync) VARVE_NO_THREAD_SAFETY_ANALYSIS {
  parts_.mutex->Unlock();
  Status status = parts_.wals->Flush();
  parts_.mutex->Lock();
  if (status.ok() && sync) status = parts_.wals->SyncLocked();
  if (!status.ok()) {
    parts_.wals->FailLocked();
    parts_.control->SetErrorLocked(status, "writing the log");
    parts_.events->DeliverLocked();
  }
  return status;
}

Status Flusher::FlushAllLocked() {
  std::vector<ColumnFamily*> filled;
  for (ColumnFamily* const family : parts_.families->live()) {
    if (family->memtable()->empty()) continue;
    filled.push_back(family);
    Status status = AwaitLocked(*family, family->switched_count());
    if (!status.ok()) return status;
  }
  Status status;
  if (!filled.empty()) status = SwitchLocked(std::move(filled));
  for (const ColumnFamily* family : parts_.families->live()) {
    if (status.ok()) {
      status = AwaitLocked(*family, family->switched_count());
    }
  }
  return status;
}

Status Flusher::FlushLocked(const std::vector<ColumnFamily*>& families,
                            bool atomic, std::vector<size_t>* counts) {
  std::vector<FlushJobInfo> infos(families.size());
  for (size_t i = 0; i < families.size(); ++i) {
    FlushJobInfo& info = infos[i];
    info.db_path = parts_.place->path();
    info.cf_id = families[i]->id();
    info.cf_name = families[i]->name();
    info.memtables = families[i]->immutable().size();
    families[i]->SetFlushRunsLocked(true);
    families[i]->MarkFlushExpectedLocked(true);
    parts_.events->Add(
        [info](EventListener* listener) { listener->OnFlushBegin(info); });
  }
  parts_.jobs->StartDueLocked();  // Other work can run beside this.
  parts_.events->DeliverLocked();
  const Stopwatch flushing(parts_.place->env());
  Status status;
  {
    const HistogramTimer timer(parts_.stats, HistogramType::kFlushTime,
                               parts_.place->env());
    status = parts_.table_jobs->FlushLocked(
        families, atomic, &infos,
        [this](const std::vector<ColumnFamily*>& flushed, uint64_t first,
               uint64_t end) {
          // Makes the updates durable that the flush would leave behind in
          // logs, before it makes later ones or other parts of the same
          // batches durable. A flush of all families needs no log, not even a
          // damaged one.
          const bool shared =
              first < end ||
              parts_.families->OthersNeedLogsLocked(flushed, end);
          return shared ? parts_.wals->SyncBeforeLocked(end) : Status::OK();
        });
  }
  for (size_t i = 0; i < families.size(); ++i) {
    ColumnFamily* const family = families[i];
    FlushJobInfo& info = infos[i];
    family->SetFlushRunsLocked(false);
    if (info.status.ok()) {
      family->MeasureFlushLocked(info.memtables,
                                 flushing.ElapsedMicros() / families.size(),
                                 info.file_bytes);
      const std::vector<MemTable*> flushed =
          family->RemoveFlushedLocked(info.memtables);
      if (family->IsAllFlushedLocked()) {
        family->versions()->SkipLogsLocked(family->memtable()->wal_number());
      }
      parts_.control->InstallSuperVersionLocked(family);
      family->RetireLocked(flushed);
    } else {
      family->MarkFlushExpectedLocked(false);
    }
    family->cleaner()->CountFlushedLocked(info.file_bytes);
    info.micros = flushing.ElapsedMicros();
    counts->push_back(info.status.ok() ? info.memtables : 0);
    parts_.events->Add(
        [info](EventListener* listener) { listener->OnFlushCompleted(info); });
  }
  parts_.wals->ReleaseLocked(parts_.versions->FirstLogNumberLocked());
  parts_.events->DeliverLocked();
  return status;
}

Status Flusher::AwaitLocked(const ColumnFamily& family, uint64_t target) {
  while (family.flushed_count() < target && parts_.control->error().ok() &&
         !family.is_dropped()) {
    // No job is started any more that would end the wait.
    if (parts_.scheduler->JobsLocked(JobKind::kFlush) == 0 &&
        parts_.scheduler->is_stopping()) {
      return Status::ShutdownInProgress();
    }
    parts_.scheduler->WaitLocked();
  }
  if (family.flushed_count() >= target) return Status::OK();
  return family.is_dropped() ? FamilyDroppedError(family.name())
                             : parts_.control->error();
}

void Flusher::RunJob() {
  const TimedMutexLock lock(parts_.mutex, parts_.stats, parts_.place->env());
  std::vector<ColumnFamily*> families;
  if (!parts_.scheduler->is_stopping() && parts_.control->error().ok()) {
    families = parts_.picker->PickFlushLocked();
  }
  if (!families.empty()) {
    for (ColumnFamily* const family : families) family->Ref();
    std::vector<size_t> counts;
    const Status status =
        FlushLocked(families, parts_.options->atomic_flush, &counts);
    if (!status.ok() && !status.IsShutdownInProgress()) {
      parts_.control->SetErrorLocked(status, "a flush");
    }
    parts_.jobs->PurgeLocked();
    for (size_t i = 0; i < families.size(); ++i) {
      families[i]->CountFlushedLocked(counts[i]);
      families[i]->cleaner()->WakeLocked();
      parts_.families->UnrefLocked(families[i]);
    }
    parts_.events->DeliverLocked();
  }
  parts_.scheduler->FinishLocked(JobKind::kFlush);
  parts_.jobs->StartDueLocked();
  parts_.jobs->PurgeLaterLocked();
}

bool Flusher::TryLead(WriteQueue::Writer* leader) {
  constexpr int kTries = 50;
  constexpr int kPauseUs = 100;
  for (int i = 0; i < kTries && !parts_.scheduler->is_stopping(); ++i) {
    if (parts_.write_queue->TryLead(leader)) return true;
    parts_.place->env()->SleepForMicroseconds(kPauseUs);
  }
  return false;
}

void Flusher::RequestSwitch(ColumnFamily* family) {
  MutexLock lock(parts_.mutex);
  if (!MayBeginJobsLocked() || parts_.is_read_only ||
      parts_.control->inheritance().is_inherited() || family->is_dropped() ||
      family->memtable()->empty() || !family->SlotFreeLocked()) {
    family->account()->Decline();
    return;
  }
  SwitchSoonLocked(family);
}

void Flusher::SwitchSoonLocked(ColumnFamily* family) {
  family->RequestSwitchLocked();
  parts_.control->gate().RequestLook();
  StartSwitchJobLocked();
}

bool Flusher::MayBeginJobsLocked() const {
  return !parts_.control->IsEndingLocked() && parts_.control->error().ok();
}

void Flusher::StartSwitchJobLocked() {
  if (parts_.scheduler->JobsLocked(JobKind::kSwitch) > 0) return;
  // Without a thread, a leader does it.
  parts_.scheduler->ScheduleLocked(JobKind::kSwitch, [this] { RunSwitchJob(); })
      .IgnoreError();
}

std::vector<ColumnFamily*> Flusher::ToSwitchLocked() const {
  std::vector<ColumnFamily*> due = parts_.families->live();
  std::erase_if(due, [](const ColumnFamily* family) {
    return !family->MustSwitchLocked() || !family->SlotFreeLocked();
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
      MutexLock lock(parts_.mutex);
      if (MayBeginJobsLocked()) {
        std::vector<ColumnFamily*> full = ToSwitchLocked();
        if (!full.empty()) status = SwitchLocked(std::move(full));
      }
    }
    parts_.write_queue->Leave(WriteQueue::Group(&leader), Status::OK());
  }
  MutexLock lock(parts_.mutex);
  parts_.scheduler->FinishLocked(JobKind::kSwitch);
  // After an error the memtables stay. It is in control by now, or the next
  // leader meets it too.
  if (status.ok() && MayBeginJobsLocked() && !ToSwitchLocked().empty()) {
    // This job did not lead. Or a request came after its look, found this job,
    // and started none.
    StartSwitchJobLocked();
  }
}

}  // namespace varve
