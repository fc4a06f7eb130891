// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/pessimistic_transaction.h"

#include <algorithm>
#include <utility>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "db/transaction/batch_replay.h"

namespace varve {

namespace {

constexpr size_t kMaxNameBytes = 512;

// Returns when the time of `expiration` milliseconds is over; 0 is never.
uint64_t ExpiryOf(uint64_t now_ns, int64_t expiration) {
  if (expiration < 0) return 0;
  const uint64_t ms = static_cast<uint64_t>(expiration);
  if (ms >= (kNever - now_ns) / 1000000) return kNever;
  return std::max<uint64_t>(1, now_ns + ms * 1000000);
}

Status ExpiredError() {
  return Status::Expired("the transaction's time is over");
}

}  // namespace

PessimisticTransaction::PessimisticTransaction(
    TransactionDbImpl* db, const WriteOptions& write_options,
    const TransactionOptions& options)
    : TransactionBase(db->context(), write_options,
                      options.max_write_batch_size),
      db_(*db) {
  Begin(options);
}

PessimisticTransaction::~PessimisticTransaction() {
  db_.locks()->UnlockAll(&owner_);
  if (name_ != nullptr) db_.Forget(this);
}

void PessimisticTransaction::Begin(const TransactionOptions& options) {
  const uint64_t now_ns =
      options.expiration < 0 ? 0 : context().env->NowNanos();
  owner_.Reset(db_.NewId(), ExpiryOf(now_ns, options.expiration));
  SetLockTimeout(options.lock_timeout);
  detect_depth_ = static_cast<uint32_t>(
      std::clamp<int64_t>(options.deadlock_detect_depth, 0, UINT32_MAX));
  detects_deadlock_ = options.deadlock_detect;
  skips_locks_ = options.skip_concurrency_control ||
                 db_.options().skip_concurrency_control;
  skip_prepare_ = options.skip_prepare;
  if (options.set_snapshot) SetSnapshot();
}

void PessimisticTransaction::Reuse(const WriteOptions& write_options,
                                   const TransactionOptions& options) {
  VARVE_DCHECK(GetState() != PREPARED);
  End(STARTED);
  if (name_ != nullptr) {
    db_.Forget(this);
    name_.reset();
  }
  Restart(write_options, options.max_write_batch_size);
  Begin(options);
}

void PessimisticTransaction::End(TransactionState state) {
  // Before the locks, whose counters the save points have.
  Clear();
  db_.locks()->UnlockAll(&owner_);
  SetState(state);
}

void PessimisticTransaction::SetLockTimeout(int64_t timeout) {
  timeout_us_ = LockTimeoutUs(
      timeout < 0 ? db_.options().transaction_lock_timeout : timeout);
}

std::vector<TransactionID> PessimisticTransaction::GetWaitingTxns(
    uint32_t* family_id, std::string* key) const {
  uint32_t waits_in = 0;
  std::string waits_for;
  std::vector<TransactionID> ids =
      db_.locks()->GetWaitingTxns(owner_, &waits_in, &waits_for);
  if (ids.empty()) return ids;
  if (family_id != nullptr) *family_id = waits_in;
  if (key != nullptr) *key = std::move(waits_for);
  return ids;
}

// ---- Locks ------------------------------------------------------------------

Status PessimisticTransaction::Track(ColumnFamilyHandle* family,
                                     const Slice& key, const Use& use) {
  if (skips_locks_) [[unlikely]] {
    TakeSnapshotIfNeeded();
    return Status::OK();
  }
  BatchIndex::StoredKey stored;
  Status status = stored.Set(key, FamilyHandle::FoldingOf(*family));
  if (!status.ok()) [[unlikely]]
    return status;
  LockHold* hold = nullptr;
  if (use.assume_tracked) {
    hold = db_.locks()->Find(owner_, family->GetID(), stored.slice());
    if (hold == nullptr) {
      return Status::InvalidArgument(
          "assume_tracked is set, and the transaction has not locked the key");
    }
  } else {
    const LockRequest request{
        .family = family->GetID(),
        .key = stored.slice(),
        .mode = use.exclusive ? LockMode::kExclusive : LockMode::kShared,
        .timeout_us = timeout_us_,
        .detects_deadlock = detects_deadlock_,
        .detect_depth = detect_depth_};
    status = db_.locks()->Lock(&owner_, request, &hold);
    if (!status.ok()) [[unlikely]]
      return LockFailed(std::move(status));
  }
  // The snapshot is taken when nobody else can change the key any more.
  TakeSnapshotIfNeeded();
  if (use.validate && !hold->is_validated) {
    if (const Snapshot* const snapshot = GetSnapshot()) {
      status = context().engine->CheckUnchanged(family, stored.slice(),
                                                snapshot->GetSequenceNumber());
      if (!status.ok()) [[unlikely]] {
        if (status.IsBusy()) Tick(Ticker::kTransactionConflicts);
        if (hold->reads == 0 && hold->writes == 0) {
          db_.locks()->Unlock(&owner_, hold);
        }
        return status;
      }
    }
    hold->is_validated = true;
  }
  AddUse(use.is_write ? &hold->writes : &hold->reads);
  return status;
}

Status PessimisticTransaction::LockFailed(Status status) {
  if (recovers_) return Status::OK();
  if (owner_.IsStolen()) SetState(LOCKS_STOLEN);
  if (status.IsLockTimeout()) Tick(Ticker::kLockTimeouts);
  if (status.IsDeadlock()) Tick(Ticker::kDeadlocks);
  return status;
}

Status PessimisticTransaction::TrackRange(ColumnFamilyHandle* /*family*/,
                                          const Slice& /*begin*/,
                                          const Slice& /*end*/) {
  if (skips_locks_ || recovers_) return Status::OK();
  return Status::NotSupported(
      "DeleteRange in a TransactionDB, which has no locks of ranges");
}

void PessimisticTransaction::UntrackSince(uint32_t mark) {
  db_.locks()->UnlockSince(&owner_, mark);
}

void PessimisticTransaction::UndoGetForUpdate(ColumnFamilyHandle* family,
                                              const Slice& key) {
  ColumnFamilyHandle* const handle = HandleOf(family);
  BatchIndex::StoredKey stored;
  if (!CheckStarted().ok() ||
      !stored.Set(key, FamilyHandle::FoldingOf(*handle)).ok()) {
    return;
  }
  LockHold* const hold =
      db_.locks()->Find(owner_, handle->GetID(), stored.slice());
  if (hold == nullptr || !TakeUseBack(&hold->reads)) return;
  if (hold->reads == 0 && hold->writes == 0) {
    db_.locks()->Unlock(&owner_, hold);
  }
}

// ---- The end ----------------------------------------------------------------

Status PessimisticTransaction::HoldLocks() {
  const uint64_t now_ns =
      owner_.expiry_ns() == 0 ? 0 : context().env->NowNanos();
  if (owner_.BeginCommit(now_ns)) [[likely]]
    return Status::OK();
  if (owner_.IsStolen()) SetState(LOCKS_STOLEN);
  return ExpiredError();
}

Status PessimisticTransaction::Commit() {
  Status status;
  if (GetState() == PREPARED) {
    status = context().engine->CommitPrepared(
        *GetWriteOptions(), *name_,
        HasCommitTimeUpdates() ? GetCommitTimeWriteBatch() : nullptr);
  } else {
    status = CheckStarted();
    if (status.ok() && name_ != nullptr && !skip_prepare_) {
      status = Status::InvalidArgument(
          "skip_prepare is false, and the transaction is not prepared");
    }
    if (status.ok()) status = HoldLocks();
    if (status.ok() && HasUpdates()) {
      WriteBatch all;
      status =
          context().engine->Write(*GetWriteOptions(), UpdatesToCommit(&all));
    }
  }
  if (!status.ok()) return status;
  Tick(Ticker::kTransactionCommits);
  End(COMMITTED);
  if (name_ != nullptr) db_.RemoveName(*name_, this);
  return status;
}

Status PessimisticTransaction::Rollback() {
  Status status;
  switch (GetState()) {
    case STARTED:
    case LOCKS_STOLEN:
      Tick(Ticker::kTransactionRollbacks);
      End(STARTED);
      owner_.Reset(owner_.id(), owner_.expiry_ns());
      return status;
    case PREPARED:
      status = context().engine->RollbackPrepared(*GetWriteOptions(), *name_);
      if (!status.ok()) return status;
      Tick(Ticker::kTransactionRollbacks);
      End(ROLLEDBACK);
      db_.RemoveName(*name_, this);
      return status;
    default:
      return CheckStarted();
  }
}

// ---- Two-phase commit -------------------------------------------------------

TransactionName PessimisticTransaction::GetName() const {
  return name_ == nullptr ? TransactionName() : *name_;
}

Status PessimisticTransaction::SetName(const TransactionName& name) {
  Status status = CheckStarted();
  if (!status.ok()) return status;
  if (name_ != nullptr) {
    return Status::InvalidArgument("the transaction has a name");
  }
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Status::InvalidArgument(
        "a transaction's name must have 1 to 512 bytes");
  }
  if (!db_.AddName(name, this)) {
    return Status::InvalidArgument("another transaction has the name");
  }
  name_ = std::make_unique<TransactionName>(name);
  return status;
}

Status PessimisticTransaction::Prepare() {
  Status status = CheckStarted();
  if (!status.ok()) return status;
  if (name_ == nullptr) {
    return Status::InvalidArgument("the transaction has no name");
  }
  status = HoldLocks();
  if (status.ok()) {
    status = context().engine->WritePrepared(*GetWriteOptions(), *name_,
                                             GetWriteBatch()->GetWriteBatch());
  }
  if (status.ok()) SetState(PREPARED);
  return status;
}

Status PessimisticTransaction::Recover(const TransactionName& name,
                                       const WriteBatch& updates) {
  recovers_ = true;
  timeout_us_ = 0;
  name_ = std::make_unique<TransactionName>(name);
  db_.AddName(name, this);
  // The engine has the updates of families that were dropped, and ignores them.
  Status status = ReplayBatch(updates, context().engine,
                              /*skips_dropped=*/true, this);
  if (status.ok()) status = HoldLocks();
  if (status.ok()) SetState(PREPARED);
  recovers_ = false;
  return status;
}

}  // namespace varve
