// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "db/compaction/compaction_picker.h"
#include "db/compaction/table_output.h"
#include "db/engine/database_place.h"
#include "db/engine/db_properties.h"
#include "db/engine/event_queue.h"
#include "db/engine/fork_inheritance.h"
#include "db/engine/obsolete_files.h"
#include "db/engine/relay_logger.h"
#include "db/recovery/recovery.h"
#include "db/recovery/recovery_flush.h"
#include "db/write/write_queue.h"
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
struct LiveFiles;
class IteratorContext;

// Composes the parts of an open database. What a call does is in db_impl.cc
// (opening, closing), db_read.cc, db_write.cc, db_wal.cc (logs, and how an
// error is got over), db_space.cc (a full device), db_background.cc (flush,
// removal of files), db_compaction.cc and db_properties.cc.
//
// Locks: mutex_ guards everything that says so. It is not held during I/O on
// tables, nor while a log is written or synced. The write queue gives one
// thread at a time, its leader, the right to touch the log and to switch
// memtables: the one that is written to, and the newest log, change only under
// mutex_ *and* the lead, and who has either may read them. The lead comes
// before mutex_: nobody waits for it with mutex_ held.
class DBImpl final : public DB, private ForkWatch {
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
  LiveFiles LiveFilesLocked(uint64_t next_file_number,
                            std::set<std::string> foreign)
      VARVE_REQUIRES(mutex_);
  Status CloseLocked() VARVE_REQUIRES(mutex_);
  void WaitForBackgroundLocked() VARVE_REQUIRES(mutex_);

  // ---- After fork() (db_fork.cc) ----
  void InForkedChild() override;
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
  // Makes the current memtables and version what reads see.
  void InstallSuperVersionLocked() VARVE_REQUIRES(mutex_);
  SequenceNumber ReadSequence(const ReadOptions& options) const;
  SuperVersionCache::Read BeginRead(const ReadOptions& options);

  // ---- Writing (db_write.cc) ----
  bool IsClosed() VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return IsClosedLocked();
  }
  // Write, but for its time.
  Status WriteThroughQueue(const WriteOptions& options, WriteBatch* batch);
  Status CheckBatch(const WriteOptions& options, const WriteBatch* batch) const;
  // For the leader of the write queue, without HasRoom: makes room, or says in
  // *wait that others have to. `frees`: its batch only deletes, and AwaitRoom
  // let it pass.
  Status MakeRoom(bool frees, bool* wait);
  // For the leader, when its pace is due: switches if the log has no room, else
  // returns in *pause_us how long to wait.
  Status PaceOrSwitch(bool may_pause, bool* wait, uint64_t* pause_us);
  // For those outside of the queue: waits as long as writes are stopped, and
  // what a writer is slowed down by, the latter once. Incomplete if not
  // allowed. *frees: the batch only deletes, and passes for that reason.
  Status AwaitRoom(const WriteOptions& options, const WriteBatch& batch,
                   bool* delayed, bool* frees);
  // After a change of what writers are slowed down by.
  void UpdateStallLocked() VARVE_REQUIRES(mutex_);
  // After a change of that or of background_error_.
  void UpdateGateLocked() VARVE_REQUIRES(mutex_);
  // For the leader: to the log and the memtable; leaves the queue.
  Status CommitGroup(WriteQueue::Writer* leader);

  // ---- Flushes and logs (db_wal.cc), all but the last four for the leader
  // ----
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
  void SetBackgroundErrorLocked(const Status& status, const char* where)
      VARVE_REQUIRES(mutex_);
  // Removes files that nothing needs any more; gives the mutex back
  // meanwhile.
  void PurgeObsoleteLocked() VARVE_REQUIRES(mutex_);
  // Has another thread do that, if there is something.
  void FreeLaterLocked() VARVE_REQUIRES(mutex_);
  void BackgroundPurge();

  // ---- Compaction (db_compaction.cc) ----
  void BackgroundCompaction();
  // Its error is background_error_ too, or CompactionState::error.
  Status RunCompactionLocked(Compaction* compaction) VARVE_REQUIRES(mutex_);
  Status WriteCompactionLocked(const Compaction& compaction,
                               CompactionJobInfo* info) VARVE_REQUIRES(mutex_);
  bool CompactionDueLocked() const VARVE_REQUIRES(mutex_);
  CompactionPickerContext PickerContextLocked() const VARVE_REQUIRES(mutex_);
  Status CompactRangeOnce(const CompactRangeOptions& options,
                          const UserKeyRange& range);
  Status CompactRangeLocked(const CompactRangeOptions& options,
                            const UserKeyRange& range) VARVE_REQUIRES(mutex_);
  // Into the level where it belongs, `last` at most.
  // `exclusive`: CompactionState::is_exclusive is this call's.
  Status CompactLevelLocked(ManualRequest request, int last, bool exclusive)
      VARVE_REQUIRES(mutex_);

  // ---- Checkpoints (db_checkpoint.cc) ----
  // The files that are the database at this moment. Its version has a
  // reference then. Gives the mutex back meanwhile.
  Status Cut(CheckpointCut* cut);

  DbProperties Properties();

  // ---- Immutable after Open ----
  // But for the fields that SetOptions changes, guarded by mutex_.
  Options options_;
  const bool read_only_;
  DatabasePlace place_;
  Env* const env_;               // That of place_.
  StatisticsImpl* const stats_;  // May be null.
  const InternalKeyComparator comparator_;
  RelayLogger log_;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<VersionSet> versions_;
  const uint64_t context_id_ = NewSlotNumber();
  TableOutputContext output_context_;

  WriteQueue write_queue_;

  // ---- Guarded by mutex_ ----
  Mutex mutex_;
  WalSet wals_;  // See the class.
  // Its waiters are told of changes of what writers wait for, too.
  BackgroundScheduler scheduler_;
  EventQueue events_;
  ColumnFamily family_;  // Reads of it take no mutex.
  ObsoleteFiles obsolete_;
  Status background_error_;
  uint64_t background_error_count_ = 0;
  bool closed_ = false;
  // Close is done: all other calls are errors.
  bool IsClosedLocked() const VARVE_REQUIRES(mutex_) {
    return closed_ && wals_.EmptyLocked();
  }
  Status close_status_;  // For whoever closes it once more.
  ForkInheritance inheritance_;
  // Held while one is made. Taken before mutex_ and the lead.
  Mutex checkpoint_mutex_;
  bool resume_scheduled_ = false;
  ThreadPool resume_pool_{{.name = "varve:resume"}};

  // ---- Atomic ----
  std::atomic<int> live_iterators_{0};
};

}  // namespace varve
