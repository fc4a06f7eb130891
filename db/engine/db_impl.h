// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/compaction_picker.h"
#include "db/compaction/compaction_stats.h"
#include "db/compaction/table_output.h"
#include "db/engine/background_scheduler.h"
#include "db/engine/database_place.h"
#include "db/engine/event_queue.h"
#include "db/engine/relay_logger.h"
#include "db/engine/wal_set.h"
#include "db/memtable/memtable.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"
#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "db/version/version_set.h"
#include "db/write/flush_pace.h"
#include "db/write/write_queue.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"
#include "table/cache/block_cache.h"
#include "table/reader/file_pool.h"
#include "table/reader/table_cache.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_pool.h"
#include "varve/db.h"

namespace varve {

struct CheckpointCut;
struct CoveredTable;
class IteratorContext;

// Composes the parts of an open database. What a call does is in db_impl.cc
// (opening, closing), db_read.cc, db_write.cc, db_wal.cc (logs, and how an
// error is got over), db_space.cc (a full device), db_background.cc (flush,
// removal of files), db_compaction.cc and db_properties.cc.
//
// Locks: mutex_ guards everything that says so. It is not held during I/O on
// tables, nor while a log is written or synced. The write queue gives one
// thread at a time, its leader, the right to touch the log and to switch
// memtables: memtable_ and the newest log change only under mutex_ *and* the
// lead, and who has either may read them. The lead comes before mutex_: nobody
// waits for it with mutex_ held.
class DBImpl final : public DB,
                     private SuperVersionDisposer,
                     private ForkWatch {
 public:
  // `file_pool`, if not null, has the tables' files in place of a pool of the
  // DB's own, and outlives it.
  DBImpl(const Options& options, const std::string& path, bool read_only,
         FilePool* file_pool = nullptr);
  ~DBImpl() override;

  // A pool for DBs that are opened with these options.
  static std::unique_ptr<FilePool> NewFilePool(const Options& options);

  // To be called once, before anything else. `name_is_safe`: the directory is
  // there, and no power cut takes it.
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
  // Flushes all memtables if they have updates that are in no log.
  Status FlushUnlogged();
  Status CreateCheckpoint(const std::string& directory) override;
  Status WaitForCompact() override;
  Status VerifyChecksum() override;
  uint64_t GetLatestSequenceNumber() const override;

 private:
  // ---- Opening and closing (db_impl.cc) ----
  // Reads the database. Memtables that the logs fill go to `flush`.
  Status Recover(std::unique_ptr<RecoveredState>* recovered,
                 RecoveryFlush* flush);
  // Returns an error if no database may be opened, or written to, here.
  Status CheckFound(const RecoveredState& state) const;
  void InitializeVersions(RecoveredState* state);
  Status InstallRecovered(RecoveredState* state, RecoveryFlush* flush);
  // Adds the name of the log that was there to `old_logs`.
  void OpenInfoLog(std::vector<std::string>* old_logs);
  // `next_file_number` is the MANIFEST's, as it was found.
  void RemoveLeftovers(uint64_t next_file_number,
                       const std::set<std::string>& foreign_files);
  void RemoveOldInfoLogs(std::vector<std::string> names);
  // Moves a table that the MANIFEST does not know to lost/, if it is whole.
  bool KeepUnknownTable(const std::string& name, uint64_t number);
  Status CloseLocked() VARVE_REQUIRES(mutex_);
  void WaitForBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- After fork() (db_fork.cc) ----
  // Which processes have a better claim to the database than this one.
  struct Inheritance {
    static constexpr int kMaxAncestors = 8;
    int count = 0;  // 0: this process has opened it, or taken it over.
    pid_t ancestors[kMaxAncestors] = {};  // The one that opened it first.
    bool is_whole = false;                // No other thread was at work in it.
    bool has_waited = false;              // For the ancestors to end.
    bool has_set_error = false;  // background_error_ says that they have not.
  };
  void InForkedChild() override;
  bool AncestorsHaveEnded(uint64_t patience_us) const;
  // Makes an inherited database this process's own if nobody else has a claim
  // to it any more; else sees to it that there is an error.
  void TakeOverLocked(bool waits) VARVE_REQUIRES(mutex_);
  // background_error_, after an attempt of that.
  Status WritableLocked() VARVE_REQUIRES(mutex_);
  // The same before the write queue is joined, which may never come to its end
  // in a child.
  Status CheckWritable() VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return WritableLocked();
  }
  // Close, for a database that stays another process's.
  void AbandonLocked() VARVE_REQUIRES(mutex_);
  void KeepAbandoned();

  // ---- Reading ----
  Status GetInto(const ReadOptions& options, const Slice& key,
                 ReadTarget* target);
  [[gnu::noinline]] Status TracedGet(const ReadOptions& options,
                                     const Slice& key, ReadTarget* target);
  Status MeasuredGet(const ReadOptions& options, const Slice& key,
                     ReadTarget* target);
  // kMeasured: takes account of it in the thread's PerfContext, and of short
  // steps in its trace.
  template <bool kMeasured>
  Status LookUp(const ReadOptions& options, const Slice& key,
                ReadTarget* target);
  void CountGet(const ReadCounts& counts, bool in_memtable, bool found);
  template <typename Value>
  void MultiGetInto(const ReadOptions& options, size_t count, const Slice* keys,
                    Value* values, Status* statuses);
  struct MultiGetScratch;
  // For as many keys as the scratch has targets. The bytes found.
  uint64_t MultiGetSome(const ReadOptions& options,
                        const SuperVersion& super_version,
                        SequenceNumber sequence, const Slice* keys,
                        MultiGetScratch* scratch, Status* statuses);
  // What an iterator walks. REQUIRES: a reference to the SuperVersion.
  void MakeTree(const ReadOptions& options, const SuperVersion& super_version,
                SequenceNumber sequence,
                const VersionRangeTombstones* tombstones,
                IteratorContext* context);
  SuperVersion* NewSuperVersionLocked() VARVE_REQUIRES(mutex_);
  // Makes the current memtables and version what reads see.
  void InstallSuperVersionLocked() VARVE_REQUIRES(mutex_);
  void DisposeLocked(SuperVersion* super_version) override
      VARVE_REQUIRES(mutex_);
  void FreeLaterLocked() override VARVE_REQUIRES(mutex_);
  void UnrefMemTableLocked(MemTable* memtable) VARVE_REQUIRES(mutex_);
  SequenceNumber ReadSequence(const ReadOptions& options) const;
  SuperVersionCache::Read BeginRead(const ReadOptions& options);

  // ---- Writing (db_write.cc) ----
  static Status ClosedError() {
    return Status::ShutdownInProgress("the database was closed");
  }
  bool IsClosed() VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return IsClosedLocked();
  }
  static Status ReadOnlyError() {
    return Status::NotSupported("the database was opened for reading only");
  }
  // Write, but for its time.
  Status WriteThroughQueue(const WriteOptions& options, WriteBatch* batch);
  // Once for each group, by its leader.
  void CountGroup(const WriteQueue::Writer& leader, uint64_t keys,
                  uint64_t bytes);
  Status CheckBatch(const WriteOptions& options, const WriteBatch* batch) const;
  // For the leader of the write queue: whether it may write as things are,
  // else makes room, or says in *wait that others have to.
  bool HasRoom() const;
  // `frees`: its batch only deletes, and AwaitRoom let it pass.
  Status MakeRoom(bool frees, bool* wait);
  // REQUIRES: mutex_ or the lead.
  bool MemTableIsFull() const;
  // For the leader: how many bytes may be written before the log is too large
  // for a write buffer. Log data and empty ranges are in no memtable, so that
  // MemTableIsFull never ends a log of these.
  uint64_t LogRoom() const;
  // For the leader, once memtable_bytes_ has come to pace_at_bytes_: switches
  // if the log has no room, else returns in *pause_us how long to wait.
  Status PaceOrSwitch(bool may_pause, bool* wait, uint64_t* pause_us);
  // For the leader: how long to pause, so that nobody has to wait at the end
  // of the memtable for the flush of the one before.
  uint64_t PauseMicrosLocked() VARVE_REQUIRES(mutex_);
  // For those outside of the queue: waits as long as writes are stopped, and
  // what a writer is slowed down by, the latter once. Incomplete if not
  // allowed. *frees: the batch only deletes, and passes for that reason.
  Status AwaitRoom(const WriteOptions& options, const WriteBatch& batch,
                   bool* delayed, bool* frees);
  // Why no one may write; kNone if they may.
  StallCause StopCauseLocked() const VARVE_REQUIRES(mutex_);
  // Whether memtables have what was written with disable_wal. REQUIRES: the
  // lead, or that nobody writes.
  bool HasUnloggedLocked() const VARVE_REQUIRES(mutex_);
  // Whether one more memtable may wait for flush.
  bool SlotFreeLocked() const VARVE_REQUIRES(mutex_);
  // Whether the next writer has to wait for one of them to be flushed.
  bool AwaitsFlushLocked() const VARVE_REQUIRES(mutex_);
  void CountStallLocked(StallCause cause, WritePressure pressure)
      VARVE_REQUIRES(mutex_);
  void AddStallMicrosLocked(uint64_t micros) VARVE_REQUIRES(mutex_);
  // After a change of what writers are slowed down by.
  void UpdateStallLocked() VARVE_REQUIRES(mutex_);
  // After a change of that or of background_error_.
  void UpdateGateLocked() VARVE_REQUIRES(mutex_);
  // For the leader: to the log and the memtable; leaves the queue.
  Status CommitGroup(WriteQueue::Writer* leader);

  // ---- Flushes and logs (db_wal.cc), all but the last four for the leader
  // ----
  MemTable* NewMemTable(uint64_t wal_number) const;
  bool SpaceIsShort() const {
    // relaxed: see write_gate_.
    return (write_gate_.load(std::memory_order_relaxed) & kGateError) != 0;
  }
  // A new log and memtable. Gives the mutex back meanwhile.
  Status SwitchMemTableLocked() VARVE_REQUIRES(mutex_);
  // All that was written is in tables then; writers wait. Likewise.
  Status FlushAsLeaderLocked() VARVE_REQUIRES(mutex_);
  // Until so many memtables were flushed.
  Status AwaitFlushLocked(uint64_t target) VARVE_REQUIRES(mutex_);
  // With the lead of the queue. Gives the mutex back while it writes.
  Status FlushLogLocked(bool sync) VARVE_REQUIRES(mutex_);
  Status SyncLogAtClose();
  // Notes in the MANIFEST up to which update the logs go, if they hold any that
  // no table has: without it, a log that is later deleted, emptied or replaced
  // by an older copy looks like one that never held more. Gives the mutex back
  // while it writes.
  void NoteLogsEndLocked() VARVE_REQUIRES(mutex_);
  // What a job that runs has met, or will meet, must not be taken for what
  // comes behind the Resume: a failed sync is told once, and the next one
  // succeeds. So what a Resume relies on is made when none runs. No job begins
  // while background_error_ is there.
  Status ResumeAsLeaderLocked() VARVE_REQUIRES(mutex_);
  bool JobsRunLocked() const VARVE_REQUIRES(mutex_);
  bool IsEndingLocked() const VARVE_REQUIRES(mutex_);

  // ---- A full device (db_space.cc) ----
  // After a write that found no space: tries a batch that only deletes again,
  // by itself. Returns `status` for others.
  [[gnu::noinline]] Status DeleteWithoutSpace(const WriteOptions& options,
                                              WriteBatch* batch, Status status);
  // Whether a batch that only deletes is logged although there is no space.
  bool TakesDeletionsLocked() const VARVE_REQUIRES(mutex_);
  // Of a batch that only deletes, while background_error_ is there: OK if it
  // may go on. Tries Resume, once. May release the mutex and reacquire it.
  Status AdmitDeletionLocked(bool* tried) VARVE_REQUIRES(mutex_);
  // For calls that may free space: Resume if there was none, else nothing.
  Status ResumeIfFull();
  // After a compaction that found no space.
  void PauseCompactionsLocked(const Status& status) VARVE_REQUIRES(mutex_);
  // Starts KeepResuming, which tries until there is space again.
  void ResumeLaterLocked() VARVE_REQUIRES(mutex_);
  void KeepResuming();
  // Waits, at most so long, until an attempt may succeed. False if none is
  // needed any more.
  bool AwaitSpaceLocked(uint64_t wait_us) VARVE_REQUIRES(mutex_);
  // If they pause, lets them try again.
  void ResumeCompactionsLocked() VARVE_REQUIRES(mutex_);
  // The same; waits until it is known whether there is space for compactions.
  void RetryCompactionsLocked() VARVE_REQUIRES(mutex_);
  // Removes the tables of which range deletions hide everything, by an edit
  // alone. *dropped: whether there were any.
  Status DropCovered(bool* dropped);
  Status RemoveTablesLocked(const std::vector<CoveredTable>& tables,
                            bool* removed) VARVE_REQUIRES(mutex_);

  // ---- Background (db_background.cc) ----
  void MaybeScheduleLocked() VARVE_REQUIRES(mutex_);
  // Sets the error if no thread is to be had.
  void ScheduleLocked(JobKind kind, void (DBImpl::*job)())
      VARVE_REQUIRES(mutex_);
  void BackgroundFlush();
  // Sets *count to how many were, or would have been, flushed.
  Status FlushImmutablesLocked(size_t* count) VARVE_REQUIRES(mutex_);
  Status WriteImmutablesLocked(FlushJobInfo* info) VARVE_REQUIRES(mutex_);
  // What a job that has chosen its inputs must keep versions for.
  std::vector<SequenceNumber> ScanSnapshots() VARVE_EXCLUDES(mutex_);
  // Makes the names of new tables safe; removes the tables if that fails, since
  // no edit names them then.
  Status SyncOutputs(const VersionEdit& edit) VARVE_EXCLUDES(mutex_);
  // That the edit's tables are of so many flushes.
  void CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                          uint64_t micros) VARVE_REQUIRES(mutex_);
  void CountDrops(const CompactionIterator::Drops& drops);
  void SetBackgroundErrorLocked(const Status& status, const char* where)
      VARVE_REQUIRES(mutex_);
  // Removes files that nothing needs any more; gives the mutex back
  // meanwhile.
  void PurgeObsoleteLocked() VARVE_REQUIRES(mutex_);
  bool HasObsoleteLocked() VARVE_REQUIRES(mutex_);
  void BackgroundPurge();
  // Notes that the tables of the edit were made, or, by the status, were not.
  void AddCreatedLocked(const VersionEdit& edit, const Status& status)
      VARVE_REQUIRES(mutex_);
  void AddCreatedLocked(uint64_t number, uint64_t bytes, const Status& status)
      VARVE_REQUIRES(mutex_);

  // ---- Compaction (db_compaction.cc) ----
  void BackgroundCompaction();
  // Its error is background_error_ too, or compaction_error_.
  Status RunCompactionLocked(Compaction* compaction) VARVE_REQUIRES(mutex_);
  Status WriteCompactionLocked(const Compaction& compaction,
                               CompactionJobInfo* info) VARVE_REQUIRES(mutex_);
  // As it is before it begins.
  CompactionJobInfo DescribeCompaction(const Compaction& compaction) const;
  bool CompactionDueLocked() const VARVE_REQUIRES(mutex_);
  CompactionPickerContext PickerContextLocked() const VARVE_REQUIRES(mutex_);
  // As MemTable::Overlaps has it, of any memtable.
  bool MemTablesOverlap(const Slice* begin, const Slice* end);
  Status CompactRangeOnce(const CompactRangeOptions& options,
                          const UserKeyRange& range);
  Status CompactRangeLocked(const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(mutex_);
  // Into the level where it belongs, `last` at most.
  // `exclusive`: exclusive_compaction_ is this call's.
  Status CompactLevelLocked(ManualRequest request, int last, bool exclusive)
      VARVE_REQUIRES(mutex_);

  // ---- Checkpoints (db_checkpoint.cc) ----
  // The files that are the database at this moment. Its version has a
  // reference then. Gives the mutex back meanwhile.
  Status Cut(CheckpointCut* cut);

  // ---- Properties (db_properties.cc, db_table_properties.cc) ----
  // Calls visit(file, properties) for the tables of a level, or of all.
  template <typename Visit>
  void VisitTables(int only_level, Visit visit) VARVE_EXCLUDES(mutex_);
  // Of tables, which may have to be opened. False if there is none of the name.
  bool GetTableProperty(const Slice& name, std::string* value)
      VARVE_EXCLUDES(mutex_);
  uint64_t EstimateKeys() VARVE_EXCLUDES(mutex_);
  // Whether it is the prefix and the number of a level.
  bool ParseLevelProperty(const Slice& name, const char* prefix,
                          int* level) const;
  bool GetIntPropertyLocked(const Slice& name, uint64_t* value)
      VARVE_REQUIRES(mutex_);
  std::string LevelStatsLocked() const VARVE_REQUIRES(mutex_);
  std::string StatsLocked() VARVE_REQUIRES(mutex_);
  void AppendCompactionTableLocked(std::string* out) const
      VARVE_REQUIRES(mutex_);
  void AppendDbStatsLocked(std::string* out) const VARVE_REQUIRES(mutex_);
  std::string TablesLocked() const VARVE_REQUIRES(mutex_);
  std::string AblationWitnesses() const;
  std::string OldestSnapshotLocked() VARVE_REQUIRES(mutex_);

  // ---- Immutable after Open ----
  // But for the fields that SetOptions changes, guarded by mutex_.
  Options options_;
  const bool read_only_;
  DatabasePlace place_;
  Env* const env_;               // That of place_.
  StatisticsImpl* const stats_;  // May be null.
  const InternalKeyComparator comparator_;
  RelayLogger log_;
  std::shared_ptr<Cache> block_cache_;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<VersionSet> versions_;
  const uint64_t context_id_ = NewSlotNumber();
  TableOutputContext output_context_;
  int max_compactions_ = 1;

  WriteQueue write_queue_;

  // ---- Guarded by mutex_ ----
  Mutex mutex_;
  WalSet wals_;  // See the class.
  // Its waiters are told of changes of what writers wait for, too.
  BackgroundScheduler scheduler_;
  EventQueue events_;
  WriteDelay write_delay_;
  FlushPace flush_pace_;
  MemTable* memtable_ = nullptr;      // See the class.
  std::vector<MemTable*> immutable_;  // Oldest first.
  // Flushed, but still read by iterators and read transactions.
  std::vector<MemTable*> flushed_memtables_;
  SnapshotRegistry* const snapshots_;  // Takes no mutex; deletes itself.
  SuperVersionCache super_versions_;   // Reads take no mutex.
  Status background_error_;
  // Why compactions pause: they found no space. Writes may go on.
  Status compaction_error_;
  bool space_freed_ = false;  // Files were removed; see AwaitSpaceLocked.
  uint64_t background_error_count_ = 0;
  uint64_t space_debt_ = 0;            // See CompactionPickerContext.
  int manual_compactions_ = 0;         // Calls of CompactRange.
  bool exclusive_compaction_ = false;  // One of them wants to be alone.
  bool closed_ = false;
  // Close is done: all other calls are errors.
  bool IsClosedLocked() const VARVE_REQUIRES(mutex_) {
    return closed_ && wals_.EmptyLocked();
  }
  Status close_status_;  // For whoever closes it once more.
  Inheritance inheritance_;
  pid_t pid_ = getpid();
  bool is_abandoned_ = false;
  std::vector<const Compaction*> running_compactions_;
  WriteStallState stall_;
  CompactionStats compaction_stats_[kNumLevels];
  uint64_t stall_micros_ = 0;
  uint64_t stall_count_ = 0;
  std::vector<MemTable*> obsolete_memtables_;  // To be freed.
  bool log_is_full_ = false;  // A leader found no LogRoom since the switch.
  // Memtables that became immutable, and those of them that were flushed.
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  int purges_running_ = 0;
  int deletions_held_ = 0;  // Checkpoints that need all files to stay.
  // Held while one is made. Taken before mutex_ and the lead.
  Mutex checkpoint_mutex_;
  bool resume_scheduled_ = false;
  ThreadPool resume_pool_{{.name = "varve:resume"}};

  // ---- Owned by the leader of the write queue ----
  uint64_t memtable_bytes_ = 0;  // Of batches, written to memtable_.
  uint64_t full_bytes_ = 0;      // The same, when the last one was full.
  // memtable_bytes_ at which PaceOrSwitch is called the next time, and was
  // last.
  uint64_t pace_at_bytes_ = 0;
  uint64_t paced_bytes_ = 0;

  // ---- Atomic ----
  // What writers have to know of stall_ and background_error_ without mutex_,
  // as bits; 0, nothing. Stored under mutex_. relaxed everywhere: a writer who
  // sees it late writes once more, as if it had come earlier; but a failure to
  // write the log is seen by the next leader, since this one stores it before
  // it leaves the queue.
  static constexpr uint32_t kGateError = 1;
  static constexpr uint32_t kGateStop = 2;
  static constexpr uint32_t kGateSlow = 4;
  std::atomic<uint32_t> write_gate_{0};
  // Bytes of batches, and of those, what went to the log. Counted by leaders;
  // relaxed: for a report.
  std::atomic<uint64_t> user_bytes_{0};
  std::atomic<uint64_t> logged_bytes_{0};
  std::atomic<int> live_iterators_{0};
};

}  // namespace varve
