// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Writes: through the queue into the log and the memtable.

#include <algorithm>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/family/successive_merges.h"
#include "db/family/touched_families.h"
#include "db/write/group_spans.h"
#include "db/write/scratch_batch.h"
#include "db/write/write_batch_internal.h"
#include "env/descriptor_supply.h"
#include "env/stopwatch.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/base/probe.h"
#include "util/bytes/hash.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// A thread's batch of one update.
struct SingleUpdateTag;
using SingleUpdateBatch = ScratchBatch<SingleUpdateTag>;

// Prefetches the memory that the insert of the first update accesses first.
void Prefetch(const WriteQueue::Writer& writer, const MemTable& memtable) {
  if (writer.update != nullptr) {
    writer.update->family->memtable()->Prefetch(writer.update->hash);
  } else {
    WriteBatchInternal::PrefetchFirst(*writer.batch, memtable);
  }
}

bool HasFamilies(const WriteQueue::Writer& writer) {
  return !WriteBatchInternal::Families(*writer.batch).empty();
}

Status NoMergeOperatorError() {
  return Status::NotSupported(
      "a merge, and Options::merge_operator is not set");
}

// Finds the active memtables of a batch's families. REQUIRES: no memtable is
// switched as long as this exists.
class ActiveMemTables final : public MemTableChooser {
 public:
  explicit ActiveMemTables(const FamilySet& families) : families_(families) {}
  MemTable* Choose(uint32_t family) override {
    return families_.Find(family)->memtable();
  }

 private:
  const FamilySet& families_;
};

// Sets *status if one of the group's inserts has failed.
[[gnu::always_inline]] inline void TakeError(const WriteQueue::Group& group,
                                             Status* status) {
  group.ForEach([status](WriteQueue::Writer* writer) {
    if (!writer->status.ok()) *status = writer->status;
  });
}

// Once for each group, by its leader.
[[gnu::always_inline]] inline void CountGroup(StatisticsImpl* stats,
                                              const WriteQueue::Writer& leader,
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

}  // namespace

Status DBImpl::CheckBatch(const WriteOptions& options, WriteBatch* batch,
                          const WriteQueue::SingleUpdate* update) {
  if (batch == nullptr) return Status::InvalidArgument("batch is null");
  if (options.sync && options.disable_wal) {
    return Status::InvalidArgument("sync and disable_wal are both set");
  }
  if (WriteBatchInternal::TooLong(*batch)) {
    return Status::InvalidArgument(
        "an update of more than 3 GiB, log data of 4 GiB, or more than "
        "4294967295 updates");
  }
  bool must_check = WriteBatchInternal::Unchecked(*batch);
  if (update == nullptr) {
    const uint64_t db_number = WriteBatchInternal::DbNumber(*batch);
    if (db_number != 0 && db_number != core_.families.db_number()) [[unlikely]]
      return ForeignHandleError();
    must_check |= WriteBatchInternal::HasMerges(*batch);
  }
  return must_check ? CheckUpdates(batch) : Status::OK();
}

// Checks a batch that was made from bytes, or that has range deletions or merge
// operands. Counts the families of the first kind, beside those that were added
// by handle.
Status DBImpl::CheckUpdates(WriteBatch* batch) {
  const auto counted = WriteBatchInternal::Families(*batch);
  if (!WriteBatchInternal::Unchecked(*batch) && counted.empty() &&
      core_.options.merge_operator != nullptr) {
    return Status::OK();
  }
  BatchReader reader;
  Status status = reader.Init(batch->Data());
  BatchRecord record;
  bool done = false;
  // Not the family, which another thread may drop: the comparator is the
  // user's, and outlives it.
  const Comparator* comparator = nullptr;
  bool merges = false;  // It has a merge operator.
  uint32_t family = 0;  // Whose these are.
  for (;;) {
    if (status.ok()) status = reader.NextOfOurs(&record, &done);
    if (!status.ok() || done) return status.Annotate("batch");
    if (record.is_log_data) continue;
    if (record.family != 0 && std::none_of(counted.begin(), counted.end(),
                                           [&record](const auto& known) {
                                             return known.first ==
                                                    record.family;
                                           })) {
      WriteBatchInternal::CountFamily(batch, record.family,
                                      record.key.size() + record.value.size());
    }
    const bool is_range = record.type == ValueType::kRangeDeletion;
    if (!is_range && record.type != ValueType::kMerge) continue;
    if (comparator == nullptr || family != record.family) {
      MutexLock lock(core_.mutex());
      const ColumnFamily* const found = core_.families.Find(record.family);
      if (found == nullptr) return DroppedFamilyError();
      family = record.family;
      comparator = found->options().comparator;
      merges = found->options().merge_operator != nullptr;
    }
    if (!is_range) {
      if (!merges) return NoMergeOperatorError();
    } else if (comparator->Compare(record.key, record.value) > 0) {
      return Status::InvalidArgument("range deletion",
                                     "its end comes before its begin");
    }
  }
}

Status DBImpl::Put(const WriteOptions& options, const Slice& key,
                   const Slice& value) {
  SingleUpdateBatch batch(key.size() + value.size());
  batch->Put(key, value);
  const WriteQueue::SingleUpdate update{
      &core_.default_family, ValueType::kValue, key, value, PreviewXxh3(key)};
  return MeasureWrite<false>(options, batch.get(), &update);
}

Status DBImpl::Put(const WriteOptions& options, ColumnFamilyHandle* handle,
                   const Slice& key, const Slice& value) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) [[unlikely]]
    return ForeignHandleError();
  SingleUpdateBatch batch(key.size() + value.size());
  batch->Put(handle, key, value);
  const WriteQueue::SingleUpdate update{family, ValueType::kValue, key, value,
                                        PreviewXxh3(key)};
  return MeasureWrite<false>(options, batch.get(), &update);
}

Status DBImpl::Delete(const WriteOptions& options, const Slice& key) {
  SingleUpdateBatch batch(key.size());
  batch->Delete(key);
  const WriteQueue::SingleUpdate update{&core_.default_family,
                                        ValueType::kDeletion, key, Slice(),
                                        PreviewXxh3(key)};
  return MeasureWrite<false>(options, batch.get(), &update);
}

Status DBImpl::Delete(const WriteOptions& options, ColumnFamilyHandle* handle,
                      const Slice& key) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) [[unlikely]]
    return ForeignHandleError();
  SingleUpdateBatch batch(key.size());
  batch->Delete(handle, key);
  const WriteQueue::SingleUpdate update{family, ValueType::kDeletion, key,
                                        Slice(), PreviewXxh3(key)};
  return MeasureWrite<false>(options, batch.get(), &update);
}

Status DBImpl::SingleDelete(const WriteOptions& options,
                            ColumnFamilyHandle* family, const Slice& key) {
  WriteBatch batch;
  batch.SingleDelete(family, key);
  return Write(options, &batch);
}

Status DBImpl::Merge(const WriteOptions& options, ColumnFamilyHandle* handle,
                     const Slice& key, const Slice& operand) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  if (family->options().merge_operator == nullptr) {
    return NoMergeOperatorError();
  }
  SingleUpdateBatch batch(key.size() + operand.size());
  batch->Merge(handle, key, operand);
  const WriteQueue::SingleUpdate update{family, ValueType::kMerge, key, operand,
                                        PreviewXxh3(key)};
  return MeasureWrite<false>(options, batch.get(), &update);
}

Status DBImpl::DeleteRange(const WriteOptions& options,
                           ColumnFamilyHandle* handle, const Slice& begin,
                           const Slice& end) {
  const ColumnFamily* const family =
      FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  WriteBatch batch;
  if (family->comparator().CompareUser(begin, end) != 0) {
    batch.DeleteRange(handle, begin, end);
  }
  return Write(options, &batch);
}

Status DBImpl::Write(const WriteOptions& options, WriteBatch* batch) {
  Status status;
  if (batch != nullptr && LargeBatch::MayBe(*batch) &&
      WriteLarge(options, batch, &status)) [[unlikely]] {
    return IsSpaceError(status)
               ? DeleteWithoutSpace(options, batch, std::move(status))
               : status;
  }
  return MeasureWrite<false>(options, batch, nullptr);
}

template <bool kConditional>
inline Status DBImpl::MeasureWrite(const WriteOptions& options,
                                   WriteBatch* batch,
                                   const WriteQueue::SingleUpdate* update,
                                   WriteQueue::Condition* condition) {
  const auto write = [&] {
    return kConditional ? PassQueue<true>(options, batch, update, condition)
                        : WriteThroughQueue(options, batch, update);
  };
  Status status;
  if (IsOperationMeasured(core_.stats)) [[unlikely]] {
    MeasuredOperation operation(core_.stats, HistogramType::kDbWrite,
                                core_.env);
    if (batch != nullptr) {
      operation.Record(HistogramType::kBytesPerWrite, batch->ApproximateSize());
    }
    status = write();
  } else {
    status = write();
  }
  if (!kConditional && IsSpaceError(status)) [[unlikely]] {
    return DeleteWithoutSpace(options, batch, std::move(status));
  }
  return status;
}

// With kConditional, the batch is written if the condition holds.
template <bool kConditional>
[[gnu::always_inline]] inline Status DBImpl::PassQueue(
    const WriteOptions& options, WriteBatch* batch,
    const WriteQueue::SingleUpdate* update, WriteQueue::Condition* condition) {
  const RequestSpan span("DB::Write");
  Status status = CheckBatch(options, batch, update);
  if (!status.ok()) return status;
  if (core_.is_read_only) return ReadOnlyError();
  PendingWrite write{options, {core_.families, *batch, update}};
  WriteQueue::Writer writer(options, batch, update, condition);
  writer.spans = span.queue();
  writer.span = span.index();
  for (;;) {
    status = admission_.Admit(&write);
    if (kConditional && status.ok()) status = condition->Examine();
    if (!status.ok()) return status;
    switch (core_.write_queue.Join(&writer)) {
      case WriteQueue::Role::kInsert: {
        const LocalSpan insert("memtable insert");
        writer.status = Insert(writer);
        core_.write_queue.FinishInsert(&writer);
        break;
      }
      case WriteQueue::Role::kDone:
        break;
      case WriteQueue::Role::kLeader:
        if (kConditional) core_.write_queue.AwaitIdle();
        status = write.touched.HasOthers() && !write.touched.AreLive()
                     ? DroppedFamilyError()
                     : admission_.MakeRoom(&write);
        if (status.ok() && write.MayGo()) {
          if (!kConditional || condition->Holds(nullptr)) {
            return CommitGroup(&writer);
          }
          write.next = PendingWrite::Next::kCheck;
        }
        if (status.ok() && write.MayGoAndWake()) {
          if (!kConditional || condition->Holds(nullptr)) {
            return CommitAndWake(&writer);
          }
          core_.control.gate().RequestWake();
          write.next = PendingWrite::Next::kCheck;
        }
        core_.write_queue.Leave(WriteQueue::Group(&writer), status);
        if (!status.ok()) return status;
        continue;
    }
    RecordTick(core_.stats, Ticker::kWriteDoneByOther);
    if (!options.disable_wal) RecordTick(core_.stats, Ticker::kWriteWithWal);
    if (writer.is_refused) [[unlikely]]
      return DroppedFamilyError();
    return std::move(writer.status);
  }
}

Status DBImpl::WriteIf(const WriteOptions& options, WriteBatch* batch,
                       WriteQueue::Condition* condition) {
  return MeasureWrite<true>(options, batch, nullptr, condition);
}

Status DBImpl::WriteThroughQueue(const WriteOptions& options, WriteBatch* batch,
                                 const WriteQueue::SingleUpdate* update) {
  return PassQueue<false>(options, batch, update, nullptr);
}

inline Status DBImpl::Insert(const WriteQueue::Writer& writer) {
  const WriteQueue::SingleUpdate* const update = writer.update;
  if (writer.is_refused) [[unlikely]]
    return Status::OK();
  if (update != nullptr) {
    update->family->memtable()->Add(WriteBatchInternal::Sequence(*writer.batch),
                                    update->type, update->key, update->value,
                                    update->hash);
    return Status::OK();
  }
  if (!HasFamilies(writer)) {
    return InsertBatchInto(writer.batch->Data(),
                           core_.default_family.memtable());
  }
  ActiveMemTables memtables(core_.families);
  return InsertBatch(writer.batch->Data(), &memtables);
}

// For the leader, about a batch that updates families beside the default one.
// Subtracts their bytes from *default_bytes.
void DBImpl::CountInFamilies(const WriteQueue::Writer& writer,
                             size_t* default_bytes) {
  for (const auto& [id, bytes] : WriteBatchInternal::Families(*writer.batch)) {
    ColumnFamily* const family = core_.families.Find(id);
    family->pace().CountWritten(bytes, !writer.disable_wal);
    *default_bytes -= std::min(*default_bytes, bytes);
    if (family->memtables().IsFull() || core_.wals.SpaceForUpdates() == 0) {
      core_.control.gate().RequestLook();
    }
  }
}

// For the leader. Returns whether the writer has operands for a family that
// bounds their number.
bool DBImpl::BoundsMerges(const WriteQueue::Writer& writer) {
  bool bounds = false;
  MutexLock lock(core_.mutex());
  TouchedFamilies(core_.families, *writer.batch, writer.update)
      .ForEach([&bounds](const ColumnFamily* family) {
        bounds |= family->options().max_successive_merges != 0;
      });
  return bounds;
}

// In place of WriteQueue::InsertAll. An operand that becomes a value includes
// all updates before it, so these must be in the memtables: the leader inserts
// all updates, one after another.
void DBImpl::InsertMerging(const WriteQueue::Group& group) {
  ActiveMemTables memtables(core_.families);
  SuccessiveMerges merges(core_.families, core_.stats, core_.mutex());
  group.ForEach([&](WriteQueue::Writer* writer) {
    if (writer->is_refused) return;
    const LocalSpan span(writer->spans, "memtable insert");
    writer->status =
        InsertBatchMerging(writer->batch->Data(), &memtables, &merges);
  });
}

// For the leader of a group.
[[gnu::always_inline]] inline void DBImpl::InsertAll(
    const WriteQueue::Group& group) {
  core_.write_queue.InsertAll(
      group, [this](WriteQueue::Writer * writer)
                 __attribute__((always_inline)) {
                   const LocalSpan span(writer->spans, "memtable insert");
                   writer->status = Insert(*writer);
                 });
}

// For the leader of a group, after its inserts and before its end, or instead
// of its inserts. Later memtables and logs are chosen by what is counted here.
[[gnu::always_inline]] inline void DBImpl::CountWritten(
    const WriteQueue::Group& group, Written written) {
  const WriteQueue::Writer& leader = *group.first;
  CountGroup(core_.stats, leader, written.next - written.first, written.bytes);
  if (written.has_families) [[unlikely]] {
    group.ForEach([&](const WriteQueue::Writer* writer) {
      if (!writer->is_refused) CountInFamilies(*writer, &written.bytes);
    });
  }
  core_.default_family.pace().CountWritten(written.bytes, !leader.disable_wal);
}

// For the leader.
void DBImpl::ForgetDeadRanges() {
  for (ColumnFamily* const family : core_.families.live()) {
    family->dead_walks()->leader_ranges()->Clear();
  }
}

// As CommitGroup, for a leader that others wait for.
Status DBImpl::CommitAndWake(WriteQueue::Writer* leader) {
  Status status = CommitGroup(leader);
  core_.publications.Wake();
  return status;
}

// Writes the group to the log and the memtables, and leaves the queue.
Status DBImpl::CommitGroup(WriteQueue::Writer* leader) {
  WriteQueue& queue = core_.write_queue;
  if (leader->sync) {
    queue.AwaitIdle();
    queue.DelayGroupCommit(leader, core_.wals.group_sync_us() / 2);
  }
  const WriteQueue::Group group = queue.Form(leader);
  GroupSpans spans(group);
  bool overlaps = queue.Overlaps(group);
  MemTable* const memtable = core_.default_family.memtable();
  // Only the leader, which is this thread, gives numbers to updates.
  SequenceNumber first = core_.versions->LastSequence() + 1;
  if (overlaps) [[unlikely]]
    first = queue.order().LastIssued(first - 1) + 1;
  SequenceNumber next = first;
  size_t bytes = 0;
  bool has_families = false;
  bool bounds_merges = false;
  group.ForEach([&](WriteQueue::Writer* writer) {
    if (HasFamilies(*writer)) [[unlikely]] {
      writer->is_refused =
          !TouchedFamilies(core_.families, *writer->batch, writer->update)
               .AreLive();
      if (writer->is_refused) return;
      has_families = true;
    }
    if (WriteBatchInternal::HasMerges(*writer->batch)) [[unlikely]]
      bounds_merges |= BoundsMerges(*writer);
    WriteBatchInternal::SetSequence(writer->batch, next);
    next += writer->batch->Count();
    // While the log is written.
    Prefetch(*writer, *memtable);
    bytes += writer->batch->ApproximateSize();
  });
  Status status;
  bool refused = false;  // Refused by the log, which is unchanged.
  if (leader->disable_wal) {
    MarkUnlogged(core_.families, group);
  } else {
    const LocalSpan span(LocalSpan::Shared(), "WAL append");
    const PerfTimer timer(core_.env, &GetPerfContext()->write_wal_time);
    status = core_.wals.Append(group, next - first);
    refused = !status.ok() && core_.wals.HasRefused();
  }
  if (status.ok() && leader->sync) {
    const LocalSpan span(LocalSpan::Shared(), "WAL sync");
    MutexLock lock(core_.mutex());
    status = core_.wals.SyncForGroupLocked();
  }
  spans.Mount();
  if (overlaps && (bounds_merges || !status.ok())) [[unlikely]] {
    queue.AwaitIdle();
    overlaps = false;
    if (status.ok() && queue.order().has_failed()) {
      MutexLock lock(core_.mutex());
      status = core_.control.error();
    }
  }
  if (!core_.default_family.dead_walks()->ranges().empty() || has_families)
      [[unlikely]]
    CutDeadRanges(core_.families, group);
  if (overlaps) [[unlikely]] {
    return InsertOverlapping(group, {first, next, bytes, has_families});
  }
  if (status.ok()) {
    const PerfTimer timer(core_.env, &GetPerfContext()->write_memtable_time);
    if (bounds_merges) [[unlikely]] {
      InsertMerging(group);
    } else {
      InsertAll(group);
    }
    TakeError(group, &status);
    if (!status.ok()) [[unlikely]]
      queue.order().Fail();
  }
  if (status.ok()) {
    core_.versions->SetLastSequence(next - 1);
    if (!leader->disable_wal) core_.wals.SetLastLogged(next - 1);
  } else {
    // Its numbers will be used again, for updates that may be in the memtable.
    ForgetDeadRanges();
    // The log's end is unknown: nothing may be written after it.
    MutexLock lock(core_.mutex());
    if (!refused) core_.wals.FailLocked();
    core_.control.SetErrorLocked(status, "writing the log");
    core_.events.DeliverLocked();
  }
  VARVE_PROBE(group_commit, next - first, bytes, leader->sync, status.ok());
  CountWritten(group, {first, next, bytes, has_families});
  queue.Leave(group, status);
  return status;
}

// Does the rest of CommitGroup for a group that is logged, without holding up
// the next leader.
Status DBImpl::InsertOverlapping(const WriteQueue::Group& group,
                                 const Written& written) {
  const WriteQueue::Writer& leader = *group.first;
  if (!leader.disable_wal) core_.wals.SetLastLogged(written.next - 1);
  CountWritten(group, written);
  PublicationOrder::Ticket ticket;
  core_.write_queue.order().Issue(&ticket, written.next - 1);
  core_.write_queue.HandOver(group);
  {
    const PerfTimer timer(core_.env, &GetPerfContext()->write_memtable_time);
    InsertAll(group);
  }
  if (written.has_families) [[unlikely]]
    LookAtFull(group);
  Status status;
  TakeError(group, &status);
  if (!status.ok()) [[unlikely]] {
    ticket.failed = true;
    MutexLock lock(core_.mutex());
    // Later groups may be in the log, and are not visible.
    core_.wals.FailLocked();
    core_.control.SetErrorLocked(status, "inserting");
    core_.events.DeliverLocked();
  }
  if (!core_.write_queue.order().Complete(
          &ticket, core_.versions->mutable_last_sequence()) &&
      status.ok()) [[unlikely]] {
    MutexLock lock(core_.mutex());
    status = core_.control.error();
  }
  VARVE_PROBE(group_commit, written.next - written.first, written.bytes, false,
              status.ok());
  core_.write_queue.Answer(group, status);
  return status;
}

// After the inserts of a group that has not been published, so that no family
// of it is dropped: makes the next leader look at families that are now full.
void DBImpl::LookAtFull(const WriteQueue::Group& group) {
  bool full = false;
  group.ForEach([&](const WriteQueue::Writer* writer) {
    if (writer->is_refused) return;
    for (const auto& entry : WriteBatchInternal::Families(*writer->batch)) {
      full |= core_.families.Find(entry.first)->memtables().IsFull();
    }
  });
  if (!full) return;
  MutexLock lock(core_.mutex());
  core_.control.gate().RequestLook();
}

// ---- Large batches: db/jobs/large_batch.h -----------------------------------

// Writes the batch while other writers go on, or fails to: sets *status, and
// returns true. Returns false if it is to be written like any other batch.
bool DBImpl::WriteLarge(const WriteOptions& options, WriteBatch* batch,
                        Status* status) {
  if (LargeBatch::IsTooLarge(batch->ApproximateSize(), batch->Count())) {
    // One that lies about its number is found to be damaged.
    *status = CheckBatch(options, batch, nullptr);
    if (status->ok()) {
      *status = Status::InvalidArgument("batch has too many updates");
    }
    return true;
  }
  const SequenceNumber before = core_.versions->LastSequence();
  if (large_batches_.ComesAlone(before, batch->Count()) ||
      options.no_slowdown || core_.is_read_only) {
    return false;
  }
  const RequestSpan span("DB::Write");
  LargeBatch large(core_, options, batch);
  *status = CheckBatch(options, batch, nullptr);
  if (!status->ok()) return true;
  if (!large.IsWorthwhile()) return false;
  const HistogramTimer timer(core_.stats, HistogramType::kDbWrite, core_.env);
  // It waits and pauses as any other write does.
  PendingWrite write{options, {core_.families, *batch, nullptr}};
  do {
    *status = admission_.Admit(&write);
    if (!status->ok()) return true;
    if (write.frees) return false;
    const WriteQueue::Exclusive leader(&core_.write_queue);
    *status = admission_.MakeRoom(&write);
    if (!status->ok()) return true;
    if (write.MayGoAndWake()) core_.control.gate().RequestWake();
  } while (!write.MayGo() && !write.MayGoAndWake());
  {
    const LocalSpan insert("memtable insert");
    const PerfTimer memtable_timer(core_.env,
                                   &GetPerfContext()->write_memtable_time);
    *status = large.Fill();
  }
  while (status->ok()) {
    WriteQueue::Exclusive leader(&core_.write_queue);
    bool waits = false;
    *status = large.MayPublish(&waits);
    if (status->ok() && !waits) *status = PublishLarge(&large);
    if (!waits) return true;
    leader.Leave();
    if (!large.AwaitSpace()) return false;
  }
  return true;
}

// For the leader. Logs the batch and makes it visible.
Status DBImpl::PublishLarge(LargeBatch* large) {
  const WriteOptions& options = large->options();
  WriteBatch* const batch = large->batch();
  const SequenceNumber first = core_.versions->LastSequence() + 1;
  const SequenceNumber next = first + batch->Count();
  large->Renumber(first);
  // It is not in the queue.
  WriteQueue::Writer writer(options, batch);
  const WriteQueue::Group group(&writer);
  const bool has_families = !WriteBatchInternal::Families(*batch).empty();
  if (!core_.default_family.dead_walks()->ranges().empty() || has_families) {
    CutDeadRanges(core_.families, group);
  }
  Status status;
  {
    MutexLock lock(core_.mutex());
    if (options.sync) {
      // The logs before it, which must not lose their ends if it is durable.
      status = core_.wals.SyncLocked();
      if (!status.ok()) {
        core_.wals.FailLocked();
        core_.control.SetErrorLocked(status, "writing the log");
        core_.events.DeliverLocked();
      }
    }
    if (status.ok()) {
      status = flusher_.SwitchLocked(large->families(), large);
    }
  }
  // A switch that ends with an error may have been done. Then this is too.
  if (!large->IsTaken()) {
    ForgetDeadRanges();
    return status;
  }
  core_.versions->SetLastSequence(next - 1);
  if (!options.disable_wal) core_.wals.SetLastLogged(next - 1);
  CountPath(PathCounter::kLargeBatch);
  VARVE_PROBE(group_commit, next - first, batch->ApproximateSize(),
              options.sync, true);
  CountWritten(group, {first, next, batch->ApproximateSize(), has_families});
  if (core_.control.gate().TakeWakeRequest()) core_.publications.Wake();
  return Status::OK();
}

}  // namespace varve
