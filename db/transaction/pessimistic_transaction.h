// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/transaction/locks/lock_owner.h"
#include "db/transaction/transaction_base.h"
#include "db/transaction/transaction_db_impl.h"
#include "varve/transaction_db.h"

namespace varve {

// A transaction that holds the locks of its keys until it ends.
class PessimisticTransaction final : public TransactionBase {
 public:
  PessimisticTransaction(TransactionDbImpl* db,
                         const WriteOptions& write_options,
                         const TransactionOptions& options);
  ~PessimisticTransaction() override;
  // Makes it another transaction. Keeps the memory. REQUIRES: it is not
  // prepared.
  void Reuse(const WriteOptions& write_options,
             const TransactionOptions& options);
  // Makes it the prepared transaction that recovery has found. REQUIRES: it is
  // new.
  Status Recover(const TransactionName& name, const WriteBatch& updates);

  Status Prepare() override;
  Status Commit() override;
  Status Rollback() override;
  void UndoGetForUpdate(ColumnFamilyHandle* family, const Slice& key) override;

  uint64_t GetNumKeys() const override { return owner_.lock_count(); }
  void SetLockTimeout(int64_t timeout) override;
  Status SetName(const TransactionName& name) override;
  TransactionName GetName() const override;
  TransactionID GetID() const override { return owner_.id(); }
  bool IsDeadlockDetect() const override { return detects_deadlock_; }
  std::vector<TransactionID> GetWaitingTxns(uint32_t* family_id,
                                            std::string* key) const override;

 private:
  Status Track(ColumnFamilyHandle* family, const Slice& key,
               const Use& use) override;
  Status TrackRange(ColumnFamilyHandle* family, const Slice& begin,
                    const Slice& end) override;
  uint32_t TrackMark() const override { return owner_.Mark(); }
  void UntrackSince(uint32_t mark) override;

  void Begin(const TransactionOptions& options);
  // Returns the error of a call whose lock was not granted.
  [[gnu::cold]] Status LockFailed(Status status);
  // From now on no lock is stolen. Returns Expired if one was, or if it is too
  // late.
  Status HoldLocks();
  // Removes the updates and releases the locks. `state` is the next one.
  void End(TransactionState state);

  TransactionDbImpl& db_;
  LockOwner owner_;
  int64_t timeout_us_ = 0;
  uint32_t detect_depth_ = 0;
  bool detects_deadlock_ = false;
  bool skips_locks_ = false;
  bool skip_prepare_ = false;
  // Recover runs. The transaction was prepared, so it takes all locks that it
  // can get, and does without the others: the program that prepared it may have
  // skipped concurrency control.
  bool recovers_ = false;
  std::unique_ptr<TransactionName> name_;  // Null without a name.
};

}  // namespace varve
