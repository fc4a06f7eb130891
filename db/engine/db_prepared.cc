// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Two-phase commit: prepared sections in the log, and the marks of their ends.

#include <algorithm>

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

// Calls work() as the leader of a group of one. The write is admitted before as
// one of `updates`.
template <typename Work>
Status DBImpl::WriteAlone(const WriteOptions& options,
                          const WriteBatch& updates, Work work) {
  if (core_.is_read_only) return ReadOnlyError();
  PendingWrite write{options, {core_.families, updates, nullptr}};
  for (;;) {
    Status status = admission_.Admit(&write);
    if (!status.ok()) return status;
    const WriteQueue::Exclusive leader(&core_.write_queue);
    status = admission_.MakeRoom(&write);
    if (!status.ok()) return status;
    if (write.MayGo()) return work();
  }
}

// Writes a record to the log. For the leader.
Status DBImpl::LogPrepared(const WriteOptions& options,
                           const PreparedRecord& record) {
  const std::vector<Slice> parts = record.Parts();
  Status status = core_.wals.Append(parts);
  const bool refused = !status.ok() && core_.wals.HasRefused();
  if (status.ok() && options.sync) {
    MutexLock lock(core_.mutex());
    status = core_.wals.SyncForGroupLocked();
  }
  if (status.ok()) {
    uint64_t bytes = 0;
    for (const Slice& part : parts) bytes += part.size();
    RecordTick(core_.stats, Ticker::kWriteWithWal);
    RecordTick(core_.stats, Ticker::kWalFileBytes, bytes);
    return status;
  }
  MutexLock lock(core_.mutex());
  // Otherwise the log's end is unknown: nothing may be written after it.
  if (!refused) core_.wals.FailLocked();
  core_.control.SetErrorLocked(status, "writing the log");
  core_.events.DeliverLocked();
  return status;
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
  return WriteAlone(logged, *updates, [&] {
    if (core_.prepared.Find(name) != nullptr) {
      return Status::InvalidArgument(
          "a transaction is already prepared under the name",
          name.ToString(true) + " (hexadecimal)");
    }
    if (!TouchedFamilies(core_.families, *updates, nullptr).AreLive()) {
      return DroppedFamilyError();
    }
    Status logged_status = LogPrepared(
        logged, PreparedRecord::OfPrepare(
                    name, *updates, core_.versions->LastSequence() + 1, false));
    if (!logged_status.ok()) return logged_status;
    MutexLock lock(core_.mutex());
    core_.prepared.Add({name.ToString(), *updates}, core_.wals.NewestLocked());
    return logged_status;
  });
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
  return WriteAlone(options, *updates, [&] {
    if (core_.prepared.Find(name) != held) return NotPreparedError(name);
    if (first != nullptr &&
        !TouchedFamilies(core_.families, *first, nullptr).AreLive()) {
      return DroppedFamilyError();
    }
    Status status = LogPrepared(
        options, PreparedRecord::OfCommit(name, first,
                                          core_.versions->LastSequence() + 1));
    if (status.ok()) status = ApplyPrepared(updates);
    if (!status.ok()) return status;
    MutexLock lock(core_.mutex());
    core_.prepared.End(name, core_.wals.NewestLocked());
    return status;
  });
}

// Adds the updates, whose commit is logged, to the memtables, and makes them
// visible. For the leader.
Status DBImpl::ApplyPrepared(WriteBatch* updates) {
  WriteQueue::Writer writer(WriteOptions(), updates);
  const SequenceNumber first = core_.versions->LastSequence() + 1;
  WriteBatchInternal::SetSequence(updates, first);
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
  return WriteAlone(options, none, [&] {
    if (core_.prepared.Find(name) == nullptr) return NotPreparedError(name);
    Status status = LogPrepared(
        options,
        PreparedRecord::OfRollback(name, core_.versions->LastSequence() + 1));
    if (!status.ok()) return status;
    MutexLock lock(core_.mutex());
    core_.prepared.End(name, 0);
    return status;
  });
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
