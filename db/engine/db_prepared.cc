// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Two-phase commit: prepared sections in the log, and the marks of their ends.

#include <algorithm>
#include <functional>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/family/successive_merges.h"
#include "db/write/write_batch_internal.h"
#include "monitoring/statistics.h"

namespace varve {

namespace {

Status NotPreparedError(const Slice& name) {
  return Status::NotFound("no transaction is prepared under the name",
                          name.ToString(true) + " (hexadecimal)");
}

// As recovery does, ignores the updates of families that were dropped.
class LiveMemTables final : public MemTableChooser {
 public:
  explicit LiveMemTables(const FamilySet& families) : families_(families) {}
  MemTable* Choose(uint32_t family) override {
    const ColumnFamily* const found = families_.Find(family);
    return found != nullptr ? found->memtable() : nullptr;
  }

 private:
  const FamilySet& families_;
};

}  // namespace

// A record about a prepared transaction, as a writer of the queue. Such records
// form groups of their own, in which they share one sync. Its leader calls the
// functions of all of them.
class DBImpl::PreparedWrite final : public WriteQueue::Condition {
 public:
  explicit PreparedWrite(const Slice& transaction) : name(transaction) {}

  Status Examine() override { return Status::OK(); }
  // A record may depend on an earlier one of its name, which has an effect only
  // once its group is synced.
  bool Holds(const WriteQueue::Group* before) override {
    bool holds = true;
    before->ForEach([&](const WriteQueue::Writer* writer) {
      if (Of(*writer)->name == name) holds = false;
    });
    return holds;
  }
  // REQUIRES: the writer was made for one of these.
  static PreparedWrite* Of(const WriteQueue::Writer& writer) {
    return static_cast<PreparedWrite*>(writer.condition);
  }

  const Slice name;
  // Returns an error if nothing is to be written.
  std::function<Status()> check;
  std::function<PreparedRecord(SequenceNumber)> record;
  // Called when the record is durable, if it was to be synced.
  std::function<Status()> apply;
  uint64_t count = 0;  // Of updates that become visible.
  // The outcome. OK from the record's write to the log until apply.
  Status status;
};

// Writes the record, in a group of such. The write is admitted before as one of
// `updates`.
Status DBImpl::WriteInGroup(const WriteOptions& options,
                            const WriteBatch& updates, PreparedWrite* mine) {
  if (core_.is_read_only) return ReadOnlyError();
  WriteOptions logged = options;
  logged.disable_wal = false;
  PendingWrite write{logged, {core_.families, updates, nullptr}};
  WriteQueue::Writer writer(logged, nullptr, nullptr, mine);
  for (;;) {
    Status status = admission_.Admit(&write);
    if (!status.ok()) return status;
    if (core_.write_queue.Join(&writer) == WriteQueue::Role::kDone) {
      return mine->status;
    }
    core_.write_queue.AwaitIdle();
    status = admission_.MakeRoom(&write);
    if (status.ok() && write.MayGo()) {
      CommitPreparedGroup(&writer);
      return mine->status;
    }
    if (status.ok() && write.MayGoAndWake()) {
      CommitPreparedGroup(&writer);
      core_.publications.Wake();
      return mine->status;
    }
    core_.write_queue.Leave(WriteQueue::Group(&writer), status);
    if (!status.ok()) return status;
  }
}

// Writes the records of a group, syncs once, and applies them in their order.
void DBImpl::CommitPreparedGroup(WriteQueue::Writer* leader) {
  if (leader->sync)
    core_.write_queue.DelayGroupCommit(leader, core_.wals.group_sync_us() / 2);
  const WriteQueue::Group group = core_.write_queue.Form(leader);
  // Of the log; it ends the writes of the group that were not logged before.
  Status failure;
  SequenceNumber next = core_.versions->LastSequence() + 1;
  bool logged = false;
  group.ForEach([&](const WriteQueue::Writer* writer) {
    PreparedWrite* const write = PreparedWrite::Of(*writer);
    write->status = failure.ok() ? write->check() : failure;
    if (!write->status.ok()) return;
    const PreparedRecord record = write->record(next);
    failure = core_.wals.Append(record.Parts());
    write->status = failure;
    if (!failure.ok()) return;
    logged = true;
    next += write->count;
    RecordTick(core_.stats, Ticker::kWriteWithWal);
    RecordTick(core_.stats, Ticker::kWalFileBytes, record.size());
  });
  // If the log refused a record, it has the earlier ones.
  bool is_whole = failure.ok() || core_.wals.HasRefused();
  if (logged && is_whole && leader->sync) {
    MutexLock lock(core_.mutex());
    const Status synced = core_.wals.SyncForGroupLocked();
    if (!synced.ok()) {
      failure = synced;
      is_whole = false;
    }
  }
  if (!failure.ok()) {
    MutexLock lock(core_.mutex());
    // Nothing may be written after a log whose end is unknown.
    if (!is_whole) core_.wals.FailLocked();
    core_.control.SetErrorLocked(failure, "writing the log");
    core_.events.DeliverLocked();
  }
  Status before = is_whole ? Status::OK() : failure;
  group.ForEach([&before](const WriteQueue::Writer* writer) {
    PreparedWrite* const write = PreparedWrite::Of(*writer);
    if (!write->status.ok()) return;
    write->status = before.ok() ? write->apply() : before;
    // The sequence numbers of the later ones rely on its updates.
    if (!write->status.ok()) before = write->status;
  });
  core_.write_queue.Leave(group, Status::OK());
}

// Keeps a copy of the updates. Ignores disable_wal. Returns InvalidArgument if
// the name is empty or a prepared transaction has it, and Write's errors.
Status DBImpl::WritePrepared(const WriteOptions& options, const Slice& name,
                             WriteBatch* updates) {
  if (name.empty()) {
    return Status::InvalidArgument("a prepared transaction needs a name");
  }
  WriteOptions logged = options;
  logged.disable_wal = false;
  Status status = CheckBatch(logged, updates, nullptr);
  if (!status.ok()) return status;
  PreparedWrite write(name);
  write.check = [&] {
    if (core_.prepared.Find(name) != nullptr) {
      return Status::InvalidArgument(
          "a transaction is already prepared under the name",
          name.ToString(true) + " (hexadecimal)");
    }
    return TouchedFamilies(core_.families, *updates, nullptr).AreLive()
               ? Status::OK()
               : DroppedFamilyError();
  };
  write.record = [&](SequenceNumber next) {
    return PreparedRecord::OfPrepare(name, *updates, next, false);
  };
  write.apply = [&] {
    MutexLock lock(core_.mutex());
    core_.prepared.Add({name.ToString(), *updates}, core_.wals.NewestLocked());
    return Status::OK();
  };
  return WriteInGroup(options, *updates, &write);
}

// Applies `first`, unless it is null, and then the prepared updates, of which
// those of families that were dropped have no effect. Returns NotFound if no
// transaction of that name is prepared, and Write's errors for `first`. The
// transaction is then still prepared.
Status DBImpl::CommitPrepared(const WriteOptions& options, const Slice& name,
                              WriteBatch* first) {
  std::shared_ptr<PreparedSet::Held> held;
  {
    MutexLock lock(core_.mutex());
    held = core_.prepared.Find(name);
  }
  if (held == nullptr) return NotPreparedError(name);
  WriteBatch* updates = &held->section.updates;
  WriteBatch all;
  if (first != nullptr) {
    Status status = CheckBatch(options, first, nullptr);
    if (!status.ok()) return status;
    all = *first;
    all.Append(*updates);
    updates = &all;
  }
  PreparedWrite write(name);
  write.count = updates->Count();
  write.check = [&] {
    if (core_.prepared.Find(name) != held) return NotPreparedError(name);
    return first == nullptr ||
                   TouchedFamilies(core_.families, *first, nullptr).AreLive()
               ? Status::OK()
               : DroppedFamilyError();
  };
  write.record = [&](SequenceNumber next) {
    return PreparedRecord::OfCommit(name, first, next);
  };
  write.apply = [&] {
    Status status = ApplyPrepared(updates);
    if (!status.ok()) return status;
    MutexLock lock(core_.mutex());
    core_.prepared.End(name, core_.wals.NewestLocked());
    return status;
  };
  return WriteInGroup(options, *updates, &write);
}

// Adds the updates, whose commit is logged, to the memtables, and makes them
// visible. For the leader.
Status DBImpl::ApplyPrepared(WriteBatch* updates) {
  WriteQueue::Writer writer(WriteOptions(), updates);
  const SequenceNumber first = core_.versions->LastSequence() + 1;
  {
    // They may be the section's, which is read with the mutex.
    MutexLock lock(core_.mutex());
    WriteBatchInternal::SetSequence(updates, first);
  }
  CutDeadRanges(core_.families, WriteQueue::Group(&writer));
  LiveMemTables memtables(core_.families);
  Status status;
  if (WriteBatchInternal::HasMerges(*updates) && BoundsMerges(writer)) {
    SuccessiveMerges merges(core_.families, core_.stats, core_.mutex());
    status = InsertBatchMerging(updates->Data(), &memtables, &merges);
  } else {
    status = InsertBatch(updates->Data(), &memtables);
  }
  if (!status.ok()) {
    // Only a damaged batch, which no section is, cannot be inserted.
    MutexLock lock(core_.mutex());
    core_.control.SetErrorLocked(status, "committing a transaction");
    core_.events.DeliverLocked();
    return status;
  }
  const SequenceNumber last = first + updates->Count() - 1;
  core_.versions->SetLastSequence(last);
  core_.wals.SetLastLogged(last);
  RecordTick(core_.stats, Ticker::kNumberKeysWritten, updates->Count());
  size_t bytes = updates->ApproximateSize();
  for (const auto& [id, family_bytes] :
       WriteBatchInternal::Families(*updates)) {
    ColumnFamily* const family = core_.families.Find(id);
    bytes -= std::min(bytes, family_bytes);
    if (family == nullptr) continue;
    family->pace().CountWritten(family_bytes, true);
    if (family->memtables().IsFull() || core_.wals.SpaceForUpdates() == 0) {
      core_.control.gate().RequestLook();
    }
  }
  core_.default_family.pace().CountWritten(bytes, true);
  return status;
}

// Returns the same errors.
Status DBImpl::RollbackPrepared(const WriteOptions& options,
                                const Slice& name) {
  const WriteBatch none;
  PreparedWrite write(name);
  write.check = [&] {
    return core_.prepared.Find(name) != nullptr ? Status::OK()
                                                : NotPreparedError(name);
  };
  write.record = [&](SequenceNumber next) {
    return PreparedRecord::OfRollback(name, next);
  };
  write.apply = [&] {
    MutexLock lock(core_.mutex());
    core_.prepared.End(name, 0);
    return Status::OK();
  };
  return WriteInGroup(options, none, &write);
}

std::vector<PreparedSection> DBImpl::PreparedSections() {
  std::vector<PreparedSection> sections;
  MutexLock lock(core_.mutex());
  for (const auto& [name, held] : core_.prepared.sections()) {
    sections.push_back(held->section);
  }
  return sections;
}

}  // namespace varve
