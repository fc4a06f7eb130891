// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/transaction/recorded_reads.h"
#include "db/transaction/tracked_keys.h"
#include "db/transaction/transaction_base.h"
#include "db/transaction/validation/commit_check.h"
#include "varve/optimistic_transaction_db.h"

namespace varve {

// A transaction that finds conflicts in Commit. Until then it takes no lock. It
// remembers the keys, each with the sequence number after which nobody else may
// have changed it. From the first such key on it holds a snapshot at the oldest
// of these numbers, so that compactions keep the versions that decide. The
// snapshot pins neither memtables nor tables.
class OptimisticTransaction final : public TransactionBase {
 public:
  OptimisticTransaction(const TransactionContext& context,
                        const WriteOptions& write_options,
                        const OptimisticTransactionOptions& options);
  // Makes it another transaction. Keeps the memory.
  void Reuse(const WriteOptions& write_options,
             const OptimisticTransactionOptions& options);

  Status Prepare() override;
  Status Commit() override;
  Status Rollback() override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses, bool sorted_input) override;
  std::unique_ptr<Iterator> GetIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override;
  void UndoGetForUpdate(ColumnFamilyHandle* family, const Slice& key) override;

  uint64_t GetNumKeys() const override;
  void SetLockTimeout(int64_t /*timeout*/) override {}
  Status SetName(const TransactionName& name) override;
  TransactionName GetName() const override { return {}; }
  TransactionID GetID() const override { return 0; }
  bool IsDeadlockDetect() const override { return false; }
  std::vector<TransactionID> GetWaitingTxns(
      uint32_t* /*family_id*/, std::string* /*key*/) const override {
    return {};
  }

 private:
  Status Track(ColumnFamilyHandle* family, const Slice& key,
               const Use& use) override;
  Status TrackRange(ColumnFamilyHandle* family, const Slice& begin,
                    const Slice& end) override;
  bool ReadsAtOwnSnapshot() const override { return IsSerializable(); }
  uint32_t TrackMark() const override;
  void UntrackSince(uint32_t mark) override;

  // Returns the number after which a key that is used now must not change, and
  // pins a snapshot that is not newer.
  SequenceNumber Now();
  bool IsSerializable() const { return reads_ != nullptr; }
  // Sets *mine to the options for a read that Commit checks.
  Status BeginRead(const ReadOptions& options, ReadOptions* mine);
  // Has Commit check a key that is read by these options.
  Status NoteRead(const ReadOptions& options, ColumnFamilyHandle* family,
                  const Slice& key);
  template <typename Value>
  Status CheckedGet(const ReadOptions& options, ColumnFamilyHandle* family,
                    const Slice& key, Value* value);
  // Sets check_ to what Commit must find unchanged.
  void FillCheck();
  void Forget();
  void Begin(const OptimisticTransactionOptions& options);

  TrackedKeys keys_;
  // The ranges that are to be deleted.
  std::vector<TrackedRange> deleted_ranges_;
  // Null unless serializable.
  std::unique_ptr<RecordedReads> reads_;
  // The reads are of several states.
  bool reads_differ_ = false;
  CommitCheck check_;
};

}  // namespace varve
