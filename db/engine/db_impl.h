// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/compaction/compaction_picker.h"
#include "db/engine/db_iterator.h"
#include "db/engine/db_properties.h"
#include "db/engine/family_handle.h"
#include "db/parts/auto_resume.h"
#include "db/parts/buffering_logger.h"
#include "db/parts/db_directory.h"
#include "db/parts/event_queue.h"
#include "db/parts/family_set.h"
#include "db/parts/fork_inheritance.h"
#include "db/parts/obsolete_files.h"
#include "db/parts/quiet_watch.h"
#include "db/parts/table_jobs.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"
#include "db/write/write_gate.h"
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
// db_open.cc, db_impl.cc (closing), db_families.cc, db_read.cc, db_write.cc,
// db_wal.cc (logs and recovery from errors), db_space.cc (a full device),
// db_background.cc (flush, removal of files), db_compaction.cc,
// db_dead_entries.cc and db_properties.cc. A call without a column family is a
// call with the default one.
//
// Locks: mutex_ guards the members marked so. It is not held during I/O on
// tables, nor while a log is written or synced. The write queue gives one
// thread at a time, its leader, the right to write the log and to switch
// memtables. The current memtable and the newest log change only under mutex_
// *and* leadership. Either of the two suffices to read them. Leadership is
// acquired before mutex_: no thread waits for leadership with mutex_ held.
class DBImpl final : public DB, private ForkWatch, private IteratorOwner {
 public:
  // `others` are the column families to open beside the default one. If
  // `file_pool` is not null, it is used for the table files in place of the
  // DB's own pool. It must outlive the DB.
  DBImpl(const Options& options, const std::string& path, bool read_only,
         FilePool* file_pool = nullptr,
         const std::vector<ColumnFamilyDescriptor>& others = {});
  ~DBImpl() override;

  // Creates a pool for DBs that are opened with these options.
  static std::unique_ptr<FilePool> NewFilePool(const Options& options);

  // REQUIRES: called once, before all other functions. `name_is_safe`: the
  // directory exists, and its name is durable.
  Status Open(bool name_is_safe = false);
  // Returns a new handle of a live family. REQUIRES: there is one of that name.
  ColumnFamilyHandle* NewHandle(const std::string& name);

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

  Status CreateColumnFamily(const ColumnFamilyOptions& options,
                            const std::string& name,
                            ColumnFamilyHandle** handle) override;
  Status DropColumnFamily(ColumnFamilyHandle* family) override;
  ColumnFamilyHandle* DefaultColumnFamily() const override {
    return default_handle_.get();
  }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) override;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) override;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) override;
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                PinnableSlice* values, Status* statuses) override;
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                std::string* values, Status* statuses) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override;
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override;
  bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                   std::string* value) override;
  bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                      uint64_t* value) override;
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             size_t count, uint64_t* sizes) override;
  Status Flush(const FlushOptions& options,
               ColumnFamilyHandle* family) override;
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& families) override;
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* family, const Slice* begin,
                      const Slice* end) override;
  Status SetOptions(ColumnFamilyHandle* family,
                    const std::map<std::string, std::string>& changes) override;

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
  // Tells what a write updates: the families of a batch, or of its only update.
  struct Touched {
    const WriteBatch& batch;
    const WriteQueue::SingleUpdate* update;
  };

  // ---- Opening (db_open.cc) ----
  ColumnFamily::Shared SharedParts(SnapshotRegistry* snapshots);
  std::unique_ptr<ColumnFamily> NewFamily(const std::string& name,
                                          const ColumnFamilyOptions& options);
  void MakeTables(ColumnFamily* family);
  std::vector<ColumnFamily*> FamiliesToOpen();
  Status Recover(std::unique_ptr<RecoveredState>* recovered,
                 RecoveryFlush* flush);
  void InitializeVersions(RecoveredState* state);
  void InstallReadOnlyLocked(RecoveredState* state) VARVE_REQUIRES(mutex_);
  Status InstallRecovered(RecoveredState* state, RecoveryFlush* flush);
  Status ApplyRecoveredLocked(RecoveredState* state, RecoveryFlush* flush,
                              uint64_t wal_number) VARVE_REQUIRES(mutex_);
  void ListFamiliesLocked(RecoveredState* state) VARVE_REQUIRES(mutex_);

  // ---- Closing (db_impl.cc) ----
  // Returns true if Close is done: all other calls return an error then.
  bool IsClosedLocked() const VARVE_REQUIRES(mutex_);
  bool IsClosed() VARVE_EXCLUDES(mutex_);
  bool IsEndingLocked() const VARVE_REQUIRES(mutex_);
  Status CloseLocked() VARVE_REQUIRES(mutex_);
  bool WorkRunsLocked() const VARVE_REQUIRES(mutex_);
  void WaitForBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- Column families (db_families.cc) ----
  // Null is the default family.
  ColumnFamily* FamilyOf(ColumnFamilyHandle* handle) {
    return handle == nullptr ? &family_
                             : static_cast<FamilyHandle*>(handle)->family();
  }
  Status AddFamilyLocked(std::unique_ptr<ColumnFamily> family)
      VARVE_REQUIRES(mutex_);
  void RemoveOptionsFilesLocked() VARVE_REQUIRES(mutex_);
  Status CheckFamilyOptions(const ColumnFamilyOptions& options) const;
  // Calls visit(family) for each live family that a write touches. REQUIRES:
  // leadership, or the mutex.
  template <typename Visit>
  void ForEachTouched(const Touched& touched, Visit visit);
  bool PaceIsDue(const Touched& touched);
  // For the leader. Returns whether all of the writer's families are live.
  bool FamiliesAreLive(const WriteQueue::Writer& writer) const;
  // Returns the families of the handles without duplicates.
  std::vector<ColumnFamily*> FamiliesOf(
      const std::vector<ColumnFamilyHandle*>& handles);
  std::string OldestLogLocked() VARVE_REQUIRES(mutex_);
  std::string DescribeFamiliesLocked() VARVE_REQUIRES(mutex_);

  // ---- After fork() (db_fork.cc) ----
  void InForkedChild() override;
  void TakeOverLocked(bool waits) VARVE_REQUIRES(mutex_);
  Status WritableLocked() VARVE_REQUIRES(mutex_);
  Status CheckWritable() VARVE_EXCLUDES(mutex_);
  bool AbandonInheritedLocked() VARVE_REQUIRES(mutex_);
  void AbandonLocked() VARVE_REQUIRES(mutex_);
  void KeepAbandoned();

  // ---- Reading (db_read.cc) ----
  Status GetInto(ColumnFamily* family, const ReadOptions& options,
                 const Slice& key, ReadTarget* target);
  [[gnu::noinline]] Status TracedGet(ColumnFamily* family,
                                     const ReadOptions& options,
                                     const Slice& key, ReadTarget* target);
  Status MeasuredGet(ColumnFamily* family, const ReadOptions& options,
                     const Slice& key, ReadTarget* target);
  template <bool kMeasured>
  Status LookUp(ColumnFamily* family, const ReadOptions& options,
                const Slice& key, ReadTarget* target);
  void CountGet(const ReadCounts& counts, bool in_memtable, bool found);
  template <typename Value>
  void MultiGetInto(ColumnFamily* family, const ReadOptions& options,
                    size_t count, const Slice* keys, Value* values,
                    Status* statuses);
  template <typename Value>
  void MultiGetFamilies(const ReadOptions& options, size_t count,
                        ColumnFamilyHandle* const* families, const Slice* keys,
                        Value* values, Status* statuses);
  template <bool kOwn>
  std::unique_ptr<Iterator> NewIteratorFor(ColumnFamily* family,
                                           const ReadOptions& options);
  std::unique_ptr<Iterator> NewOwnIterator(ColumnFamily* family);
  void EndIterator(ColumnFamily* family, SuperVersion* super_version,
                   bool is_own) override;
  static bool SeesAllUpTo(const ColumnFamily& family,
                          const ReadOptions& options,
                          const SuperVersion& super_version);
  SequenceNumber ReadSequence(const ReadOptions& options) const;
  SuperVersionCache::Read BeginRead(ColumnFamily* family,
                                    const ReadOptions& options);
  // Makes the current memtables and version visible to reads.
  void InstallSuperVersionLocked(ColumnFamily* family) VARVE_REQUIRES(mutex_);

  // ---- Writing (db_write.cc) ----
  // `update` is the batch's only update, or null.
  Status MeasureWrite(const WriteOptions& options, WriteBatch* batch,
                      const WriteQueue::SingleUpdate* update);
  Status WriteThroughQueue(const WriteOptions& options, WriteBatch* batch,
                           const WriteQueue::SingleUpdate* update = nullptr);
  Status CheckBatch(const WriteOptions& options, WriteBatch* batch);
  [[gnu::noinline]] Status CheckUpdates(WriteBatch* batch);
  [[gnu::noinline]] Status AwaitBudget(const WriteOptions& options);
  Status DelayWrite(const WriteOptions& options, const Touched& touched,
                    bool* delayed, bool* frees);
  ColumnFamily* MostPressedLocked(const Touched& touched)
      VARVE_REQUIRES(mutex_);
  // For the leader of the write queue.
  Status MakeSpace(const Touched& touched, bool frees, bool* wait);
  Status PaceOrSwitch(const Touched& touched, bool may_pause, bool* wait,
                      uint64_t* pause_us);
  Status CommitGroup(WriteQueue::Writer* leader);
  Status Insert(const WriteQueue::Writer& writer);
  void MarkUnlogged(const WriteQueue::Group& group);
  void CountInFamilies(const WriteQueue::Writer& writer, size_t* default_bytes);
  void UpdateStallLocked(ColumnFamily* family) VARVE_REQUIRES(mutex_);
  void UpdateGateLocked() VARVE_REQUIRES(mutex_);

  // ---- Logs, flushes and errors (db_wal.cc) ----
  // For the leader, but for the last four.
  // Starts a new log, and a new memtable of each of the families. Adds the
  // families that keep too many logs.
  Status SwitchLocked(std::vector<ColumnFamily*> families)
      VARVE_REQUIRES(mutex_);
  void AddHoldersOfLogsLocked(std::vector<ColumnFamily*>* families)
      VARVE_REQUIRES(mutex_);
  uint64_t MaxLogBytesLocked() const VARVE_REQUIRES(mutex_);
  bool AreAllFlushedLocked() const VARVE_REQUIRES(mutex_);
  bool LogsHoldUpLocked() VARVE_REQUIRES(mutex_);
  Status ReplaceLogLocked(std::vector<ColumnFamily*> families, bool* wait)
      VARVE_REQUIRES(mutex_);
  void UpdateLogLimitLocked() VARVE_REQUIRES(mutex_);
  Status FlushAsLeaderLocked() VARVE_REQUIRES(mutex_);
  Status FlushLogLocked(bool sync) VARVE_REQUIRES(mutex_);
  Status ResumeAsLeaderLocked() VARVE_REQUIRES(mutex_);
  Status FlushFamilies(const FlushOptions& options,
                       std::vector<ColumnFamily*> families);
  bool HasUnloggedLocked() const VARVE_REQUIRES(mutex_);
  bool JobsRunLocked() const VARVE_REQUIRES(mutex_);
  Status AwaitFlushLocked(const ColumnFamily& family, uint64_t target)
      VARVE_REQUIRES(mutex_);
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
  bool WatchesQuietLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(mutex_);
  void FlushInQuiet() VARVE_EXCLUDES(mutex_);
  void PauseCompactionsLocked(const Status& status) VARVE_REQUIRES(mutex_);
  void ResumeCompactionsLocked() VARVE_REQUIRES(mutex_);
  void RetryCompactionsLocked() VARVE_REQUIRES(mutex_);
  Status DropCovered(ColumnFamily* family, bool* dropped);
  Status RemoveTablesLocked(ColumnFamily* family,
                            const std::vector<CoveredTable>& tables,
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
  // Returns the families to flush next.
  std::vector<ColumnFamily*> PickFlushLocked() VARVE_REQUIRES(mutex_);
  int FlushesDueLocked() const VARVE_REQUIRES(mutex_);
  // Sets *counts to the number of memtables in the flush of each family, also
  // if it fails.
  Status FlushImmutablesLocked(const std::vector<ColumnFamily*>& families,
                               std::vector<size_t>* counts)
      VARVE_REQUIRES(mutex_);
  Status SyncSharedLogsLocked(const std::vector<ColumnFamily*>& families,
                              uint64_t first, uint64_t end)
      VARVE_REQUIRES(mutex_);
  void RequestSwitch(ColumnFamily* family) VARVE_EXCLUDES(mutex_);
  void BackgroundSwitch();
  // May release the mutex and reacquire it.
  void PurgeObsoleteLocked() VARVE_REQUIRES(mutex_);
  void FreeLaterLocked() VARVE_REQUIRES(mutex_);
  void BackgroundPurge();

  // ---- Compaction (db_compaction.cc) ----
  void BackgroundCompaction();
  std::unique_ptr<Compaction> PickBackgroundCompactionLocked(
      ColumnFamily** family) VARVE_REQUIRES(mutex_);
  Status RunCompactionLocked(ColumnFamily* family, Compaction* compaction)
      VARVE_REQUIRES(mutex_);
  bool CompactionDueLocked() const VARVE_REQUIRES(mutex_);
  bool CompactionDueLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(mutex_);
  bool AnyCompactionRunsLocked() const VARVE_REQUIRES(mutex_);
  CompactionPickerContext PickerContextLocked(const ColumnFamily& family) const
      VARVE_REQUIRES(mutex_);
  Status CompactFamily(ColumnFamily* family, const CompactRangeOptions& options,
                       const UserKeyRange& range);
  Status CompactRangeOnce(ColumnFamily* family,
                          const CompactRangeOptions& options,
                          const UserKeyRange& range);
  Status CompactRangeLocked(ColumnFamily* family,
                            const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(mutex_);
  Status CompactLevelLocked(ColumnFamily* family, ManualRequest request,
                            int last, bool exclusive) VARVE_REQUIRES(mutex_);

  // ---- Dead entries that readers report (db_dead_entries.cc) ----
  void CutDeadRanges(const WriteQueue::Group& group);
  void CutDeadRangesOf(const WriteQueue::Writer& writer);
  // Returns whether dead entries of the family may cause jobs by themselves.
  bool CleansLocked(const ColumnFamily& family) const VARVE_REQUIRES(mutex_);
  bool CleanupDueLocked(ColumnFamily& family) const VARVE_REQUIRES(mutex_);
  void WakeCleaner();
  void BackgroundCleanup();
  void CleanUp(ColumnFamily* family, const Stopwatch& job);
  void PlanCleanupLocked(ColumnFamily* family,
                         const std::vector<DeadRangeCleaner::Target>& targets,
                         const std::vector<DeadRangeFindings>& found,
                         uint64_t wakes) VARVE_REQUIRES(mutex_);
  void RememberAround(ColumnFamily* family, const DeadRange& range,
                      const Stopwatch& job);
  bool FlushesRangeDeletionsLocked(ColumnFamily* family) VARVE_REQUIRES(mutex_);
  void FlushForReaders(ColumnFamily* family, const MemTable* memtable);
  std::unique_ptr<Compaction> PickForReadersLocked(ColumnFamily* family)
      VARVE_REQUIRES(mutex_);
  void AddDeadRangeEventLocked(const DeadRangeCleaner::Target& target,
                               const char* job, int level)
      VARVE_REQUIRES(mutex_);

  Status Cut(CheckpointCut* cut);  // For CreateCheckpoint.
  DbProperties Properties(ColumnFamily* family);

  // ---- Immutable after Open ----
  // Except the fields that SetOptions changes, which mutex_ guards.
  Options options_;  // Of the database, and of its default family.
  const bool read_only_;
  const bool renews_arenas_;  // See ExperimentFlags.
  const bool ignores_waste_;  // See ExperimentFlags.
  DbDirectory db_directory_;
  Env* const env_;               // The Env of db_directory_.
  StatisticsImpl* const stats_;  // May be null.
  BufferingLogger log_;
  const std::unique_ptr<FilePool> own_file_pool_;
  FilePool* const file_pool_;  // Given to the DB, or its own.
  std::unique_ptr<VersionSet> versions_;
  const uint64_t instance_id_ = NewSlotNumber();

  WriteQueue write_queue_;
  WriteGate gate_;

  // ---- Guarded by mutex_ ----
  Mutex mutex_;
  WalSet wals_;  // See the class.
  // Also signalled when a condition that writers wait for changes.
  BackgroundScheduler scheduler_;
  EventQueue events_;
  ColumnFamily family_;  // The default one. Reads of it take no mutex.
  FamilySet families_;
  const std::shared_ptr<FamilyHandles> handles_;
  const std::unique_ptr<FamilyHandle> default_handle_;
  // Families that Open is to open or create.
  std::vector<std::unique_ptr<ColumnFamily>> unopened_;
  ObsoleteFiles obsolete_;
  TableJobs table_jobs_;
  CompactionGate compaction_gate_;
  bool logs_hold_up_ = false;       // See LogsHoldUpLocked.
  bool has_options_files_ = false;  // RocksDB's.
  size_t next_family_ = 0;          // Where the search for a compaction begins.
  // Of the last update in a log since Open. Owned by the leader.
  SequenceNumber last_logged_sequence_ = 0;
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
