// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The logs: writing, syncing and replacing them, and recovery from errors,
// which needs a new log.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/parts/common_errors.h"
#include "util/base/probe.h"

namespace varve {

Status DBImpl::SyncWAL() { return FlushWAL(true); }

Status DBImpl::FlushWAL(bool sync) {
  if (read_only_) return ReadOnlyError();
  Status status = CheckWritable();
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (IsClosedLocked()) return ClosedError();
  if (!background_error_.ok()) return background_error_;
  return FlushLogLocked(sync);
}

Status DBImpl::SyncLogAtClose() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  // After other failures the log still holds all written updates.
  return wals_.has_failed() ? background_error_ : FlushLogLocked(true);
}

// Records in the MANIFEST the last update in the logs, if they hold any that no
// table has. Without it, a log that is later deleted, emptied or replaced by an
// older copy looks like one that never held more. May release the mutex and
// reacquire it.
void DBImpl::NoteLogsEndLocked() {
  if (read_only_ || !family_.HasBegunLocked() || !background_error_.ok())
    return;
  bool any = false;
  for (const ColumnFamily* family : families_.live()) {
    any |= !family->memtable()->empty() ||
           std::any_of(family->immutable().begin(), family->immutable().end(),
                       [](const MemTable* m) { return !m->empty(); });
  }
  // The last update may then be in no log.
  if (!any || HasUnloggedLocked()) return;
  VersionEdit edit;
  // Later updates were in no log, and are in tables.
  edit.SetLogsEnd(last_logged_sequence_);
  const Status status = versions_->LogAndApply(family_.versions(), &edit);
  if (!status.ok()) {
    // No update depends on it: the logs are synced.
    Log(LogLevel::kWarn, &log_, "the end of the logs is not noted: %s",
        status.ToString().c_str());
  }
}

Status DBImpl::FlushLogLocked(bool sync) {
  mutex_.Unlock();
  Status status = wals_.Flush();
  mutex_.Lock();
  if (status.ok() && sync) status = wals_.SyncLocked();
  if (!status.ok()) {
    wals_.FailLocked();
    SetBackgroundErrorLocked(status, "writing the log");
    events_.DeliverLocked();
  }
  return status;
}

Status DBImpl::SwitchLocked(std::vector<ColumnFamily*> families) {
  if (options_.atomic_flush && !families.empty()) {
    // An empty memtable that was requested is switched too: its flush frees
    // the log.
    for (ColumnFamily* const family : families_.live()) {
      if (!family->memtable()->empty() &&
          std::find(families.begin(), families.end(), family) ==
              families.end()) {
        families.push_back(family);
      }
    }
  }
  AddHoldersOfLogsLocked(&families);
  mutex_.Unlock();
  WalSet::Next next =
      wals_.CreateNext(versions_->NewFileNumber(),
                       versions_->LastSequence() + 1, gate_.HasError());
  std::vector<MemTable*> memtables;
  for (const ColumnFamily* family : families) {
    if (!next.status.ok()) break;
    memtables.push_back(family->NewMemTable(next.wal.number));
  }
  mutex_.Lock();
  if (!next.status.ok()) {
    // Making a file may be tried again.
    if (!next.newest_is_whole) wals_.FailLocked();
    if (!next.newest_is_whole || next.was_created) {
      SetBackgroundErrorLocked(next.status, "writing the log");
      events_.DeliverLocked();
    }
    return next.status;
  }
  // Of the log that is complete now. A new one has no path yet.
  if (wals_.WritePathChangedLocked()) {
    Log(LogLevel::kInfo, &log_, "the log is written by: %s",
        wals_.WritePathLocked().c_str());
  }
  VARVE_PROBE(memtable_switch, next.wal.number);
  const uint64_t wal_number = next.wal.number;
  wals_.AddLocked(std::move(next.wal));
  for (size_t i = 0; i < families.size(); ++i) {
    families[i]->dead_walks()->leader_ranges()->DropUnused();
    families[i]->dead_walks()->BeginMemTable();
    families[i]->SwitchLocked(memtables[i], families[i]->flush_runs());
    InstallSuperVersionLocked(families[i]);
  }
  for (ColumnFamily* const family : families_.live()) {
    if (!family->memtable()->empty()) continue;
    family->memtable()->SetWalNumber(wal_number);
    if (family->immutable().empty()) {
      family->versions()->SkipLogsLocked(wal_number);
    }
  }
  MaybeScheduleLocked();
  events_.DeliverLocked();
  return Status::OK();
}

bool DBImpl::AreAllFlushedLocked() const {
  return std::all_of(
      families_.live().begin(), families_.live().end(),
      [](const ColumnFamily* family) { return family->IsAllFlushedLocked(); });
}

// Returns the bound for the bytes of all logs.
uint64_t DBImpl::MaxLogBytesLocked() const {
  constexpr uint64_t kBuffers = 4;
  if (options_.max_total_wal_size != 0) return options_.max_total_wal_size;
  uint64_t most = 0;
  uint64_t sum = 0;
  for (const ColumnFamily* family : families_.live()) {
    const Options& options = family->options();
    sum += options.write_buffer_size;
    most = std::max(most,
                    options.write_buffer_size *
                        static_cast<uint64_t>(options.max_write_buffer_number));
  }
  // The sum, so that families which are written to evenly can fill their
  // memtables.
  return std::max(kBuffers * most, sum);
}

// Returns whether writers have to wait because the logs have reached their
// bound, and a flush is about to free some.
bool DBImpl::LogsHoldUpLocked() {
  if (!logs_hold_up_) return false;
  logs_hold_up_ = wals_.OlderBytesLocked() + 2 * wals_.max_log_bytes() >
                      MaxLogBytesLocked() &&
                  FlushesDueLocked() > 0 && background_error_.ok();
  if (!logs_hold_up_) UpdateGateLocked();
  return logs_hold_up_;
}

// Call it when families or options have changed. A log of one family's updates
// alone is about as large as their memtable, or smaller.
void DBImpl::UpdateLogLimitLocked() {
  constexpr uint64_t kLeastBytes = 64 << 10;
  constexpr uint64_t kLogs = 4;  // At least so many make up the bound.
  uint64_t largest = 0;
  for (const ColumnFamily* family : families_.live()) {
    largest = std::max<uint64_t>(largest, family->options().write_buffer_size);
  }
  wals_.SetMaxLogBytesLocked(
      std::max(kLeastBytes,
               std::min(largest + largest / 4, MaxLogBytesLocked() / kLogs)));
}

// Adds the families because of which the logs would soon exceed their bound:
// those with the oldest updates that no table has. Their flush frees all logs
// before the next family's oldest one.
void DBImpl::AddHoldersOfLogsLocked(std::vector<ColumnFamily*>* families) {
  // The newest log grows while they are flushed.
  const uint64_t bound = MaxLogBytesLocked();
  const uint64_t limit = bound - std::min(bound, wals_.max_log_bytes());
  const uint64_t newest_bytes = wals_.NewestBytes();
  uint64_t bytes = wals_.OlderBytesLocked() + newest_bytes;
  if (bytes <= limit || !families_.HasOthers()) return;
  std::vector<ColumnFamily*> holders = families_.live();
  std::erase_if(holders, [](const ColumnFamily* family) {
    return family->IsAllFlushedLocked();
  });
  std::sort(holders.begin(), holders.end(),
            [](const ColumnFamily* a, const ColumnFamily* b) {
              return a->OldestLogLocked() < b->OldestLogLocked();
            });
  // Without the updates in logs before `cut`, the rest fits.
  uint64_t cut = 0;
  for (auto holder = holders.begin();
       holder != holders.end() && bytes > limit;) {
    const uint64_t oldest = (*holder)->OldestLogLocked();
    while (holder != holders.end() && (*holder)->OldestLogLocked() == oldest) {
      ++holder;
    }
    cut = holder != holders.end() ? (*holder)->OldestLogLocked() : UINT64_MAX;
    bytes = wals_.OlderBytesLocked(cut) + newest_bytes;
  }
  for (ColumnFamily* const family : holders) {
    if (family->memtable()->empty() || !family->SlotFreeLocked() ||
        family->memtable()->wal_number() >= cut ||
        std::find(families->begin(), families->end(), family) !=
            families->end()) {
      continue;
    }
    families->push_back(family);
    Log(LogLevel::kInfo, &log_,
        "[%s] is flushed: it needs log %llu, and the logs take %llu bytes, "
        "bound %llu",
        family->name().c_str(),
        static_cast<unsigned long long>(family->OldestLogLocked()),
        static_cast<unsigned long long>(wals_.OlderBytesLocked() +
                                        newest_bytes),
        static_cast<unsigned long long>(bound));
  }
}

Status DBImpl::Flush(const FlushOptions& options) {
  return FlushFamilies(options, {&family_});
}

Status DBImpl::Flush(const FlushOptions& options, ColumnFamilyHandle* family) {
  return FlushFamilies(options, {FamilyOf(family)});
}

Status DBImpl::Flush(const FlushOptions& options,
                     const std::vector<ColumnFamilyHandle*>& families) {
  return FlushFamilies(options, FamiliesOf(families));
}

Status DBImpl::FlushFamilies(const FlushOptions& options,
                             std::vector<ColumnFamily*> families) {
  if (read_only_) return ReadOnlyError();
  Status status = ResumeIfFull();
  if (!status.ok()) return status;
  std::vector<uint64_t> targets;
  for (bool switched = false; !switched;) {
    WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (!background_error_.ok()) return background_error_;
    // A log that no memtable accounts for is freed by a switch too.
    const bool frees_log = !families_.HasOthers() && wals_.UpdateBytes() > 0;
    std::vector<ColumnFamily*> filled;
    bool has_slots = true;
    for (ColumnFamily* const family : families) {
      if (family->is_dropped()) {
        return Status::InvalidArgument("column family " + family->name(),
                                       "was dropped");
      }
      if (family->memtable()->empty() && !frees_log) continue;
      filled.push_back(family);
      has_slots &= family->SlotFreeLocked();
    }
    switched = filled.empty();
    // No job is started any more that would write it.
    if (!switched && scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    if (!switched && has_slots) {
      status = SwitchLocked(std::move(filled));
      if (!status.ok()) return status;
      switched = true;
    }
    targets.clear();
    for (const ColumnFamily* family : families) {
      targets.push_back(family->switched_count());
    }
    if (!switched) {
      // Others may write during the wait.
      leader.Leave();
      scheduler_.WaitLocked();
    }
  }
  if (!options.wait) return Status::OK();
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < families.size() && status.ok(); ++i) {
    status = AwaitFlushLocked(*families[i], targets[i]);
  }
  return status;
}

bool DBImpl::HasUnloggedLocked() const {
  return std::any_of(
      families_.live().begin(), families_.live().end(),
      [](const ColumnFamily* family) { return family->HasUnloggedLocked(); });
}

Status DBImpl::FlushUnlogged() {
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  if (!HasUnloggedLocked()) return Status::OK();
  return background_error_.ok() ? FlushAsLeaderLocked() : background_error_;
}

// Waits until `target` memtables of the family have been flushed since Open.
Status DBImpl::AwaitFlushLocked(const ColumnFamily& family, uint64_t target) {
  while (family.flushed_count() < target && background_error_.ok() &&
         !family.is_dropped()) {
    // No job is started any more that would end the wait.
    if (scheduler_.JobsLocked(JobKind::kFlush) == 0 &&
        scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    scheduler_.WaitLocked();
  }
  return family.flushed_count() < target ? background_error_ : Status::OK();
}

// Flushes all memtables. Writers wait until this is done.
Status DBImpl::FlushAsLeaderLocked() {
  std::vector<ColumnFamily*> filled;
  for (ColumnFamily* const family : families_.live()) {
    if (family->memtable()->empty()) continue;
    filled.push_back(family);
    Status status = AwaitFlushLocked(*family, family->switched_count());
    if (!status.ok()) return status;
  }
  Status status;
  if (!filled.empty()) status = SwitchLocked(std::move(filled));
  for (const ColumnFamily* family : families_.live()) {
    if (status.ok()) {
      status = AwaitFlushLocked(*family, family->switched_count());
    }
  }
  return status;
}

Status DBImpl::Resume() {
  if (read_only_) return ReadOnlyError();
  {
    MutexLock lock(&mutex_);
    Status status = WritableLocked();
    // First: in a child of fork(), the directory's mutex may be held forever.
    if (inheritance_.is_inherited()) return status;
    const Status failure = db_directory_.directory()->failure();
    if (!failure.ok() && background_error_.ok()) {
      // No caller relied on that sync, but the next one will.
      SetBackgroundErrorLocked(failure, "a sync of the directory");
      events_.DeliverLocked();
    }
  }
  for (;;) {
    {
      // Without leadership, so that writes are refused at once. Close drops a
      // queued flush, which then never ends.
      MutexLock lock(&mutex_);
      while (JobsRunLocked() && !background_error_.ok() && !IsEndingLocked()) {
        scheduler_.WaitLocked();
      }
    }
    // No thread writes before this is done, since the error is set. Leadership
    // is needed for the log.
    const WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    if (IsClosedLocked()) return ClosedError();
    if (background_error_.ok()) {
      ResumeCompactionsLocked();
      return Status::OK();
    }
    if (IsEndingLocked()) return Status::ShutdownInProgress();
    // Unless another Resume came first, and another error since.
    if (!JobsRunLocked()) return ResumeAsLeaderLocked();
  }
}

// An error that a running job meets must not be taken for one after the Resume:
// a failed sync is reported once, and the next one succeeds. So this requires
// that no job runs. None starts while background_error_ is set.
Status DBImpl::ResumeAsLeaderLocked() {
  // A job that met a failed sync of the directory has removed the files that it
  // had created, except the log.
  wals_.ClearDirectoryErrorLocked(background_error_);
  // Until its updates are in tables, and the MANIFEST says so, a power failure
  // may lose the log's end. The logs after it would not count then.
  Status status;
  if (background_error_.IsNoSpace()) wals_.ReleaseSpaceLocked();
  // An earlier Resume may have failed to write the rest of a log, above.
  if (!wals_.AreGoodLocked()) wals_.FailLocked();
  std::vector<ColumnFamily*> filled = families_.live();
  std::erase_if(filled, [](const ColumnFamily* family) {
    return family->memtable()->empty();
  });
  if (wals_.has_failed() || !filled.empty()) {
    status = SwitchLocked(std::move(filled));
  }
  // Together, so that no part of a batch is left out.
  const std::vector<ColumnFamily*> families = families_.live();
  std::vector<size_t> counts;
  if (status.ok()) status = FlushImmutablesLocked(families, &counts);
  PurgeObsoleteLocked();  // This may free space, even after a failure.
  if (status.ok()) {
    for (size_t i = 0; i < families.size(); ++i) {
      families[i]->CountFlushedLocked(counts[i]);
    }
    // Checks that the new log can be synced. The earlier logs are not needed.
    status = wals_.SyncLocked();
    if (!status.ok()) wals_.FailLocked();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &log_, "still read-only: %s",
        status.ToString().c_str());
    return status;
  }
  background_error_ = Status::OK();
  Log(LogLevel::kInfo, &log_, "writable again");
  UpdateGateLocked();
  ResumeCompactionsLocked();
  MaybeScheduleLocked();
  scheduler_.SignalLocked();
  events_.DeliverLocked();
  return status;
}

bool DBImpl::JobsRunLocked() const {
  return scheduler_.JobsLocked(JobKind::kFlush) > 0 ||
         AnyCompactionRunsLocked();
}

}  // namespace varve
