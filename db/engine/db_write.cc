// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Writes: through the queue into the log and the memtable.

#include "db/compaction/compaction_picker.h"
#include "db/engine/db_impl.h"
#include "db/parts/common_errors.h"
#include "db/parts/job_events.h"
#include "db/write/group_spans.h"
#include "db/write/scratch_batch.h"
#include "db/write/write_batch_internal.h"
#include "env/descriptor_supply.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

// A thread's batch of one update.
struct SingleUpdateTag;
using SingleUpdateBatch = ScratchBatch<SingleUpdateTag>;

// Prefetches the memory that the insert of the first update accesses first.
void Prefetch(const WriteQueue::Writer& writer, const MemTable& memtable) {
  if (writer.update != nullptr) {
    memtable.Prefetch(writer.update->hash);
  } else {
    WriteBatchInternal::PrefetchFirst(*writer.batch, memtable);
  }
}

Status Insert(const WriteQueue::Writer& writer, MemTable* memtable) {
  const WriteQueue::SingleUpdate* const update = writer.update;
  if (update == nullptr) {
    return InsertBatchInto(writer.batch->Data(), memtable);
  }
  memtable->Add(WriteBatchInternal::Sequence(*writer.batch), update->type,
                update->key, update->value, update->hash);
  return Status::OK();
}

// Once for each group, by its leader.
void CountGroup(StatisticsImpl* stats, const WriteQueue::Writer& leader,
                uint64_t keys, uint64_t bytes) {
  if (stats == nullptr || !stats->counts()) return;
  const bool logged = !leader.disable_wal;
  if (keys == 1) [[likely]] {
    stats->TickGroup(logged ? CounterGroup::kWriteOneLogged
                            : CounterGroup::kWriteOne);
  } else {
    stats->TickCounted(Ticker::kNumberKeysWritten, keys);
    stats->TickCounted(Ticker::kWriteDoneBySelf, 1);
    if (logged) stats->TickCounted(Ticker::kWriteWithWal, 1);
  }
  stats->TickCounted(Ticker::kBytesWritten, bytes);
  if (logged) stats->TickCounted(Ticker::kWalFileBytes, bytes);
}

Status CheckBatch(const WriteOptions& options, const WriteBatch* batch,
                  const InternalKeyComparator& comparator) {
  if (batch == nullptr) return Status::InvalidArgument("batch is null");
  if (options.sync && options.disable_wal) {
    return Status::InvalidArgument("sync and disable_wal are both set");
  }
  if (WriteBatchInternal::TooLong(*batch)) {
    return Status::InvalidArgument(
        "an update of more than 3 GiB, log data of 4 GiB, or more than "
        "4294967295 updates");
  }
  if (!WriteBatchInternal::Unchecked(*batch)) return Status::OK();
  BatchReader reader;
  Status status = reader.Init(batch->Data());
  BatchRecord record;
  bool done = false;
  while (status.ok() && !done) {
    status = reader.NextOfOurs(&record, &done);
    if (status.ok() && !done && record.type == ValueType::kRangeDeletion &&
        comparator.CompareUser(record.key, record.value) > 0) {
      return Status::InvalidArgument("range deletion",
                                     "its end comes before its begin");
    }
  }
  return status.Annotate("batch");
}

}  // namespace

Status DBImpl::Put(const WriteOptions& options, const Slice& key,
                   const Slice& value) {
  SingleUpdateBatch batch(key.size() + value.size());
  batch->Put(key, value);
  const WriteQueue::SingleUpdate update{ValueType::kValue, key, value,
                                        PreviewXxh3(key)};
  return MeasureWrite(options, batch.get(), &update);
}

Status DBImpl::Delete(const WriteOptions& options, const Slice& key) {
  SingleUpdateBatch batch(key.size());
  batch->Delete(key);
  const WriteQueue::SingleUpdate update{ValueType::kDeletion, key, Slice(),
                                        PreviewXxh3(key)};
  return MeasureWrite(options, batch.get(), &update);
}

Status DBImpl::SingleDelete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.SingleDelete(key);
  return Write(options, &batch);
}

Status DBImpl::DeleteRange(const WriteOptions& options, const Slice& begin,
                           const Slice& end) {
  WriteBatch batch;
  if (comparator_.CompareUser(begin, end) != 0) batch.DeleteRange(begin, end);
  return Write(options, &batch);
}

Status DBImpl::Write(const WriteOptions& options, WriteBatch* batch) {
  return MeasureWrite(options, batch, nullptr);
}

inline Status DBImpl::MeasureWrite(const WriteOptions& options,
                                   WriteBatch* batch,
                                   const WriteQueue::SingleUpdate* update) {
  Status status;
  if (IsOperationMeasured(stats_)) [[unlikely]] {
    MeasuredOperation operation(stats_, HistogramType::kDbWrite, env_);
    if (batch != nullptr) {
      operation.Record(HistogramType::kBytesPerWrite, batch->ApproximateSize());
    }
    status = WriteThroughQueue(options, batch, update);
  } else {
    status = WriteThroughQueue(options, batch, update);
  }
  if (status.IsNoSpace()) [[unlikely]] {
    return DeleteWithoutSpace(options, batch, std::move(status));
  }
  return status;
}

Status DBImpl::WriteThroughQueue(const WriteOptions& options, WriteBatch* batch,
                                 const WriteQueue::SingleUpdate* update) {
  const RequestSpan span("DB::Write");
  if (read_only_) return ReadOnlyError();
  Status status = CheckBatch(options, batch, comparator_);
  if (!status.ok()) return status;
  WriteQueue::Writer writer(options, batch, update);
  writer.spans = span.queue();
  writer.span = span.index();
  bool delayed = false;
  uint64_t paused_us = 0;
  bool frees = false;
  bool wait = !family_.StallStateIsClear();
  for (;;) {
    if (wait) [[unlikely]] {
      status = DelayWrite(options, *batch, &delayed, &frees);
      if (!status.ok()) return status;
    }
    switch (write_queue_.Join(&writer)) {
      case WriteQueue::Role::kInsert: {
        const LocalSpan insert("memtable insert");
        writer.status = Insert(writer, writer.memtable);
        write_queue_.FinishInsert(&writer);
        break;
      }
      case WriteQueue::Role::kDone:
        break;
      case WriteQueue::Role::kLeader:
        wait = false;
        if (!family_.HasSpace()) [[unlikely]] {
          status = MakeSpace(frees, &wait);
        }
        if (family_.PaceIsDue() && !wait && !frees && status.ok())
            [[unlikely]] {
          uint64_t pause_us = 0;
          status = PaceOrSwitch(
              paused_us < DebtPace::kMaxWaitUs && !options.no_slowdown, &wait,
              &pause_us);
          if (pause_us > 0) {
            paused_us += pause_us;
            write_queue_.Leave(WriteQueue::Group(&writer), status);
            const LocalSpan stall("stall");
            env_->SleepForMicroseconds(pause_us);
            continue;
          }
        }
        if (status.ok() && !wait) return CommitGroup(&writer);
        write_queue_.Leave(WriteQueue::Group(&writer), status);
        if (!status.ok()) return status;
        continue;
    }
    RecordTick(stats_, Ticker::kWriteDoneByOther);
    if (!options.disable_wal) RecordTick(stats_, Ticker::kWriteWithWal);
    return std::move(writer.status);
  }
}

// For a leader without HasSpace: makes space, or sets *wait if the writer has
// to wait outside of the queue. `frees`: the batch only deletes, and DelayWrite
// has admitted it.
Status DBImpl::MakeSpace(bool frees, bool* wait) {
  const LocalSpan span("make space");
  const TimedMutexLock lock(&mutex_, stats_, env_);
  Status status = WritableLocked();
  if (!status.ok()) {
    return status.IsNoSpace() && frees && TakesDeletionsLocked() ? Status::OK()
                                                                 : status;
  }
  *wait = family_.StopCauseLocked() != StallCause::kNone &&
          (!frees || family_.compactions().error.ok());
  // Deletions may pass although no further memtable may wait.
  if (*wait || !family_.MustSwitchLocked() ||
      (frees && !family_.SlotFreeLocked())) {
    return Status::OK();
  }
  return SwitchMemTableLocked();
}

// For a leader whose pace is due: switches the memtable if the log has no
// space. Otherwise sets *pause_us to the time to wait.
Status DBImpl::PaceOrSwitch(bool may_pause, bool* wait, uint64_t* pause_us) {
  const uint64_t log_space = wals_.SpaceForUpdates();
  if (log_space == 0) {
    {
      MutexLock lock(&mutex_);
      family_.SetLogFullLocked();
    }
    return MakeSpace(/*frees=*/false, wait);
  }
  MutexLock lock(&mutex_);
  if (WatchesQuietLocked()) quiet_watch_.StartLocked();
  *pause_us = family_.PauseMicrosLocked(log_space, may_pause);
  return Status::OK();
}

// For a writer that is not in the queue: waits while writes are stopped, and
// then for the delay of writers that are slowed down, at most once. Returns
// Incomplete if the options forbid that. Sets *frees if the batch only deletes
// and is admitted for that reason.
Status DBImpl::DelayWrite(const WriteOptions& options, const WriteBatch& batch,
                          bool* delayed, bool* frees) {
  const LocalSpan span("stall");
  const PerfTimer timer(env_, &GetPerfContext()->write_delay_time);
  const HistogramTimer stall_timer(stats_, HistogramType::kWriteStall, env_);
  const TimedMutexLock lock(&mutex_, stats_, env_);
  bool counted = false;
  bool tried = false;
  *frees = false;
  for (;;) {
    Status status = WritableLocked();
    if (!status.ok()) {
      if (!status.IsNoSpace() || inheritance_.is_inherited() ||
          !WriteBatchInternal::OnlyDeletes(batch)) {
        return status;
      }
      status = AdmitDeletionLocked(&tried);
      if (!status.ok()) return status;
      *frees = !background_error_.ok();
      if (*frees) return status;
      continue;
    }
    const StallCause cause = family_.StopCauseLocked();
    if (cause == StallCause::kNone) break;
    if (!family_.compactions().error.ok() && cause != StallCause::kMemTables) {
      *frees = WriteBatchInternal::OnlyDeletes(batch);
      return *frees ? Status::OK() : family_.compactions().error;
    }
    if (family_.stall().pressure != WritePressure::kStop) {
      UpdateStallLocked();  // Listeners hear of it.
      events_.DeliverLocked();
      continue;
    }
    if (options.no_slowdown) {
      return Status::Incomplete("writes are stopped", StallCauseName(cause));
    }
    // No job is started any more that would end the wait.
    if (scheduler_.is_stopping()) {
      return Status::ShutdownInProgress();
    }
    if (!counted) family_.CountStallLocked(cause, WritePressure::kStop);
    counted = true;
    const Stopwatch stopped(env_);
    VARVE_PROBE(stall_begin, static_cast<int>(cause));
    scheduler_.WaitLocked();
    const uint64_t stopped_us = stopped.ElapsedMicros();
    VARVE_PROBE(stall_end, static_cast<int>(cause), stopped_us);
    family_.AddStallMicrosLocked(stopped_us);
  }
  if (*delayed || family_.stall().pressure != WritePressure::kSlow)
    return Status::OK();
  *delayed = true;
  const uint64_t delay_us = family_.DelayMicrosLocked(batch.ApproximateSize());
  if (delay_us == 0) return Status::OK();
  if (options.no_slowdown) {
    return Status::Incomplete("writes are slowed down",
                              StallCauseName(family_.stall().cause));
  }
  family_.CountStallLocked(family_.stall().cause, WritePressure::kSlow);
  family_.AddStallMicrosLocked(delay_us);
  mutex_.Unlock();
  env_->SleepForMicroseconds(delay_us);
  mutex_.Lock();
  return Status::OK();
}

// Call it when the causes of write delays have changed.
void DBImpl::UpdateStallLocked() {
  const WriteStallState before = family_.stall();
  const WriteDebt debt = family_.UpdateStallLocked();
  ReportStall(db_directory_.path(), before, family_.stall(), debt, &log_,
              &events_);
  UpdateStallStateLocked();
}

// Call it when the stall state or background_error_ has changed.
void DBImpl::UpdateStallStateLocked() {
  family_.UpdateStallStateLocked(!background_error_.ok() ||
                                 inheritance_.is_inherited() ||
                                 IsClosedLocked());
}

// Writes the group to the log and the memtable, and leaves the queue.
Status DBImpl::CommitGroup(WriteQueue::Writer* leader) {
  if (leader->sync)
    write_queue_.DelayGroupCommit(leader, wals_.group_sync_us() / 2);
  const WriteQueue::Group group = write_queue_.Form(leader);
  GroupSpans spans(group);
  MemTable* const memtable = family_.memtable();
  // Only the leader, which is this thread, changes both.
  const SequenceNumber first = versions_->LastSequence() + 1;
  SequenceNumber next = first;
  size_t bytes = 0;
  group.ForEach([&](WriteQueue::Writer* writer) {
    WriteBatchInternal::SetSequence(writer->batch, next);
    next += writer->batch->Count();
    // While the log is written.
    Prefetch(*writer, *memtable);
    bytes += writer->batch->ApproximateSize();
  });
  Status status;
  bool refused = false;  // Refused by the log, which is unchanged.
  if (leader->disable_wal) {
    memtable->SetHasUnlogged();
  } else {
    const LocalSpan span(LocalSpan::Shared(), "WAL append");
    const PerfTimer timer(env_, &GetPerfContext()->write_wal_time);
    status = wals_.Append(group, next - first);
    refused = !status.ok() && wals_.HasRefused();
  }
  if (status.ok() && leader->sync) {
    const LocalSpan span(LocalSpan::Shared(), "WAL sync");
    MutexLock lock(&mutex_);
    status = wals_.SyncForGroupLocked();
  }
  spans.Mount();
  if (!dead_walks_.ranges().empty()) [[unlikely]]
    CutDeadRanges(group);
  if (status.ok()) {
    const PerfTimer timer(env_, &GetPerfContext()->write_memtable_time);
    write_queue_.InsertAll(
        group, memtable, [memtable](WriteQueue::Writer* writer) {
          const LocalSpan span(writer->spans, "memtable insert");
          writer->status = Insert(*writer, memtable);
        });
    group.ForEach([&status](WriteQueue::Writer* writer) {
      if (!writer->status.ok()) status = writer->status;
    });
  }
  if (status.ok()) {
    versions_->SetLastSequence(next - 1);
  } else {
    // Its numbers will be used again, for updates that may be in the memtable.
    dead_walks_.leader_ranges()->Clear();
    // The log's end is unknown: nothing may be written after it.
    MutexLock lock(&mutex_);
    if (!refused) wals_.FailLocked();
    SetBackgroundErrorLocked(status, "writing the log");
    events_.DeliverLocked();
  }
  VARVE_PROBE(group_commit, next - first, bytes, leader->sync, status.ok());
  CountGroup(stats_, *leader, next - first, bytes);
  family_.CountWritten(bytes, !leader->disable_wal);
  write_queue_.Leave(group, status);
  return status;
}

}  // namespace varve
