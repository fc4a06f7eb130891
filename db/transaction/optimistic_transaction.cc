// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/optimistic_transaction.h"

#include <algorithm>
#include <utility>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "table/reader/read_target.h"

namespace varve {

OptimisticTransaction::OptimisticTransaction(
    const TransactionContext& context, const WriteOptions& write_options,
    const OptimisticTransactionOptions& options)
    : TransactionBase(context, write_options, 0) {
  Begin(options);
}

void OptimisticTransaction::Begin(const OptimisticTransactionOptions& options) {
  if (options.isolation != TransactionIsolation::kSerializable) {
    reads_.reset();
  } else if (reads_ == nullptr) {
    reads_ = std::make_unique<RecordedReads>();
  }
  if (options.set_snapshot) SetSnapshot();
}

void OptimisticTransaction::Reuse(const WriteOptions& write_options,
                                  const OptimisticTransactionOptions& options) {
  Forget();
  Restart(write_options, 0);
  Begin(options);
}

void OptimisticTransaction::Forget() {
  keys_.Clear();
  if (!deleted_ranges_.empty()) deleted_ranges_.clear();
  if (reads_ != nullptr) reads_->Clear();
  reads_differ_ = false;
  Clear();
}

// ---- Tracking ---------------------------------------------------------------

SequenceNumber OptimisticTransaction::Now() {
  if (const Snapshot* const snapshot = GetSnapshot()) {
    PinOldest();
    return snapshot->GetSequenceNumber();
  }
  if (pin() == nullptr) {
    PinPresent();
    return pin()->GetSequenceNumber();
  }
  return context().engine->GetLatestSequenceNumber();
}

Status OptimisticTransaction::Track(ColumnFamilyHandle* family,
                                    const Slice& key, const Use& use) {
  TakeSnapshotIfNeeded();
  if (!use.validate) return Status::OK();
  if (IsSerializable() && GetSnapshot() == nullptr) SetSnapshot();
  BatchIndex::StoredKey stored;
  Status status = stored.Set(key, FamilyHandle::FoldingOf(*family));
  if (!status.ok()) [[unlikely]]
    return status;
  TrackedKey* tracked = nullptr;
  if (use.assume_tracked) [[unlikely]] {
    tracked = keys_.Find(family->GetID(), stored.slice());
    if (tracked == nullptr || !tracked->IsNeeded()) {
      return Status::InvalidArgument(
          "assume_tracked is set, and the transaction has not used the key");
    }
  } else {
    tracked = keys_.FindOrAdd(family->GetID(), stored.slice());
    if (!tracked->IsNeeded()) tracked->since = Now();
  }
  AddUse(use.is_write ? &tracked->writes : &tracked->reads);
  return status;
}

Status OptimisticTransaction::TrackRange(ColumnFamilyHandle* family,
                                         const Slice& begin, const Slice& end) {
  TakeSnapshotIfNeeded();
  if (IsSerializable() && GetSnapshot() == nullptr) SetSnapshot();
  const KeyFolding folding = FamilyHandle::FoldingOf(*family);
  BatchIndex::StoredKey first;
  BatchIndex::StoredKey last;
  Status status = first.Set(begin, folding);
  if (status.ok()) status = last.Set(end, folding);
  if (!status.ok()) return status;
  const int order =
      family->GetComparator()->Compare(first.slice(), last.slice());
  if (order > 0) {
    return Status::InvalidArgument("range deletion",
                                   "its end comes before its begin");
  }
  if (order == 0) return status;
  deleted_ranges_.push_back({.family = family->GetID(),
                             .begin = first.slice().ToString(),
                             .end = last.slice().ToString(),
                             .end_is_inclusive = false,
                             .since = Now()});
  return status;
}

uint32_t OptimisticTransaction::TrackMark() const {
  return static_cast<uint32_t>(deleted_ranges_.size());
}

void OptimisticTransaction::UntrackSince(uint32_t mark) {
  deleted_ranges_.resize(std::min<size_t>(mark, deleted_ranges_.size()));
}

void OptimisticTransaction::UndoGetForUpdate(ColumnFamilyHandle* family,
                                             const Slice& key) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  BatchIndex::StoredKey stored;
  if (!stored.Set(key, FamilyHandle::FoldingOf(*handle)).ok()) return;
  TrackedKey* const tracked = keys_.Find(handle->GetID(), stored.slice());
  if (tracked != nullptr) TakeUseBack(&tracked->reads);
}

uint64_t OptimisticTransaction::GetNumKeys() const {
  uint64_t count = 0;
  for (const TrackedKey* key = keys_.first(); key != nullptr; key = key->next) {
    if (key->IsNeeded()) ++count;
  }
  return count;
}

// ---- Reads of serializable transactions -------------------------------------

Status OptimisticTransaction::BeginRead(const ReadOptions& options,
                                        ReadOptions* mine) {
  if (GetSnapshot() == nullptr) SetSnapshot();
  PinOldest();
  *mine = options;
  if (mine->snapshot == nullptr) mine->snapshot = GetSnapshot();
  const SequenceNumber at = mine->snapshot->GetSequenceNumber();
  const SequenceNumber own = GetSnapshot()->GetSequenceNumber();
  const SequenceNumber oldest =
      pin() == nullptr ? own : pin()->GetSequenceNumber();
  if (at < oldest) {
    return Status::InvalidArgument(
        "the read's snapshot is older than the serializable transaction");
  }
  if (at != oldest) reads_differ_ = true;
  return Status::OK();
}

Status OptimisticTransaction::NoteRead(const ReadOptions& options,
                                       ColumnFamilyHandle* family,
                                       const Slice& key) {
  BatchIndex::StoredKey stored;
  Status status = stored.Set(key, FamilyHandle::FoldingOf(*family));
  if (!status.ok()) return status;
  TrackedKey* const tracked = keys_.FindOrAdd(family->GetID(), stored.slice());
  const SequenceNumber at = options.snapshot->GetSequenceNumber();
  tracked->since = tracked->IsNeeded() ? std::min(tracked->since, at) : at;
  tracked->is_known = true;
  return status;
}

template <typename Value>
Status OptimisticTransaction::CheckedGet(const ReadOptions& options,
                                         ColumnFamilyHandle* family,
                                         const Slice& key, Value* value) {
  ReadOptions mine;
  Status status = BeginRead(options, &mine);
  if (status.ok()) status = NoteRead(mine, HandleOf(family), key);
  if (status.ok()) return TransactionBase::Get(mine, family, key, value);
  ReadTarget(value).Clear();
  return status;
}

Status OptimisticTransaction::Get(const ReadOptions& options,
                                  ColumnFamilyHandle* family, const Slice& key,
                                  std::string* value) {
  return IsSerializable() ? CheckedGet(options, family, key, value)
                          : TransactionBase::Get(options, family, key, value);
}

Status OptimisticTransaction::Get(const ReadOptions& options,
                                  ColumnFamilyHandle* family, const Slice& key,
                                  PinnableSlice* value) {
  return IsSerializable() ? CheckedGet(options, family, key, value)
                          : TransactionBase::Get(options, family, key, value);
}

void OptimisticTransaction::MultiGet(const ReadOptions& options,
                                     ColumnFamilyHandle* family, size_t count,
                                     const Slice* keys, PinnableSlice* values,
                                     Status* statuses, bool sorted_input) {
  ReadOptions mine = options;
  Status status;
  if (IsSerializable()) status = BeginRead(options, &mine);
  for (size_t i = 0; IsSerializable() && status.ok() && i < count; ++i) {
    status = NoteRead(mine, HandleOf(family), keys[i]);
  }
  if (status.ok()) {
    TransactionBase::MultiGet(mine, family, count, keys, values, statuses,
                              sorted_input);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    values[i].Reset();
    statuses[i] = status;
  }
}

std::unique_ptr<Iterator> OptimisticTransaction::GetIterator(
    const ReadOptions& options, ColumnFamilyHandle* family) {
  if (!IsSerializable()) return TransactionBase::GetIterator(options, family);
  ReadOptions mine;
  Status status = BeginRead(options, &mine);
  if (!status.ok()) return NewErrorIterator(std::move(status));
  return reads_->Record(TransactionBase::GetIterator(mine, family),
                        HandleOf(family), mine);
}

// ---- The end ----------------------------------------------------------------

Status OptimisticTransaction::Prepare() {
  return Status::NotSupported(
      "two-phase commit of an optimistic transaction; use a TransactionDB");
}

Status OptimisticTransaction::SetName(const TransactionName& /*name*/) {
  return Status::InvalidArgument("an optimistic transaction has no name");
}

void OptimisticTransaction::FillCheck() {
  check_.Clear();
  // Reads of one state alone are in order without a check.
  const bool checks_reads = HasUpdates() || reads_differ_;
  for (const TrackedKey* key = keys_.first(); key != nullptr; key = key->next) {
    if (key->reads != 0 || key->writes != 0 ||
        (key->is_known && checks_reads)) {
      check_.AddKey(key->family, key->key(), key->since);
    }
  }
  const auto add = [this](const std::vector<TrackedRange>& ranges) {
    for (const TrackedRange& range : ranges) {
      const Slice begin = range.begin.has_value() ? Slice(*range.begin) : "";
      const Slice end = range.end.has_value() ? Slice(*range.end) : "";
      check_.AddRange(range.family, range.begin.has_value() ? &begin : nullptr,
                      range.end.has_value() ? &end : nullptr,
                      range.end_is_inclusive, range.since);
    }
  };
  add(deleted_ranges_);
  if (IsSerializable() && checks_reads) add(reads_->Ranges());
}

Status OptimisticTransaction::Commit() {
  FillCheck();
  Status status;
  if (HasUpdates() || !check_.empty()) {
    WriteBatch all;
    status = context().engine->WriteChecked(*GetWriteOptions(),
                                            UpdatesToCommit(&all), check_);
  }
  if (status.ok()) {
    Tick(Ticker::kTransactionCommits);
    Forget();
  } else if (status.IsBusy()) {
    Tick(Ticker::kTransactionConflicts);
  }
  return status;
}

Status OptimisticTransaction::Rollback() {
  Tick(Ticker::kTransactionRollbacks);
  Forget();
  return Status::OK();
}

}  // namespace varve
