// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The common part of optimistic and pessimistic transactions: the updates in
// an indexed batch, reads that see them, save points and snapshots.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/engine/db_impl.h"
#include "monitoring/statistics.h"
#include "varve/transaction.h"

namespace varve {

// The parts that the transactions of a DB share.
struct TransactionContext {
  DB* db = nullptr;          // For reads: it folds keys if the database does.
  DBImpl* engine = nullptr;  // Below `db`.
  ColumnFamilyHandle* default_family = nullptr;
  Env* env = nullptr;
  StatisticsImpl* stats = nullptr;  // May be null.
};

class TransactionBase : public Transaction {
 public:
  ~TransactionBase() override;

  void SetSnapshot() final;
  void SetSnapshotOnNextOperation(
      std::shared_ptr<TransactionNotifier> notifier) final;
  const Snapshot* GetSnapshot() const final { return snapshot_; }
  void ClearSnapshot() final;
  Status CommitAndTryCreateSnapshot(
      std::shared_ptr<TransactionNotifier> notifier, TxnTimestamp timestamp,
      std::shared_ptr<const Snapshot>* snapshot) final;

  void SetSavePoint() final;
  Status RollbackToSavePoint() final;
  Status PopSavePoint() final;

  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses, bool sorted_input) override;
  Status GetForUpdate(const ReadOptions& options, ColumnFamilyHandle* family,
                      const Slice& key, std::string* value, bool exclusive,
                      bool validate) final;
  Status GetForUpdate(const ReadOptions& options, ColumnFamilyHandle* family,
                      const Slice& key, PinnableSlice* value, bool exclusive,
                      bool validate) final;
  std::unique_ptr<Iterator> GetIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override;

  Status Put(ColumnFamilyHandle* family, const Slice& key, const Slice& value,
             bool assume_tracked) final;
  Status Merge(ColumnFamilyHandle* family, const Slice& key,
               const Slice& operand, bool assume_tracked) final;
  Status Delete(ColumnFamilyHandle* family, const Slice& key,
                bool assume_tracked) final;
  Status SingleDelete(ColumnFamilyHandle* family, const Slice& key,
                      bool assume_tracked) final;
  Status DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                     const Slice& end) final;
  Status PutUntracked(ColumnFamilyHandle* family, const Slice& key,
                      const Slice& value) final;
  Status MergeUntracked(ColumnFamilyHandle* family, const Slice& key,
                        const Slice& operand) final;
  Status DeleteUntracked(ColumnFamilyHandle* family, const Slice& key) final;
  Status SingleDeleteUntracked(ColumnFamilyHandle* family,
                               const Slice& key) final;
  void PutLogData(const Slice& blob) final;
  Status RebuildFromWriteBatch(WriteBatch* batch) final;
  WriteBatch* GetCommitTimeWriteBatch() final;
  WriteBatchWithIndex* GetWriteBatch() final { return &batch_; }

  uint64_t GetNumPuts() const final { return counts_.puts; }
  uint64_t GetNumDeletes() const final { return counts_.deletes; }
  uint64_t GetNumMerges() const final { return counts_.merges; }
  uint64_t GetElapsedTime() const final;
  WriteOptions* GetWriteOptions() final { return &write_options_; }
  void SetWriteOptions(const WriteOptions& options) final {
    write_options_ = options;
  }
  TransactionState GetState() const final {
    // relaxed: no data depends on it.
    return state_.load(std::memory_order_relaxed);
  }

 protected:
  // How a key is used.
  struct Use {
    bool is_write = true;
    bool exclusive = true;
    bool validate = true;
    bool assume_tracked = false;
  };

  TransactionBase(const TransactionContext& context,
                  const WriteOptions& write_options, size_t max_batch_bytes);

  // Locks the key, or has it checked by Commit. The handle is not null.
  virtual Status Track(ColumnFamilyHandle* family, const Slice& key,
                       const Use& use) = 0;
  // The same for a range that is to be deleted.
  virtual Status TrackRange(ColumnFamilyHandle* family, const Slice& begin,
                            const Slice& end) = 0;
  // Returns true if a read without a snapshot is at the transaction's own.
  virtual bool ReadsAtOwnSnapshot() const { return false; }
  // Returns a point in time for UntrackSince, which gives back what was tracked
  // since then, beside the uses that AddUse has counted.
  virtual uint32_t TrackMark() const { return 0; }
  virtual void UntrackSince(uint32_t /*mark*/) {}

  // Counts a use of a key in *counter, which stays at its address.
  void AddUse(uint32_t* counter) {
    ++*counter;
    if (HasSavePoint()) save_points_->uses.push_back(counter);
  }
  // Takes a use back that was counted since the last save point. Returns false
  // if there is none.
  bool TakeUseBack(uint32_t* counter);

  // Takes the snapshot that SetSnapshotOnNextOperation has requested.
  void TakeSnapshotIfNeeded() {
    if (snapshot_needed_) [[unlikely]]
      TakeNeededSnapshot();
  }
  // Has `snapshot`, or null for the present one, kept until Clear.
  const Snapshot* pin() const { return pin_; }
  void PinPresent();
  // From now on, a snapshot that is replaced is kept until Clear, if it is the
  // oldest one.
  void PinOldest() { pins_oldest_ = true; }

  // Returns InvalidArgument if the transaction is prepared or has ended.
  Status CheckStarted() const {
    if (GetState() == STARTED) [[likely]]
      return Status::OK();
    return NotStartedError();
  }
  // Returns the updates, with those of GetCommitTimeWriteBatch; `all` is memory
  // for both.
  WriteBatch* UpdatesToCommit(WriteBatch* all);
  // Removes all updates, save points and pins. Keeps the snapshot.
  void Clear();
  // After Clear: makes this another transaction.
  void Restart(const WriteOptions& write_options, size_t max_batch_bytes);

  void SetState(TransactionState state) {
    // relaxed: see GetState.
    state_.store(state, std::memory_order_relaxed);
  }
  const TransactionContext& context() const { return context_; }
  ColumnFamilyHandle* HandleOf(ColumnFamilyHandle* family) const {
    return family != nullptr ? family : context_.default_family;
  }
  bool HasCommitTimeUpdates() const {
    return commit_time_batch_ != nullptr && commit_time_batch_->Count() != 0;
  }
  bool HasUpdates() const {
    return batch_.GetDataSize() > kEmptyBatchBytes || HasCommitTimeUpdates();
  }
  void Tick(Ticker ticker) const { RecordTick(context_.stats, ticker); }

 private:
  static constexpr size_t kEmptyBatchBytes = 12;

  struct Counts {
    uint64_t puts = 0;
    uint64_t deletes = 0;
    uint64_t merges = 0;
  };
  struct SavePoint {
    const Snapshot* snapshot;
    std::shared_ptr<TransactionNotifier> notifier;
    bool snapshot_needed;
    Counts counts;
    size_t uses;  // The size of SavePoints::uses.
    uint32_t mark;
  };
  struct SavePoints {
    std::vector<SavePoint> points;  // The last one is the newest.
    // The counters of uses since the first save point, in their order. Null for
    // one that was taken back.
    std::vector<uint32_t*> uses;
  };

  template <typename Value>
  Status ReadForUpdate(const ReadOptions& options, ColumnFamilyHandle* family,
                       const Slice& key, Value* value, const Use& use);
  std::vector<Status> MultiGetInto(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>* families,
      const std::vector<Slice>& keys, std::vector<std::string>* values,
      bool for_update) final;
  Status AddPut(ColumnFamilyHandle* family, const Slice& key,
                const Slice& value, const Use& use);
  Status AddMerge(ColumnFamilyHandle* family, const Slice& key,
                  const Slice& operand, const Use& use);
  Status AddDelete(ColumnFamilyHandle* family, const Slice& key,
                   const Use& use);
  Status AddSingleDelete(ColumnFamilyHandle* family, const Slice& key,
                         const Use& use);
  bool HasSavePoint() const {
    return save_points_ != nullptr && !save_points_->points.empty();
  }
  [[gnu::noinline]] void TakeNeededSnapshot();
  void ReplaceSnapshot(const Snapshot* snapshot);
  // Releases a snapshot if nothing in the transaction uses it.
  void ReleaseUnused(const Snapshot* snapshot);
  void RemoveLastSavePoint();
  Status NotStartedError() const;

  const TransactionContext& context_;
  WriteBatchWithIndex batch_;
  WriteOptions write_options_;
  bool snapshot_needed_ = false;
  bool pins_oldest_ = false;
  std::atomic<TransactionState> state_{STARTED};
  Counts counts_;
  uint64_t start_ns_;
  const Snapshot* snapshot_ = nullptr;
  const Snapshot* pin_ = nullptr;
  std::shared_ptr<TransactionNotifier> notifier_;
  std::unique_ptr<SavePoints> save_points_;  // Null before the first one.
  std::unique_ptr<WriteBatch> commit_time_batch_;
};

}  // namespace varve
