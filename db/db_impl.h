// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/compaction_picker.h"
#include "db/compaction_stats.h"
#include "db/memtable.h"
#include "db/recovery.h"
#include "db/relay_logger.h"
#include "db/snapshot_registry.h"
#include "db/super_version_cache.h"
#include "db/table_output.h"
#include "db/version_set.h"
#include "db/wal_writer.h"
#include "db/write_queue.h"
#include "db/write_stall.h"
#include "table/block_cache.h"
#include "table/table_cache.h"
#include "util/mutex.h"
#include "varve/db.h"

namespace varve {

struct CheckpointCut;

// Composes the parts of an open database. What a call does is in
// db_impl.cc (opening, closing, reading), db_write.cc, db_background.cc
// (flush, removal of files), db_compaction.cc and db_properties.cc.
//
// Locks: mutex_ guards everything that says so. It is never held during I/O
// on tables or logs, except that a new log is made under it. The write queue
// gives one writer at a time the right to touch the log and to switch
// memtables, also while it gives mutex_ back.
class DBImpl final : public DB, private SuperVersionCache::Disposer {
 public:
  DBImpl(const Options& options, std::string path, bool read_only);
  ~DBImpl() override;

  // To be called once, before anything else.
  Status Open();

  Status Close() override;
  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Write(const WriteOptions& options, WriteBatch* batch) override;
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override;
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override;
  using DB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) override;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  bool GetProperty(const Slice& property, std::string* value) override;
  bool GetIntProperty(const Slice& property, uint64_t* value) override;
  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) override;
  Status Flush(const FlushOptions& options) override;
  Status SyncWAL() override;
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) override;
  Status SetOptions(const std::map<std::string, std::string>& changes) override;
  void CancelAllBackgroundWork(bool wait) override;
  Status CreateCheckpoint(const std::string& directory) override;
  Status WaitForCompact() override;
  Status VerifyChecksum() override;
  uint64_t GetLatestSequenceNumber() const override;

 private:
  // A log that may still be needed, oldest first. The last one is written to.
  struct LiveWal {
    uint64_t number = 0;
    std::shared_ptr<wal::Writer> writer;
    bool synced = false;  // Whole; the newest one never is.
  };

  // ---- Opening and closing (db_impl.cc) ----
  Status OpenDirectory();
  Status Recover(RecoveredState* state);
  Status InstallRecovered(RecoveredState* state);
  void OpenInfoLog();
  Status LoadIdentity();
  // `next_file_number` is the MANIFEST's, as it was found.
  void RemoveLeftovers(uint64_t next_file_number);
  // Moves a table that the MANIFEST does not know to lost/, if it is whole.
  bool KeepUnknownTable(uint64_t number);
  Status CloseLocked() VARVE_REQUIRES(mutex_);
  void WaitForBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- Reading ----
  Status GetInto(const ReadOptions& options, const Slice& key,
                 ReadTarget* target);
  template <typename Value>
  void MultiGetInto(const ReadOptions& options, size_t count, const Slice* keys,
                    Value* values, Status* statuses);
  // For as many keys as its scratch memory has room for.
  void MultiGetSome(const ReadOptions& options,
                    const SuperVersion& super_version, SequenceNumber sequence,
                    size_t count, const Slice* keys,
                    std::optional<ReadTarget>* targets, Status* statuses);
  // Makes the current memtables and version what reads see.
  void InstallSuperVersionLocked() VARVE_REQUIRES(mutex_);
  void DisposeLocked(SuperVersion* super_version) override
      VARVE_REQUIRES(mutex_);
  void FreeLaterLocked() override VARVE_REQUIRES(mutex_);
  void UnrefMemTableLocked(MemTable* memtable) VARVE_REQUIRES(mutex_);
  SequenceNumber ReadSequence(const ReadOptions& options) const;

  // ---- Writing (db_write.cc) ----
  Status CheckBatch(const WriteOptions& options, const WriteBatch* batch) const;
  // For the leader of the write queue. Gives the mutex back while it waits.
  Status MakeRoomLocked(const WriteOptions& options, uint64_t bytes,
                        bool force_switch) VARVE_REQUIRES(mutex_);
  // Until background work has changed something. Incomplete if not allowed.
  Status WaitStoppedLocked(const WriteOptions& options, const char* reason)
      VARVE_REQUIRES(mutex_);
  Status DelayLocked(const WriteOptions& options, uint64_t bytes)
      VARVE_REQUIRES(mutex_);
  MemTable* NewMemTable(uint64_t wal_number) const;
  Status SwitchMemTableLocked() VARVE_REQUIRES(mutex_);
  Status NewWalLocked(uint64_t* number) VARVE_REQUIRES(mutex_);
  Status WriteGroupLocked(const std::vector<WriteQueue::Writer*>& group)
      VARVE_REQUIRES(mutex_);
  // Gives the mutex back while it waits for the device.
  Status SyncLogsLocked() VARVE_REQUIRES(mutex_);

  // ---- Background (db_background.cc) ----
  void MaybeScheduleLocked() VARVE_REQUIRES(mutex_);
  // Counts and queues a job. False, with the error set, if no thread is to
  // be had.
  bool ScheduleLocked(void (DBImpl::*job)(), Env::Priority priority)
      VARVE_REQUIRES(mutex_);
  void BackgroundFlush();
  Status FlushImmutablesLocked() VARVE_REQUIRES(mutex_);
  void SetBackgroundErrorLocked(const Status& status, const char* where)
      VARVE_REQUIRES(mutex_);
  // Removes files that nothing needs any more; gives the mutex back
  // meanwhile.
  void PurgeObsoleteLocked() VARVE_REQUIRES(mutex_);
  bool HasObsoleteLocked() VARVE_REQUIRES(mutex_);
  void BackgroundPurge();
  void FinishBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- Compaction (db_compaction.cc) ----
  void BackgroundCompaction();
  Status RunCompactionLocked(Compaction* compaction) VARVE_REQUIRES(mutex_);
  bool CompactionDueLocked() const VARVE_REQUIRES(mutex_);
  CompactionPickerContext PickerContextLocked() const VARVE_REQUIRES(mutex_);
  Status CompactRangeLocked(const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(mutex_);
  Status CompactLevelLocked(ManualRequest request) VARVE_REQUIRES(mutex_);

  // ---- Checkpoints (db_checkpoint.cc) ----
  // The files that are the database at this moment. Its version has a
  // reference then. Gives the mutex back meanwhile.
  Status CutLocked(CheckpointCut* cut) VARVE_REQUIRES(mutex_);

  // ---- Properties (db_properties.cc) ----
  bool GetIntPropertyLocked(const Slice& name, uint64_t* value)
      VARVE_REQUIRES(mutex_);
  std::string LevelStatsLocked() const VARVE_REQUIRES(mutex_);
  std::string StatsLocked() VARVE_REQUIRES(mutex_);
  void AppendCompactionTableLocked(std::string* out) const
      VARVE_REQUIRES(mutex_);
  std::string TablesLocked() const VARVE_REQUIRES(mutex_);
  std::string AblationWitnesses() const;

  // ---- Immutable after Open ----
  // But for the fields that SetOptions changes, guarded by mutex_.
  Options options_;
  const std::string path_;
  const bool read_only_;
  Env* const env_;
  const InternalKeyComparator comparator_;
  RelayLogger log_;
  std::shared_ptr<Cache> block_cache_;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<VersionSet> versions_;
  std::string identity_;
  TableOutputContext output_context_;
  int max_compactions_ = 1;

  // ---- Guarded by mutex_ ----
  Mutex mutex_;
  // Signalled when background work ends or the state that writers wait for
  // changes.
  CondVar background_done_;
  WriteQueue write_queue_;
  WriteDelay write_delay_;
  MemTable* memtable_ = nullptr;
  std::vector<MemTable*> immutable_;  // Oldest first.
  SuperVersionCache super_versions_;  // Reads take no mutex.
  SnapshotRegistry snapshots_;
  Status background_error_;
  uint64_t background_error_count_ = 0;
  bool flush_scheduled_ = false;
  bool purge_scheduled_ = false;
  int compactions_scheduled_ = 0;      // Queued or running.
  int background_jobs_ = 0;            // All of the above.
  int manual_compactions_ = 0;         // Calls of CompactRange.
  bool exclusive_compaction_ = false;  // One of them wants to be alone.
  bool closed_ = false;
  std::vector<const Compaction*> running_compactions_;
  std::string compaction_cursors_[kNumLevels];
  WriteStallState stall_;
  CompactionStats compaction_stats_[kNumLevels];
  uint64_t user_bytes_ = 0;    // Of batches.
  uint64_t logged_bytes_ = 0;  // Of those, what went to the log.
  uint64_t stall_micros_ = 0;
  uint64_t stall_count_ = 0;
  std::vector<uint64_t> obsolete_wals_;
  std::vector<MemTable*> obsolete_memtables_;  // To be freed.
  bool has_unlogged_data_ = false;             // Written with disable_wal.
  std::deque<LiveWal> wals_;
  bool directory_synced_ = false;  // Since the newest log was made.
  // Memtables that became immutable, and those of them that were flushed.
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  int purges_running_ = 0;
  int deletions_held_ = 0;  // Checkpoints that need all files to stay.

  // ---- Owned by the leader of the write queue ----
  WriteBatch group_batch_;

  // ---- Atomic ----
  std::atomic<bool> shutting_down_{false};
  std::atomic<int> live_iterators_{0};
};

}  // namespace varve
