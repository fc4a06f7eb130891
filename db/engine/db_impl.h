// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "db/engine/db_dead_entries.h"
#include "db/engine/db_properties.h"
#include "db/engine/db_read.h"
#include "db/engine/default_family_calls.h"
#include "db/engine/family_handle.h"
#include "db/family/touched_families.h"
#include "db/jobs/age_watch.h"
#include "db/jobs/compactor.h"
#include "db/jobs/db_core.h"
#include "db/jobs/flusher.h"
#include "db/jobs/large_batch.h"
#include "db/jobs/quiet_watch.h"
#include "db/jobs/write_admission.h"
#include "db/live_files/table_metadata.h"
#include "db/option_files/options_files.h"
#include "db/options/db_mutex.h"
#include "util/threads/fork_watch.h"
#include "varve/db.h"

namespace varve {

class CommitCheck;
class DbOpening;
class Follower;
class Takeover;
struct CheckpointCut;

// Composes the parts of an open database. The functions are explained where
// they are implemented: in db_impl.cc (closing, and calls that need one part),
// db_open.cc, db_families.cc, db_read.cc, db_write.cc, db_prepared.cc
// (two-phase commit), db_wal.cc (logs, flushes and recovery from errors),
// db_compaction.cc (manual compactions), db_options.cc, db_space.cc (a full
// device), db_checkpoint.cc, db_live_files.cc, db_tables.cc (calls on single
// tables), db_follower.cc and db_fork.cc.
//
// Locks: the DB mutex guards the members of DbCore that are marked so. It is
// not held during I/O on tables, nor while a log is written or synced. The
// write queue gives one thread at a time, its leader, the right to write the
// log and to switch memtables. The current memtable and the newest log change
// only under the mutex *and* leadership. Either of the two suffices to read
// them. Leadership is acquired before the mutex: no thread waits for leadership
// with it held.
class DBImpl final : public DefaultFamilyCalls, private ForkWatch {
 public:
  // If `file_pool` is not null, it is used for the table files in place of the
  // DB's own pool. It must outlive the DB.
  DBImpl(const Options& options, const std::string& path, bool read_only,
         FilePool* file_pool = nullptr);
  ~DBImpl() override;
  // Closes the DB and destroys it, unless it is another process's.
  static void operator delete(DBImpl* db, std::destroying_delete_t);
  // For the end of `owner`, which owns the DB. Returns false if the DB is this
  // process's own. Otherwise, in a child of fork(), closes it, and `owner` must
  // not be destroyed: it is kept as it is.
  bool AbandonWith(void* owner);

  // Creates a pool for DBs that are opened with these options.
  static std::unique_ptr<FilePool> NewFilePool(const Options& options);

  // Opens the default family, and `others`. REQUIRES: called once, before all
  // other functions. `name_is_safe`: the directory exists, and its name is
  // durable.
  Status Open(bool name_is_safe = false,
              const std::vector<ColumnFamilyDescriptor>& others = {});
  // Makes it follow the process that writes the database. REQUIRES: called
  // before Open, of a read-only one.
  void Follow();
  // Returns the statistics, or null.
  StatisticsImpl* stats() const { return core_.stats; }
  // Makes the next writes overlap, for measurements: see WriteQueue.
  void OverlapNextWrites(uint32_t count) {
    const WriteQueue::Exclusive leader(&core_.write_queue);
    core_.write_queue.OverlapNext(count);
  }
  // Returns a new handle of a live family. REQUIRES: there is one of that name.
  ColumnFamilyHandle* NewHandle(const std::string& name);
  // Returns a new handle of the family with that id, or null if there is none.
  ColumnFamilyHandle* NewHandle(uint32_t id);
  // Flushes all memtables if they have updates that no log has.
  Status FlushUnlogged();

  // Write a prepared section to the log, which is not visible; make it visible
  // in one step; or forget it. See db_prepared.cc for the errors.
  Status WritePrepared(const WriteOptions& options, const Slice& name,
                       WriteBatch* updates);
  Status CommitPrepared(const WriteOptions& options, const Slice& name,
                        WriteBatch* first = nullptr);
  Status RollbackPrepared(const WriteOptions& options, const Slice& name);
  // Returns the prepared transactions by name, also those that Open has found.
  std::vector<PreparedSection> PreparedSections();

  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override;
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override;

  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) override;
  using DefaultFamilyCalls::SingleDelete;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) override;
  using DefaultFamilyCalls::Merge;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) override;
  using DefaultFamilyCalls::DeleteRange;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) override;
  Status Write(const WriteOptions& options, WriteBatch* batch) override;

  // ---- For transactions: db/transaction/validation ----
  // Writes the batch if what `check` names is unchanged, in one step for all
  // other writes. Returns Busy, and writes nothing, if it has changed.
  Status WriteChecked(const WriteOptions& options, WriteBatch* batch,
                      const CommitCheck& check);
  // Returns Busy if the key has an update after `since`.
  Status CheckUnchanged(ColumnFamilyHandle* family, const Slice& key,
                        SequenceNumber since);

  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override;
  using DefaultFamilyCalls::MultiGet;
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
  using DefaultFamilyCalls::NewIterator;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override;
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  PinnedSnapshot* BeginReadTransaction() override;

  Status CreateColumnFamily(const ColumnFamilyOptions& options,
                            const std::string& name,
                            ColumnFamilyHandle** handle) override;
  Status DropColumnFamily(ColumnFamilyHandle* family) override;
  using DB::CreateColumnFamilies;
  Status CreateColumnFamilies(
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles) override;
  Status DropColumnFamilies(
      const std::vector<ColumnFamilyHandle*>& families) override;
  ColumnFamilyHandle* DefaultColumnFamily() const override {
    return default_handle_.get();
  }
  using DefaultFamilyCalls::GetProperty;
  bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                   std::string* value) override;
  using DefaultFamilyCalls::GetIntProperty;
  bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                      uint64_t* value) override;
  bool GetMapProperty(ColumnFamilyHandle* family, const Slice& property,
                      std::map<std::string, std::string>* value) override;
  bool GetAggregatedIntProperty(const Slice& property,
                                uint64_t* value) override;
  using DefaultFamilyCalls::GetApproximateSizes;
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             size_t count, uint64_t* sizes) override;
  using DefaultFamilyCalls::Flush;
  Status Flush(const FlushOptions& options,
               ColumnFamilyHandle* family) override;
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& families) override;
  using DefaultFamilyCalls::CompactRange;
  Status CompactRange(const CompactRangeOptions& options,
                      ColumnFamilyHandle* handle, const Slice* begin,
                      const Slice* end) override;
  using DefaultFamilyCalls::SetOptions;
  Status SetOptions(ColumnFamilyHandle* handle,
                    const std::map<std::string, std::string>& changes) override;

  Status SyncWAL() override;
  Status FlushWAL(bool sync) override;
  Status Resume() override;
  void CancelAllBackgroundWork(bool wait) override;
  Status CreateCheckpoint(const std::string& directory) override;
  Status WaitForCompact() override;
  Status VerifyChecksum() override;
  uint64_t GetLatestSequenceNumber() const override;
  Status Close() override;
  Status TryCatchUpWithPrimary() override;
  Status Promote() override;

  // ---- Tables in and out: db/ingestion ----
  Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& arguments) override;
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& family_options,
                                      const std::string& name,
                                      const ImportColumnFamilyOptions& options,
                                      const ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) override;

  // ---- Live files, and calls on single tables ----
  Status DisableFileDeletions() override;
  Status EnableFileDeletions() override;
  Status GetLiveFiles(std::vector<std::string>* files,
                      uint64_t* manifest_file_size, bool flush) override;
  Status GetLiveFilesStorageInfo(
      const LiveFilesStorageInfoOptions& options,
      std::vector<LiveFileStorageInfo>* files) override;
  void GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) override;
  void GetColumnFamilyMetaData(ColumnFamilyHandle* handle,
                               ColumnFamilyMetaData* metadata) override;
  Status GetSortedWalFiles(VectorWalPtr* files) override;
  Status GetUpdatesSince(
      uint64_t sequence, std::unique_ptr<TransactionLogIterator>* iterator,
      const TransactionLogIterator::ReadOptions& options) override;
  Status GetCurrentWalFile(std::unique_ptr<WalFile>* file) override;
  Status GetCreationTimeOfOldestFile(uint64_t* creation_time) override;
  Status DeleteFilesInRanges(ColumnFamilyHandle* handle, const RangePtr* ranges,
                             size_t count, bool include_end) override;
  Status CompactFiles(const CompactionOptions& options,
                      ColumnFamilyHandle* handle,
                      const std::vector<std::string>& inputs, int output_level,
                      std::vector<std::string>* outputs) override;
  Status SuggestCompactRange(ColumnFamilyHandle* handle, const Slice* begin,
                             const Slice* end) override;
  Status PromoteL0(ColumnFamilyHandle* handle, int target_level) override;
  Status GetPropertiesOfAllTables(ColumnFamilyHandle* handle,
                                  TablePropertiesCollection* result) override;
  Status GetPropertiesOfTablesInRange(
      ColumnFamilyHandle* handle, const Range* ranges, size_t count,
      TablePropertiesCollection* result) override;

  // ---- Options as text, and names ----
  const std::string& GetName() const override { return core_.directory.name(); }
  Env* GetEnv() const override;
  Options GetOptions(ColumnFamilyHandle* handle) const override;
  DBOptions GetDBOptions() const override;
  Status SetDBOptions(
      const std::map<std::string, std::string>& changes) override;

  // ---- Further reads: db_further_reads.cc ----
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found) override;
  Status GetMergeOperands(const ReadOptions& options,
                          ColumnFamilyHandle* family, const Slice& key,
                          PinnableSlice* operands,
                          GetMergeOperandsOptions* limits, int* count) override;

 private:
  // ---- Opening, closing, column families, and fork() ----
  Status BeginLocked(DbOpening* opening) VARVE_REQUIRES(kDbMutex);
  // Returns the names' families, or the ones before the first that cannot be
  // created, and sets *status.
  std::vector<std::unique_ptr<ColumnFamily>> NewFamilies(
      const std::vector<ColumnFamilyDescriptor>& wanted, Status* status);
  Status AddFamilies(const std::vector<ColumnFamilyDescriptor>& wanted,
                     VersionEdit* tables,
                     std::vector<ColumnFamilyHandle*>* handles);
  Status AddFamiliesLocked(std::vector<std::unique_ptr<ColumnFamily>> families,
                           VersionEdit* tables = nullptr)
      VARVE_REQUIRES(kDbMutex);
  Status DropFamilies(const std::vector<ColumnFamilyHandle*>& handles,
                      bool* dropped);
  // For a database that has become writable.
  void StartBackgroundLocked() VARVE_REQUIRES(kDbMutex);
  void RaiseThreadsLocked() VARVE_REQUIRES(kDbMutex);
  void NoteChangesLocked(const std::string& changed,
                         const std::map<std::string, std::string>& changes)
      VARVE_REQUIRES(kDbMutex);
  OptionsDocument PresentOptionsLocked() const VARVE_REQUIRES(kDbMutex);
  void UpdateOptionsFile() VARVE_EXCLUDES(kDbMutex);
  bool IsClosed() VARVE_EXCLUDES(kDbMutex);
  Status CloseLocked() VARVE_REQUIRES(kDbMutex);
  void ReleaseAllLocked() VARVE_REQUIRES(kDbMutex);
  Status SyncLogAtClose();
  void NoteLogsEndLocked() VARVE_REQUIRES(kDbMutex);
  bool WorkRunsLocked() const VARVE_REQUIRES(kDbMutex);
  void StopJobsLocked() VARVE_REQUIRES(kDbMutex);
  void WaitForBackgroundLocked() VARVE_REQUIRES(kDbMutex);
  void InForkedChild() override;
  void TakeOverLocked(bool waits) VARVE_REQUIRES(kDbMutex);
  bool AbandonInheritedLocked() VARVE_REQUIRES(kDbMutex);

  // ---- Writing ----
  // Writes the batch if the condition holds.
  Status WriteIf(const WriteOptions& options, WriteBatch* batch,
                 WriteQueue::Condition* condition);
  template <bool kConditional>
  Status MeasureWrite(const WriteOptions& options, WriteBatch* batch,
                      const WriteQueue::SingleUpdate* update,
                      WriteQueue::Condition* condition = nullptr);
  template <bool kConditional>
  Status PassQueue(const WriteOptions& options, WriteBatch* batch,
                   const WriteQueue::SingleUpdate* update,
                   WriteQueue::Condition* condition);
  Status WriteThroughQueue(const WriteOptions& options, WriteBatch* batch,
                           const WriteQueue::SingleUpdate* update = nullptr);
  Status CheckBatch(const WriteOptions& options, WriteBatch* batch,
                    const WriteQueue::SingleUpdate* update);
  [[gnu::noinline]] Status CheckUpdates(WriteBatch* batch);
  // Of a group that is logged.
  struct Written {
    SequenceNumber first;
    SequenceNumber next;  // After its last update.
    size_t bytes;
    bool has_families;  // Beside the default one.
  };
  Status CommitGroup(WriteQueue::Writer* leader);
  [[gnu::noinline]] Status InsertOverlapping(const WriteQueue::Group& group,
                                             const Written& written);
  void LookAtFull(const WriteQueue::Group& group);
  [[gnu::noinline]] bool WriteLarge(const WriteOptions& options,
                                    WriteBatch* batch, Status* status);
  Status PublishLarge(LargeBatch* large);
  void InsertAll(const WriteQueue::Group& group);
  void CountWritten(const WriteQueue::Group& group, Written written);
  [[gnu::noinline]] void ForgetDeadRanges();
  [[gnu::noinline]] Status CommitAndWake(WriteQueue::Writer* leader);
  Status Insert(const WriteQueue::Writer& writer);
  [[gnu::noinline]] bool BoundsMerges(const WriteQueue::Writer& writer);
  [[gnu::noinline]] void InsertMerging(const WriteQueue::Group& group);
  void CountInFamilies(const WriteQueue::Writer& writer, size_t* default_bytes);
  class PreparedWrite;
  Status WriteInGroup(const WriteOptions& options, const WriteBatch& updates,
                      PreparedWrite* mine);
  void CommitPreparedGroup(WriteQueue::Writer* leader);
  Status ApplyPrepared(WriteBatch* updates);

  // ---- Flushes, compactions, errors, and a full device ----
  Status FlushFamilies(const FlushOptions& options,
                       std::vector<ColumnFamily*> families);
  Status CompactRangeOnce(ColumnFamily* family,
                          const CompactRangeOptions& options,
                          const UserKeyRange& range);
  // Flushes the memtables of all families.
  Status FlushAll();
  Status Cut(CheckpointCut* cut, OptionsDocument* options);
  Status CutTablesLocked(CheckpointCut* cut) VARVE_REQUIRES(kDbMutex);
  void EndCut(const CheckpointCut& cut);
  Status CheckFamily(ColumnFamilyHandle* handle, ColumnFamily** family);
  std::vector<FamilyTables> ListAllTables();
  void UnrefTables(const std::vector<FamilyTables>& families);
  Status ListWals(VectorWalPtr* files, bool only_newest);
  Status ReadProperties(ColumnFamily* family,
                        const std::vector<UserKeyRange>* ranges,
                        TablePropertiesCollection* result);
  Status ResumeAsLeaderLocked() VARVE_REQUIRES(kDbMutex);
  [[gnu::noinline]] Status DeleteWithoutSpace(const WriteOptions& options,
                                              WriteBatch* batch, Status status);
  void TryToResume();
  bool WatchesQuietLocked() const VARVE_REQUIRES(kDbMutex);
  void FlushInQuiet() VARVE_EXCLUDES(kDbMutex);
  uint64_t ShortestAgeLocked() const VARVE_REQUIRES(kDbMutex);
  Status DropCovered(ColumnFamily* family, bool* dropped);
  Status BecomeWritable(Takeover* takeover);

  DbCore core_;
  const std::shared_ptr<FamilyHandles> handles_;
  const std::unique_ptr<FamilyHandle> default_handle_;
  Flusher flusher_;
  WriteAdmission admission_;
  Compactor compactor_;
  DbReader reader_;  // Takes no mutex.
  DeadEntryCleanup cleanup_;
  QuietWatch quiet_watch_;
  AgeWatch age_watch_;
  LargeBatchWatch large_batches_;
  std::unique_ptr<Follower> follower_;  // Null unless it follows or has done.
  // Held during a catch-up and a promotion. Acquired before leadership.
  Mutex follower_mutex_;
  // Held while an OPTIONS file is written. Acquired before the DB mutex.
  Mutex options_files_mutex_;
  OptionsFiles options_files_ VARVE_GUARDED_BY(options_files_mutex_);
  // Calls of DisableFileDeletions that were not undone.
  int file_deletion_holds_ VARVE_GUARDED_BY(kDbMutex) = 0;
  // The streams of updates that were not destroyed.
  std::atomic<int> live_streams_{0};
  // Held while a checkpoint is created. Acquired before the DB mutex and
  // leadership.
  Mutex checkpoint_mutex_;
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

}  // namespace varve
