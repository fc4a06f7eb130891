// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "varve/db.h"
#include "varve/export.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"
#include "varve/write_batch_with_index.h"

namespace varve {

// The name of a transaction, for two-phase commit.
using TransactionName = std::string;
using TransactionID = uint64_t;
// Varve has no user-defined timestamps. RocksDB's type, for signatures.
using TxnTimestamp = uint64_t;
inline constexpr TxnTimestamp kMaxTxnTimestamp =
    std::numeric_limits<TxnTimestamp>::max();

// Is told when a transaction has taken a snapshot at its own choice of time.
class VARVE_EXPORT TransactionNotifier {
 public:
  virtual ~TransactionNotifier() = default;
  // Called by the thread that uses the transaction. It may read at the
  // snapshot, which is valid until the transaction replaces it or ends.
  virtual void SnapshotCreated(const Snapshot* snapshot) = 0;
};

// Updates that are applied atomically by Commit, if no other writer has
// interfered. The transaction reads its own updates; nobody else sees them
// before the commit. Created by OptimisticTransactionDB::BeginTransaction,
// which finds conflicts in Commit, or by TransactionDB::BeginTransaction, which
// locks keys. docs/transactions.md compares them.
//
//   std::unique_ptr<Transaction> transaction(db->BeginTransaction({}));
//   Status status = transaction->GetForUpdate({}, "account", &value);
//   if (status.ok()) status = transaction->Put("account", Changed(value));
//   if (status.ok()) status = transaction->Commit();
//
// Calls without `family` use the default column family, as do calls with a null
// `family`. Commit in a TransactionDB, and Rollback of a prepared transaction,
// end the transaction. Then it can only be read, destroyed, or passed to
// BeginTransaction to be used again; other calls return InvalidArgument. After
// any other Commit or Rollback it has no updates, locks or checks, and can be
// used again as it is. It keeps its settings and its snapshot.
//
// Thread-safety: owned by one thread at a time, with its iterators. GetID,
// GetState and GetWaitingTxns may be called by any thread.
// Lifetime: destroy transactions before their DB. Destroying one that is not
// prepared rolls it back. Destroying a prepared one leaves it prepared: see
// TransactionDB::GetTransactionByName.
class VARVE_EXPORT Transaction {
 public:
  // Where a transaction is in its life.
  enum TransactionState {
    STARTED = 0,
    AWAITING_PREPARE = 1,
    PREPARED = 2,
    AWAITING_COMMIT = 3,
    COMMITTED = 4,
    AWAITING_ROLLBACK = 5,
    ROLLEDBACK = 6,
    LOCKS_STOLEN = 7,  // It has expired, and another transaction took a lock.
  };

  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  virtual ~Transaction() = default;

  // ---- Snapshots ----

  // Takes a snapshot of the present state of the database. From then on, keys
  // that are written, or read by GetForUpdate, must not have been changed after
  // the snapshot. Without a snapshot, a key must not be changed between its
  // first such call and the commit. Other reads do not use the snapshot by
  // themselves: pass GetSnapshot() in ReadOptions::snapshot.
  virtual void SetSnapshot() = 0;
  // Takes the snapshot in the next call that writes or is GetForUpdate, and
  // after a lock that this call needs has been granted. Then calls `notifier`,
  // which may be null.
  virtual void SetSnapshotOnNextOperation(
      std::shared_ptr<TransactionNotifier> notifier = nullptr) = 0;
  // Returns the snapshot, or null if there is none. It belongs to the
  // transaction, and is valid until the snapshot is replaced or cleared, or the
  // transaction is destroyed or used again.
  virtual const Snapshot* GetSnapshot() const = 0;
  // Releases the snapshot. Keys that were used before are still checked against
  // the time at which they were.
  virtual void ClearSnapshot() = 0;

  // ---- The end of a transaction ----

  // The first phase of a two-phase commit: makes the updates durable in the
  // log, so that a later Commit succeeds even after a crash. The transaction
  // then accepts no further updates. Only for transactions of a TransactionDB.
  // Errors:
  // - InvalidArgument: it has no name, is prepared, or has ended.
  // - Expired: as Commit.
  // - NotSupported: an optimistic transaction.
  // - IOError and others: as DB::Write. It is not prepared then.
  virtual Status Prepare() = 0;
  // Applies the updates, by the options of GetWriteOptions(). Errors:
  // - Busy: an optimistic transaction has a conflict. Nothing is applied. The
  //   transaction can be rolled back, or used again.
  // - Expired: TransactionOptions::expiration has passed. Roll it back.
  // - InvalidArgument: it has ended; or skip_prepare is false, it has a name,
  //   and is not prepared.
  // - others: as DB::Write. The transaction is unchanged.
  virtual Status Commit() = 0;
  // Commits, and takes a snapshot that includes the updates, and maybe later
  // ones of other writers. Calls `notifier`, if not null, with it. Stores it in
  // *snapshot, if that is not null; the snapshot must be released before the DB
  // is destroyed. `timestamp` has no effect. Errors: as Commit.
  virtual Status CommitAndTryCreateSnapshot(
      std::shared_ptr<TransactionNotifier> notifier = nullptr,
      TxnTimestamp timestamp = kMaxTxnTimestamp,
      std::shared_ptr<const Snapshot>* snapshot = nullptr) = 0;
  // Discards the updates. For a prepared transaction, this is written to the
  // log. Errors: InvalidArgument if it has ended; as DB::Write if it is
  // prepared, and it stays so.
  virtual Status Rollback() = 0;

  // ---- Save points ----

  // RollbackToSavePoint undoes updates, locks and checks of keys since the last
  // SetSavePoint, and removes the save point. PopSavePoint removes it only.
  // Both return NotFound without a save point.
  virtual void SetSavePoint() = 0;
  virtual Status RollbackToSavePoint() = 0;
  virtual Status PopSavePoint() = 0;

  // ---- Reads ----

  // Read as DB::Get and DB::MultiGet, with the transaction's updates in
  // addition. Without ReadOptions::snapshot they read the present state of the
  // DB; at TransactionIsolation::kSerializable, the state in which the
  // transaction began. Except there, these reads are not protected from other
  // writers: see GetForUpdate.
  virtual Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
                     const Slice& key, std::string* value) = 0;
  virtual Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
                     const Slice& key, PinnableSlice* value) = 0;
  Status Get(const ReadOptions& options, const Slice& key, std::string* value) {
    return Get(options, nullptr, key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) {
    return Get(options, nullptr, key, value);
  }
  virtual void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                        size_t count, const Slice* keys, PinnableSlice* values,
                        Status* statuses, bool sorted_input = false) = 0;
  // Reads keys[i] from families[i]. If the two differ in size, each status is
  // InvalidArgument.
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<ColumnFamilyHandle*>& families,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);

  // Reads a key that must not be changed by others until the commit. In a
  // TransactionDB the key is locked: `exclusive`, or shared with other readers.
  // An optimistic transaction checks in Commit that it has not changed, whether
  // it exists or not. `value` may be null. With `validate`, the key must not
  // have been changed after the transaction's snapshot, if there is one.
  // Errors:
  // - NotFound: the key does not exist. It is locked or checked all the same.
  // - Busy: the key was changed after the snapshot; or a deadlock
  //   (IsDeadlock()); or too many keys are locked (IsLockLimit()).
  // - TimedOut (IsLockTimeout()): another transaction holds the lock.
  // - Expired: another transaction has stolen a lock.
  // - InvalidArgument: ReadOptions::snapshot is set and `validate` is false; or
  //   the transaction is prepared or has ended.
  // - others: as DB::Get.
  virtual Status GetForUpdate(const ReadOptions& options,
                              ColumnFamilyHandle* family, const Slice& key,
                              std::string* value, bool exclusive = true,
                              bool validate = true) = 0;
  virtual Status GetForUpdate(const ReadOptions& options,
                              ColumnFamilyHandle* family, const Slice& key,
                              PinnableSlice* value, bool exclusive = true,
                              bool validate = true) = 0;
  Status GetForUpdate(const ReadOptions& options, const Slice& key,
                      std::string* value, bool exclusive = true,
                      bool validate = true) {
    return GetForUpdate(options, nullptr, key, value, exclusive, validate);
  }
  Status GetForUpdate(const ReadOptions& options, const Slice& key,
                      PinnableSlice* value, bool exclusive = true,
                      bool validate = true) {
    return GetForUpdate(options, nullptr, key, value, exclusive, validate);
  }
  // Calls GetForUpdate for each key, after all have been locked. If one cannot
  // be locked, all statuses have this error.
  std::vector<Status> MultiGetForUpdate(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      const std::vector<Slice>& keys, std::vector<std::string>* values);
  std::vector<Status> MultiGetForUpdate(const ReadOptions& options,
                                        const std::vector<Slice>& keys,
                                        std::vector<std::string>* values);
  // Takes one call of GetForUpdate back: if the key is not needed by other
  // calls or updates, it is unlocked, or not checked. Has no effect on calls
  // before the last save point.
  virtual void UndoGetForUpdate(ColumnFamilyHandle* family,
                                const Slice& key) = 0;
  void UndoGetForUpdate(const Slice& key) { UndoGetForUpdate(nullptr, key); }

  // Returns an iterator over the DB and the transaction's updates, never null;
  // see WriteBatchWithIndex::NewIteratorWithBase. But when it has passed the
  // last update in its direction, it sees none that is added later until it
  // seeks or turns. So a loop that adds a key beyond each one ends, as with
  // RocksDB. It must be destroyed before the transaction ends. Snapshots are
  // used as by Get.
  virtual std::unique_ptr<Iterator> GetIterator(const ReadOptions& options,
                                                ColumnFamilyHandle* family) = 0;
  std::unique_ptr<Iterator> GetIterator(const ReadOptions& options) {
    return GetIterator(options, nullptr);
  }

  // ---- Updates ----

  // Add an update, as the methods of WriteBatch do. An optimistic transaction
  // checks the key in Commit. In a TransactionDB the key is locked first.
  //
  // With `assume_tracked`, the key was used by GetForUpdate or an update
  // before, and nothing more is done for it than that. Errors: as GetForUpdate,
  // except NotFound, and
  // - InvalidArgument: as WriteBatchWithIndex::Put; `assume_tracked` is true
  //   and the key is not tracked.
  // - Aborted: the updates would exceed TransactionOptions::
  //   max_write_batch_size, or 4 GiB.
  virtual Status Put(ColumnFamilyHandle* family, const Slice& key,
                     const Slice& value, bool assume_tracked = false) = 0;
  virtual Status Merge(ColumnFamilyHandle* family, const Slice& key,
                       const Slice& operand, bool assume_tracked = false) = 0;
  virtual Status Delete(ColumnFamilyHandle* family, const Slice& key,
                        bool assume_tracked = false) = 0;
  virtual Status SingleDelete(ColumnFamilyHandle* family, const Slice& key,
                              bool assume_tracked = false) = 0;
  Status Put(const Slice& key, const Slice& value) {
    return Put(nullptr, key, value);
  }
  Status Merge(const Slice& key, const Slice& operand) {
    return Merge(nullptr, key, operand);
  }
  Status Delete(const Slice& key) { return Delete(nullptr, key); }
  Status SingleDelete(const Slice& key) { return SingleDelete(nullptr, key); }
  // Deletes all keys from `begin`, inclusive, to `end`, exclusive. Commit
  // checks that nobody else has changed a key in the range. Returns
  // NotSupported in a TransactionDB, which has no locks of ranges, unless
  // skip_concurrency_control is set.
  virtual Status DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                             const Slice& end) = 0;
  Status DeleteRange(const Slice& begin, const Slice& end) {
    return DeleteRange(nullptr, begin, end);
  }

  // As the calls above, but nothing is checked: other writers may have changed
  // the key. In a TransactionDB the key is locked all the same, so that others
  // see no conflict either.
  virtual Status PutUntracked(ColumnFamilyHandle* family, const Slice& key,
                              const Slice& value) = 0;
  virtual Status MergeUntracked(ColumnFamilyHandle* family, const Slice& key,
                                const Slice& operand) = 0;
  virtual Status DeleteUntracked(ColumnFamilyHandle* family,
                                 const Slice& key) = 0;
  virtual Status SingleDeleteUntracked(ColumnFamilyHandle* family,
                                       const Slice& key) = 0;
  Status PutUntracked(const Slice& key, const Slice& value) {
    return PutUntracked(nullptr, key, value);
  }
  Status MergeUntracked(const Slice& key, const Slice& operand) {
    return MergeUntracked(nullptr, key, operand);
  }
  Status DeleteUntracked(const Slice& key) {
    return DeleteUntracked(nullptr, key);
  }
  Status SingleDeleteUntracked(const Slice& key) {
    return SingleDeleteUntracked(nullptr, key);
  }
  // See WriteBatch::PutLogData.
  virtual void PutLogData(const Slice& blob) = 0;
  // In RocksDB, these save the index of later updates, which reads of the
  // transaction then do not see. Varve indexes all updates, and these calls do
  // nothing.
  void DisableIndexing() {}
  void EnableIndexing() {}

  // Replays the updates of a batch, as the calls above. Used to restore a
  // transaction. Stops at the first error.
  virtual Status RebuildFromWriteBatch(WriteBatch* batch) = 0;
  // Returns a batch whose updates Commit applies, too, without locks or checks:
  // after the others, or before them if the transaction is prepared, as RocksDB
  // does. Reads of the transaction do not see them. Valid until the end.
  virtual WriteBatch* GetCommitTimeWriteBatch() = 0;
  // Returns the updates. Do not change them. Valid until the end.
  virtual WriteBatchWithIndex* GetWriteBatch() = 0;

  // ---- Facts and settings ----

  // Returns the number of keys that are locked, or checked in Commit.
  virtual uint64_t GetNumKeys() const = 0;
  // Return how many updates of a kind were added. Deletes include single
  // deletions, but no range deletions.
  virtual uint64_t GetNumPuts() const = 0;
  virtual uint64_t GetNumDeletes() const = 0;
  virtual uint64_t GetNumMerges() const = 0;
  // Returns the time since BeginTransaction in milliseconds.
  virtual uint64_t GetElapsedTime() const = 0;
  // Sets TransactionOptions::lock_timeout, in milliseconds. Has no effect on
  // optimistic transactions.
  virtual void SetLockTimeout(int64_t timeout) = 0;
  // The options with which Commit, Prepare and Rollback write.
  virtual WriteOptions* GetWriteOptions() = 0;
  virtual void SetWriteOptions(const WriteOptions& options) = 0;

  // Names the transaction, for Prepare. A name has 1 to 512 bytes. Errors:
  // InvalidArgument if it has a name, or another transaction of the DB has this
  // one, or the length is out of bounds, or the transaction has ended.
  virtual Status SetName(const TransactionName& name) = 0;
  // Returns the name, or an empty one.
  virtual TransactionName GetName() const = 0;
  // Returns a number that no other transaction of the TransactionDB has, since
  // it was opened. 0 for optimistic transactions.
  virtual TransactionID GetID() const = 0;
  virtual TransactionState GetState() const = 0;
  // Returns TransactionOptions::deadlock_detect.
  virtual bool IsDeadlockDetect() const = 0;
  // Returns the ids of the transactions that this one waits for, and stores the
  // key and its family; either pointer may be null. Empty if it does not wait.
  virtual std::vector<TransactionID> GetWaitingTxns(uint32_t* family_id,
                                                    std::string* key) const = 0;

 protected:
  Transaction() = default;

 private:
  // Reads keys[i] from families[i], or from the default family if `families` is
  // null, after it has locked or tracked them if `for_update`.
  virtual std::vector<Status> MultiGetInto(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>* families,
      const std::vector<Slice>& keys, std::vector<std::string>* values,
      bool for_update) = 0;
};

inline std::vector<Status> Transaction::MultiGet(
    const ReadOptions& options,
    const std::vector<ColumnFamilyHandle*>& families,
    const std::vector<Slice>& keys, std::vector<std::string>* values) {
  return MultiGetInto(options, &families, keys, values, false);
}
inline std::vector<Status> Transaction::MultiGet(
    const ReadOptions& options, const std::vector<Slice>& keys,
    std::vector<std::string>* values) {
  return MultiGetInto(options, nullptr, keys, values, false);
}
inline std::vector<Status> Transaction::MultiGetForUpdate(
    const ReadOptions& options,
    const std::vector<ColumnFamilyHandle*>& families,
    const std::vector<Slice>& keys, std::vector<std::string>* values) {
  return MultiGetInto(options, &families, keys, values, true);
}
inline std::vector<Status> Transaction::MultiGetForUpdate(
    const ReadOptions& options, const std::vector<Slice>& keys,
    std::vector<std::string>* values) {
  return MultiGetInto(options, nullptr, keys, values, true);
}

}  // namespace varve
