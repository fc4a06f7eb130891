// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/transaction_base.h"

#include <algorithm>
#include <utility>

#include "db/transaction/batch_replay.h"
#include "db/write/write_batch_internal.h"
#include "table/reader/read_target.h"

namespace varve {

TransactionBase::TransactionBase(const TransactionContext& context,
                                 const WriteOptions& write_options,
                                 size_t max_batch_bytes)
    : context_(context),
      batch_(context.default_family->GetComparator(), 0, /*overwrite_key=*/true,
             max_batch_bytes),
      write_options_(write_options),
      start_ns_(context.env->NowNanos()) {
  static_assert(kEmptyBatchBytes == BatchReader::kHeaderSize);
}

TransactionBase::~TransactionBase() {
  Clear();
  ReplaceSnapshot(nullptr);
}

void TransactionBase::Clear() {
  batch_.Clear();
  counts_ = {};
  pins_oldest_ = false;
  if (save_points_ != nullptr) {
    while (HasSavePoint()) RemoveLastSavePoint();
    save_points_->uses.clear();
  }
  if (pin_ != nullptr) ReleaseUnused(std::exchange(pin_, nullptr));
  if (commit_time_batch_ != nullptr) commit_time_batch_->Clear();
}

void TransactionBase::Restart(const WriteOptions& write_options,
                              size_t max_batch_bytes) {
  ClearSnapshot();
  batch_.SetMaxBytes(max_batch_bytes);
  write_options_ = write_options;
  start_ns_ = context_.env->NowNanos();
  SetState(STARTED);
}

Status TransactionBase::NotStartedError() const {
  switch (GetState()) {
    case COMMITTED:
      return Status::InvalidArgument("the transaction is committed");
    case ROLLEDBACK:
      return Status::InvalidArgument("the transaction is rolled back");
    case LOCKS_STOLEN:
      return Status::Expired("another transaction has taken a lock");
    default:
      return Status::InvalidArgument("the transaction is prepared");
  }
}

uint64_t TransactionBase::GetElapsedTime() const {
  const uint64_t now_ns = context_.env->NowNanos();
  return now_ns > start_ns_ ? (now_ns - start_ns_) / 1000000 : 0;
}

// ---- Snapshots --------------------------------------------------------------

void TransactionBase::SetSnapshot() {
  ClearSnapshot();
  snapshot_ = context_.engine->GetSnapshot();
}

void TransactionBase::SetSnapshotOnNextOperation(
    std::shared_ptr<TransactionNotifier> notifier) {
  snapshot_needed_ = true;
  notifier_ = std::move(notifier);
}

void TransactionBase::TakeNeededSnapshot() {
  const std::shared_ptr<TransactionNotifier> notifier = std::move(notifier_);
  SetSnapshot();
  if (notifier != nullptr) notifier->SnapshotCreated(snapshot_);
}

void TransactionBase::ClearSnapshot() {
  snapshot_needed_ = false;
  if (notifier_ != nullptr) notifier_ = nullptr;
  ReplaceSnapshot(nullptr);
}

void TransactionBase::ReplaceSnapshot(const Snapshot* snapshot) {
  const Snapshot* const old = std::exchange(snapshot_, snapshot);
  if (old == nullptr) return;
  if (pins_oldest_ && pin_ == nullptr) pin_ = old;
  ReleaseUnused(old);
}

void TransactionBase::ReleaseUnused(const Snapshot* snapshot) {
  if (snapshot == nullptr || snapshot == snapshot_ || snapshot == pin_) return;
  if (HasSavePoint() &&
      std::any_of(save_points_->points.begin(), save_points_->points.end(),
                  [snapshot](const SavePoint& point) {
                    return point.snapshot == snapshot;
                  })) {
    return;
  }
  context_.engine->ReleaseSnapshot(snapshot);
}

void TransactionBase::PinPresent() {
  pin_ = context_.engine->GetSnapshot();
  pins_oldest_ = true;
}

Status TransactionBase::CommitAndTryCreateSnapshot(
    std::shared_ptr<TransactionNotifier> notifier, TxnTimestamp /*timestamp*/,
    std::shared_ptr<const Snapshot>* snapshot) {
  if (snapshot != nullptr) snapshot->reset();
  Status status = Commit();
  if (!status.ok()) return status;
  SetSnapshot();
  if (notifier != nullptr) notifier->SnapshotCreated(snapshot_);
  if (snapshot != nullptr) {
    DBImpl* const engine = context_.engine;
    snapshot->reset(engine->GetSnapshot(), [engine](const Snapshot* taken) {
      engine->ReleaseSnapshot(taken);
    });
  }
  return status;
}

// ---- Save points ------------------------------------------------------------

void TransactionBase::SetSavePoint() {
  if (save_points_ == nullptr) save_points_ = std::make_unique<SavePoints>();
  save_points_->points.push_back({.snapshot = snapshot_,
                                  .notifier = notifier_,
                                  .snapshot_needed = snapshot_needed_,
                                  .counts = counts_,
                                  .uses = save_points_->uses.size(),
                                  .mark = TrackMark()});
  batch_.SetSavePoint();
}

// The batch has as many save points.
void TransactionBase::RemoveLastSavePoint() {
  const Snapshot* const snapshot = save_points_->points.back().snapshot;
  save_points_->points.pop_back();
  ReleaseUnused(snapshot);
}

Status TransactionBase::RollbackToSavePoint() {
  if (!HasSavePoint()) return Status::NotFound();
  Status status = CheckStarted();
  if (status.ok()) status = batch_.RollbackToSavePoint();
  if (!status.ok()) return status;
  SavePoint& point = save_points_->points.back();
  std::vector<uint32_t*>& uses = save_points_->uses;
  while (uses.size() > point.uses) {
    if (uses.back() != nullptr) --*uses.back();
    uses.pop_back();
  }
  UntrackSince(point.mark);
  counts_ = point.counts;
  snapshot_needed_ = point.snapshot_needed;
  notifier_ = std::move(point.notifier);
  if (snapshot_ != point.snapshot) ReplaceSnapshot(point.snapshot);
  RemoveLastSavePoint();
  return status;
}

Status TransactionBase::PopSavePoint() {
  if (!HasSavePoint()) return Status::NotFound();
  Status status = batch_.PopSavePoint();
  if (!status.ok()) return status;
  RemoveLastSavePoint();
  if (!HasSavePoint()) save_points_->uses.clear();
  return status;
}

bool TransactionBase::TakeUseBack(uint32_t* counter) {
  if (*counter == 0) return false;
  if (HasSavePoint()) {
    std::vector<uint32_t*>& uses = save_points_->uses;
    const auto begin = uses.begin() + static_cast<std::ptrdiff_t>(
                                          save_points_->points.back().uses);
    const auto use = std::find(begin, uses.end(), counter);
    if (use == uses.end()) return false;
    *use = nullptr;
  }
  --*counter;
  return true;
}

// ---- Reads ------------------------------------------------------------------

Status TransactionBase::Get(const ReadOptions& options,
                            ColumnFamilyHandle* family, const Slice& key,
                            std::string* value) {
  return batch_.GetFromBatchAndDB(context_.db, options, HandleOf(family), key,
                                  value);
}

Status TransactionBase::Get(const ReadOptions& options,
                            ColumnFamilyHandle* family, const Slice& key,
                            PinnableSlice* value) {
  return batch_.GetFromBatchAndDB(context_.db, options, HandleOf(family), key,
                                  value);
}

void TransactionBase::MultiGet(const ReadOptions& options,
                               ColumnFamilyHandle* family, size_t count,
                               const Slice* keys, PinnableSlice* values,
                               Status* statuses, bool sorted_input) {
  batch_.MultiGetFromBatchAndDB(context_.db, options, HandleOf(family), count,
                                keys, values, statuses, sorted_input);
}

std::unique_ptr<Iterator> TransactionBase::GetIterator(
    const ReadOptions& options, ColumnFamilyHandle* family) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  ReadOptions base = options;
  // The transaction's own keys would be shown where the base has ended.
  if (!options.prefix_same_as_start && !options.auto_prefix_mode) {
    base.total_order_seek = true;
  }
  return batch_.NewMerged(handle, context_.db->NewIterator(base, handle),
                          &options, true);
}

template <typename Value>
Status TransactionBase::ReadForUpdate(const ReadOptions& options,
                                      ColumnFamilyHandle* family,
                                      const Slice& key, Value* value,
                                      const Use& use) {
  Status status = CheckStarted();
  if (status.ok() && !use.validate && options.snapshot != nullptr) {
    status = Status::InvalidArgument(
        "GetForUpdate without validation reads the present state, and has a "
        "snapshot");
  }
  if (status.ok()) status = Track(HandleOf(family), key, use);
  if (value == nullptr) return status;
  if (status.ok()) return Get(options, family, key, value);
  ReadTarget(value).Clear();
  return status;
}

Status TransactionBase::GetForUpdate(const ReadOptions& options,
                                     ColumnFamilyHandle* family,
                                     const Slice& key, std::string* value,
                                     bool exclusive, bool validate) {
  return ReadForUpdate(
      options, family, key, value,
      {.is_write = false, .exclusive = exclusive, .validate = validate});
}

Status TransactionBase::GetForUpdate(const ReadOptions& options,
                                     ColumnFamilyHandle* family,
                                     const Slice& key, PinnableSlice* value,
                                     bool exclusive, bool validate) {
  return ReadForUpdate(
      options, family, key, value,
      {.is_write = false, .exclusive = exclusive, .validate = validate});
}

std::vector<Status> TransactionBase::MultiGetInto(
    const ReadOptions& options,
    const std::vector<ColumnFamilyHandle*>* families,
    const std::vector<Slice>& keys, std::vector<std::string>* values,
    bool for_update) {
  values->clear();
  values->resize(keys.size());
  if (families != nullptr && families->size() != keys.size()) {
    return {keys.size(),
            Status::InvalidArgument("families and keys differ in number")};
  }
  const auto family_of = [&](size_t i) {
    return families == nullptr ? nullptr : (*families)[i];
  };
  Status status = for_update ? CheckStarted() : Status::OK();
  for (size_t i = 0; for_update && status.ok() && i < keys.size(); ++i) {
    status = Track(HandleOf(family_of(i)), keys[i], {.is_write = false});
  }
  if (!status.ok()) return {keys.size(), status};
  // All keys are read from one state.
  ReadOptions mine = options;
  const Snapshot* taken = nullptr;
  if (mine.snapshot == nullptr && keys.size() > 1 && !ReadsAtOwnSnapshot()) {
    taken = context_.engine->GetSnapshot();
    mine.snapshot = taken;
  }
  std::vector<Status> statuses(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = Get(mine, family_of(i), keys[i], &(*values)[i]);
  }
  context_.engine->ReleaseSnapshot(taken);
  return statuses;
}

// ---- Updates ----------------------------------------------------------------

Status TransactionBase::AddPut(ColumnFamilyHandle* family, const Slice& key,
                               const Slice& value, const Use& use) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  Status status = CheckStarted();
  if (status.ok()) status = Track(handle, key, use);
  if (status.ok()) status = batch_.Put(handle, key, value);
  if (status.ok()) ++counts_.puts;
  return status;
}

Status TransactionBase::AddMerge(ColumnFamilyHandle* family, const Slice& key,
                                 const Slice& operand, const Use& use) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  Status status = CheckStarted();
  if (status.ok()) status = Track(handle, key, use);
  if (status.ok()) status = batch_.Merge(handle, key, operand);
  if (status.ok()) ++counts_.merges;
  return status;
}

Status TransactionBase::AddDelete(ColumnFamilyHandle* family, const Slice& key,
                                  const Use& use) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  Status status = CheckStarted();
  if (status.ok()) status = Track(handle, key, use);
  if (status.ok()) status = batch_.Delete(handle, key);
  if (status.ok()) ++counts_.deletes;
  return status;
}

Status TransactionBase::AddSingleDelete(ColumnFamilyHandle* family,
                                        const Slice& key, const Use& use) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  Status status = CheckStarted();
  if (status.ok()) status = Track(handle, key, use);
  if (status.ok()) status = batch_.SingleDelete(handle, key);
  if (status.ok()) ++counts_.deletes;
  return status;
}

Status TransactionBase::Put(ColumnFamilyHandle* family, const Slice& key,
                            const Slice& value, bool assume_tracked) {
  return AddPut(family, key, value, {.assume_tracked = assume_tracked});
}
Status TransactionBase::Merge(ColumnFamilyHandle* family, const Slice& key,
                              const Slice& operand, bool assume_tracked) {
  return AddMerge(family, key, operand, {.assume_tracked = assume_tracked});
}
Status TransactionBase::Delete(ColumnFamilyHandle* family, const Slice& key,
                               bool assume_tracked) {
  return AddDelete(family, key, {.assume_tracked = assume_tracked});
}
Status TransactionBase::SingleDelete(ColumnFamilyHandle* family,
                                     const Slice& key, bool assume_tracked) {
  return AddSingleDelete(family, key, {.assume_tracked = assume_tracked});
}
Status TransactionBase::PutUntracked(ColumnFamilyHandle* family,
                                     const Slice& key, const Slice& value) {
  return AddPut(family, key, value, {.validate = false});
}
Status TransactionBase::MergeUntracked(ColumnFamilyHandle* family,
                                       const Slice& key, const Slice& operand) {
  return AddMerge(family, key, operand, {.validate = false});
}
Status TransactionBase::DeleteUntracked(ColumnFamilyHandle* family,
                                        const Slice& key) {
  return AddDelete(family, key, {.validate = false});
}
Status TransactionBase::SingleDeleteUntracked(ColumnFamilyHandle* family,
                                              const Slice& key) {
  return AddSingleDelete(family, key, {.validate = false});
}

Status TransactionBase::DeleteRange(ColumnFamilyHandle* family,
                                    const Slice& begin, const Slice& end) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  Status status = CheckStarted();
  if (status.ok()) status = TrackRange(handle, begin, end);
  if (status.ok()) status = batch_.DeleteRange(handle, begin, end);
  return status;
}

void TransactionBase::PutLogData(const Slice& blob) {
  // RocksDB's call has no result. The blob may be longer than a log record, or
  // the batch, can be; then Commit does not have it, as there.
  if (GetState() == STARTED) batch_.PutLogData(blob).IgnoreError();
}

Status TransactionBase::RebuildFromWriteBatch(WriteBatch* batch) {
  return ReplayBatch(*batch, context_.engine, /*skips_dropped=*/false, this);
}

WriteBatch* TransactionBase::GetCommitTimeWriteBatch() {
  if (commit_time_batch_ == nullptr) {
    commit_time_batch_ = std::make_unique<WriteBatch>();
  }
  return commit_time_batch_.get();
}

WriteBatch* TransactionBase::UpdatesToCommit(WriteBatch* all) {
  WriteBatch* const updates = batch_.GetWriteBatch();
  if (!HasCommitTimeUpdates()) return updates;
  *all = *updates;
  all->Append(*commit_time_batch_);
  return all;
}

}  // namespace varve
