// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/compaction/compaction_picker.h"
#include "db/dead_entries/dead_range_cleaner.h"
#include "db/dead_entries/dead_walks.h"
#include "db/engine/db_properties.h"
#include "db/parts/auto_resume.h"
#include "db/parts/buffering_logger.h"
#include "db/parts/db_directory.h"
#include "db/parts/event_queue.h"
#include "db/parts/fork_inheritance.h"
#include "db/parts/obsolete_files.h"
#include "db/parts/quiet_watch.h"
#include "db/parts/table_jobs.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"
#include "db/write/write_queue.h"
#include "env/stopwatch.h"
#include "monitoring/statistics.h"
#include "table/cache/block_cache.h"
#include "table/reader/file_pool.h"
#include "table/reader/table_cache.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "varve/db.h"

namespace varve {

struct CheckpointCut;
struct CoveredTable;

// Composes the parts of an open database. The calls are implemented in
// db_impl.cc (opening, closing), db_read.cc, db_write.cc, db_wal.cc (logs and
// recovery from errors), db_space.cc (a full device), db_background.cc (flush,
// removal of files), db_compaction.cc, db_dead_entries.cc and db_properties.cc.
//
// Locks: mutex_ guards the members marked so. It is not held during I/O on
// tables, nor while a log is written or synced. The write queue gives one
// thread at a time, its leader, the right to write the log and to switch
// memtables. The current memtable and the newest log change only under mutex_
// *and* leadership. Either of the two suffices to read them. Leadership is
// acquired before mutex_: no thread waits for leadership with mutex_ held.
class DBImpl final : public DB, private ForkWatch {
 public:
  // If `file_pool` is not null, it is used for the table files in place of the
  // DB's own pool. It must outlive the DB.
  DBImpl(const Options& options, const std::string& path, bool read_only,
         FilePool* file_pool = nullptr);
  ~DBImpl() override;

  // Creates a pool for DBs that are opened with these options.
  static std::unique_ptr<FilePool> NewFilePool(const Options& options);

  // REQUIRES: called once, before all other functions. `name_is_safe`: the
  // directory exists, and its name is durable.
  Status Open(bool name_is_safe = false);

  Status Close() override;
  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status SingleDelete(const WriteOptions& options, const Slice& key) override;
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) override;
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
  PinnedSnapshot* BeginReadTransaction() override;
  bool GetProperty(const Slice& property, std::string* value) override;
  bool GetIntProperty(const Slice& property, uint64_t* value) override;
  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) override;
  Status Flush(const FlushOptions& options) override;
  Status SyncWAL() override;
  Status FlushWAL(bool sync) override;
  Status Resume() override;
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) override;
  Status SetOptions(const std::map<std::string, std::string>& changes) override;
  void CancelAllBackgroundWork(bool wait) override;
  // Flushes all memtables if they have updates that no log has.
  Status FlushUnlogged();
  Status CreateCheckpoint(const std::string& directory) override;
  Status WaitForCompact() override;
  Status VerifyChecksum() override;
  uint64_t GetLatestSequenceNumber() const override;

 private:
  // ---- Opening and closing (db_impl.cc) ----
  Status Recover(std::unique_ptr<RecoveredState>* recovered,
                 RecoveryFlush* flush);
  void InitializeVersions(RecoveredState* state);
  Status InstallRecovered(RecoveredState* state, RecoveryFlush* flush);
  // Returns true if Close is done: all other calls return an error then.
  bool IsClosedLocked() const VARVE_REQUIRES(mutex_);
  bool IsClosed() VARVE_EXCLUDES(mutex_);
  bool IsEndingLocked() const VARVE_REQUIRES(mutex_);
  Status CloseLocked() VARVE_REQUIRES(mutex_);
  bool WorkRunsLocked() const VARVE_REQUIRES(mutex_);
  void WaitForBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- After fork() (db_fork.cc) ----
  void InForkedChild() override;
  void TakeOverLocked(bool waits) VARVE_REQUIRES(mutex_);
  Status WritableLocked() VARVE_REQUIRES(mutex_);
  Status CheckWritable() VARVE_EXCLUDES(mutex_);
  bool AbandonInheritedLocked() VARVE_REQUIRES(mutex_);
  void AbandonLocked() VARVE_REQUIRES(mutex_);
  void KeepAbandoned();

  // ---- Reading (db_read.cc) ----
  Status GetInto(const ReadOptions& options, const Slice& key,
                 ReadTarget* target);
  [[gnu::noinline]] Status TracedGet(const ReadOptions& options,
                                     const Slice& key, ReadTarget* target);
  Status MeasuredGet(const ReadOptions& options, const Slice& key,
                     ReadTarget* target);
  template <bool kMeasured>
  Status LookUp(const ReadOptions& options, const Slice& key,
                ReadTarget* target);
  void CountGet(const ReadCounts& counts, bool in_memtable, bool found);
  template <typename Value>
  void MultiGetInto(const ReadOptions& options, size_t count, const Slice* keys,
                    Value* values, Status* statuses);
  template <bool kOwn>
  std::unique_ptr<Iterator> NewIteratorFor(const ReadOptions& options);
  std::unique_ptr<Iterator> NewOwnIterator();
  bool SeesAllUpTo(const ReadOptions& options,
                   const SuperVersion& super_version) const;
  SequenceNumber ReadSequence(const ReadOptions& options) const;
  SuperVersionCache::Read BeginRead(const ReadOptions& options);
  // Makes the current memtables and version visible to reads.
  void InstallSuperVersionLocked() VARVE_REQUIRES(mutex_);

  // ---- Writing (db_write.cc) ----
  // `update` is the batch's only update, or null.
  Status MeasureWrite(const WriteOptions& options, WriteBatch* batch,
                      const WriteQueue::SingleUpdate* update);
  Status WriteThroughQueue(const WriteOptions& options, WriteBatch* batch,
                           const WriteQueue::SingleUpdate* update = nullptr);
  Status DelayWrite(const WriteOptions& options, const WriteBatch& batch,
                    bool* delayed, bool* frees);
  // For the leader of the write queue.
  Status MakeSpace(bool frees, bool* wait);
  Status PaceOrSwitch(bool may_pause, bool* wait, uint64_t* pause_us);
  Status CommitGroup(WriteQueue::Writer* leader);
  void UpdateStallLocked() VARVE_REQUIRES(mutex_);
  void UpdateStallStateLocked() VARVE_REQUIRES(mutex_);

  // ---- Logs, flushes and errors (db_wal.cc) ----
  // For the leader, but for the last four.
  Status SwitchMemTableLocked() VARVE_REQUIRES(mutex_);
  Status FlushAsLeaderLocked() VARVE_REQUIRES(mutex_);
  Status FlushLogLocked(bool sync) VARVE_REQUIRES(mutex_);
  Status ResumeAsLeaderLocked() VARVE_REQUIRES(mutex_);
  bool JobsRunLocked() const VARVE_REQUIRES(mutex_);
  Status AwaitFlushLocked(uint64_t target) VARVE_REQUIRES(mutex_);
  Status SyncLogAtClose();
  void NoteLogsEndLocked() VARVE_REQUIRES(mutex_);

  // ---- A full device (db_space.cc) ----
  [[gnu::noinline]] Status DeleteWithoutSpace(const WriteOptions& options,
                                              WriteBatch* batch, Status status);
  bool TakesDeletionsLocked() const VARVE_REQUIRES(mutex_);
  Status AdmitDeletionLocked(bool* tried) VARVE_REQUIRES(mutex_);
  Status TryResumeLocked() VARVE_REQUIRES(mutex_);
  Status ResumeIfFull();
  void TryToResume();
  bool WatchesQuietLocked() const VARVE_REQUIRES(mutex_);
  void FlushInQuiet() VARVE_EXCLUDES(mutex_);
  void PauseCompactionsLocked(const Status& status) VARVE_REQUIRES(mutex_);
  void ResumeCompactionsLocked() VARVE_REQUIRES(mutex_);
  void RetryCompactionsLocked() VARVE_REQUIRES(mutex_);
  Status DropCovered(bool* dropped);
  Status RemoveTablesLocked(const std::vector<CoveredTable>& tables,
                            bool* removed) VARVE_REQUIRES(mutex_);

  // ---- Background jobs (db_background.cc) ----
  // Schedules the jobs that are due. Call it after each event that may make a
  // job due.
  void MaybeScheduleLocked() VARVE_REQUIRES(mutex_);
  void ScheduleLocked(JobKind kind, void (DBImpl::*job)(), bool urgent = false)
      VARVE_REQUIRES(mutex_);
  void SetBackgroundErrorLocked(const Status& status, const char* where)
      VARVE_REQUIRES(mutex_);
  void BackgroundFlush();
  Status FlushImmutablesLocked(size_t* count) VARVE_REQUIRES(mutex_);
  // May release the mutex and reacquire it.
  void PurgeObsoleteLocked() VARVE_REQUIRES(mutex_);
  void FreeLaterLocked() VARVE_REQUIRES(mutex_);
  void BackgroundPurge();

  // ---- Compaction (db_compaction.cc) ----
  void BackgroundCompaction();
  Status RunCompactionLocked(Compaction* compaction) VARVE_REQUIRES(mutex_);
  bool CompactionDueLocked() const VARVE_REQUIRES(mutex_);
  CompactionPickerContext PickerContextLocked() const VARVE_REQUIRES(mutex_);
  Status CompactRangeOnce(const CompactRangeOptions& options,
                          const UserKeyRange& range);
  Status CompactRangeLocked(const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(mutex_);
  Status CompactLevelLocked(ManualRequest request, int last, bool exclusive)
      VARVE_REQUIRES(mutex_);

  // ---- Dead entries that readers report (db_dead_entries.cc) ----
  void CutDeadRanges(const WriteQueue::Group& group);
  // Returns whether dead entries may cause jobs by themselves.
  bool CleansLocked() const VARVE_REQUIRES(mutex_);
  void WakeCleaner();
  void BackgroundCleanup();
  void PlanCleanupLocked(const std::vector<DeadRangeCleaner::Target>& targets,
                         const std::vector<DeadRangeFindings>& found,
                         uint64_t wakes) VARVE_REQUIRES(mutex_);
  void RememberAround(const DeadRange& range, const Stopwatch& job);
  bool FlushesRangeDeletionsLocked() VARVE_REQUIRES(mutex_);
  void FlushForReaders(const MemTable* memtable);
  std::unique_ptr<Compaction> PickForReadersLocked() VARVE_REQUIRES(mutex_);
  void AddDeadRangeEventLocked(const DeadRangeCleaner::Target& target,
                               const char* job, int level)
      VARVE_REQUIRES(mutex_);

  Status Cut(CheckpointCut* cut);  // For CreateCheckpoint.
  DbProperties Properties();

  // ---- Immutable after Open ----
  // Except the fields that SetOptions changes, which mutex_ guards.
  Options options_;
  const bool read_only_;
  const bool renews_arenas_;  // See ExperimentFlags.
  const bool ignores_waste_;  // See ExperimentFlags.
  DbDirectory db_directory_;
  Env* const env_;               // The Env of db_directory_.
  StatisticsImpl* const stats_;  // May be null.
  const InternalKeyComparator comparator_;
  BufferingLogger log_;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<VersionSet> versions_;
  const uint64_t instance_id_ = NewSlotNumber();

  WriteQueue write_queue_;
  DeadWalks dead_walks_;  // Thread-safe.

  // ---- Guarded by mutex_ ----
  Mutex mutex_;
  WalSet wals_;  // See the class.
  // Also signalled when a condition that writers wait for changes.
  BackgroundScheduler scheduler_;
  EventQueue events_;
  ColumnFamily family_;  // Reads of it take no mutex.
  ObsoleteFiles obsolete_;
  TableJobs table_jobs_;
  DeadRangeCleaner cleaner_;
  Status background_error_;
  uint64_t background_error_count_ = 0;
  bool closed_ = false;
  Status close_status_;  // For further calls of Close.
  ForkInheritance inheritance_;
  // Held while a checkpoint is created. Acquired before mutex_ and leadership.
  Mutex checkpoint_mutex_;
  AutoResume auto_resume_;
  QuietWatch quiet_watch_;

  // ---- Atomic ----
  std::atomic<int> live_iterators_{0};
};

}  // namespace varve
