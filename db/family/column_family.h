// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// All that is one column family's: its options, memtables and tables, the
// SuperVersion that reads use, the write stall state and the state of
// compactions. The log, the sequence numbers and the snapshots are the
// database's.
//
// DBImpl holds the default family by value, so that a read finds its
// SuperVersionCache without a dependent load. A handle points to its family.
//
// Thread-safety: functions called ...Locked require the DB mutex. Only the
// leader of the write queue may call the functions marked "for the leader". The
// leader changes the current memtable with the mutex held, so either of the two
// suffices to read it. Options change with both held.
// Lifetime: counted. FamilySet frees a family that was dropped when nobody uses
// it any more.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_stats.h"
#include "db/compaction/table_output.h"
#include "db/dead_entries/dead_range_cleaner.h"
#include "db/dead_entries/dead_walks.h"
#include "db/memtable/memtable.h"
#include "db/memtable/write_buffer_budget.h"
#include "db/options/db_mutex.h"
#include "db/options/level_limit.h"
#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "db/version/version_set.h"
#include "db/write/debt_pace.h"
#include "db/write/flush_pace.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"
#include "table/reader/file_pool.h"
#include "table/reader/table_cache.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

// The state of compactions. Guarded by the DB mutex.
struct CompactionState {
  std::vector<const Compaction*> running;
  bool is_exclusive = false;  // A CompactRange excludes other compactions.
  CompactionStats stats[kNumLevels];
  uint64_t space_debt = 0;  // See CompactionPickerContext.
};

class ColumnFamily final : private SuperVersionDisposer,
                           private WriteBufferClient {
 public:
  // The remains of an abandoned family, which are never freed.
  struct AbandonedState {
    const SnapshotRegistry* snapshots;
    const SuperVersion* super_version;
    std::vector<MemTable*> memtables;
    std::unique_ptr<TableCache> table_cache;
    std::unique_ptr<FamilyVersions> versions;
  };

  // The parts that the database's families share. All must outlive them.
  struct Shared {
    Env* env;
    StatisticsImpl* stats;  // May be null.
    Mutex* mutex;           // The DB's.
    WriteQueue* write_queue;
    // Called with the mutex held when a reader has released memory that another
    // thread is to free.
    std::function<void()> free_later;
    // Returns the newest visible sequence number.
    std::function<SequenceNumber()> last_sequence;
    // Called after a reader has reported dead entries. Must not wait.
    std::function<void()> wake_cleaner;
    // Called when the budget of write buffers is exceeded and the family's
    // memtable is to be switched. Must not wait for a flush.
    std::function<void(ColumnFamily*)> request_switch;
    // The registry of snapshots. The default family creates it.
    SnapshotRegistry* snapshots = nullptr;
  };

  // `options` must outlive this object, unless the family owns them.
  ColumnFamily(std::string name, Options* options, const Shared& shared);
  ColumnFamily(std::string name, std::unique_ptr<Options> options,
               const Shared& shared);
  // REQUIRES: Close or Abandon was called.
  ~ColumnFamily() = default;
  ColumnFamily(const ColumnFamily&) = delete;
  ColumnFamily& operator=(const ColumnFamily&) = delete;

  // Creates the family's table cache on the database's pool of files. REQUIRES:
  // called once, before all other functions.
  void MakeTables(const std::string& db_path, const FileOptions& file_options,
                  FilePool* file_pool, Logger* info_log, VersionSet* versions);
  // Sets the first memtable to write to, and the immutable memtables.
  void BeginLocked(MemTable* memtable, std::vector<MemTable*> immutable)
      VARVE_REQUIRES(kDbMutex);
  bool HasBegunLocked() const VARVE_REQUIRES(kDbMutex) {
    return memtable_ != nullptr;
  }
  // The account of its memtables in the budget of write buffers; null without
  // one.
  WriteBufferAccount* account() const { return account_.get(); }
  // Call them when the memtable can be switched, and before it cannot any more.
  // REQUIRES: the mutex is not held, for the second.
  void JoinBudget() {
    if (account_ != nullptr) account_->Register(this);
  }
  void LeaveBudget() {
    if (account_ != nullptr) account_->Unregister();
  }
  // Releases the memtables and tables. Reads find nothing from now on, and that
  // the database is closed. REQUIRES: VersionSet::CloseLocked was called.
  void EmptyLocked() VARVE_REQUIRES(kDbMutex);
  // Releases everything. REQUIRES: all reads have ended; the mutex is not held.
  void Close() VARVE_EXCLUDES(kDbMutex);
  // Replaces Close in a child created by fork().
  AbandonedState Abandon();

  // ---- Identity ----

  const std::string& name() const { return name_; }
  uint32_t id() const { return versions_->id(); }
  const Options& options() const { return *options_; }
  Options* mutable_options() { return options_; }
  const InternalKeyComparator& comparator() const { return comparator_; }
  TableCache* table_cache() const { return table_cache_.get(); }
  FamilyVersions* versions() const { return versions_.get(); }
  Version* version() const { return versions_->current(); }
  // The settings of its tables. Set them when the id is known, before the first
  // job.
  void SetOutputContext(const std::string& db_path,
                        const std::string& db_identity,
                        const std::string& session_identity);
  const TableOutputContext* output_context() const { return &output_context_; }
  // Changes with leadership and the mutex held, so either suffices.
  bool is_dropped() const { return is_dropped_; }
  void SetDroppedLocked() VARVE_REQUIRES(kDbMutex) { is_dropped_ = true; }

  // A new family has one reference.
  void Ref() {
    // relaxed: the caller holds a reference, or the mutex of a live family.
    refs_.fetch_add(1, std::memory_order_relaxed);
  }
  // Releases a reference. If it was the last one, returns true, and the caller
  // must give the family to FamilySet::BuryLocked.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: all uses happen before the end.
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // ---- Reads ----

  // Usually takes no mutex.
  SuperVersionCache& super_versions() { return super_versions_; }
  const SuperVersionCache& super_versions() const { return super_versions_; }
  SnapshotRegistry* snapshots() const { return snapshots_; }
  // Dead entries that iterators remember and report, and what is done about
  // them.
  DeadWalks* dead_walks() { return &dead_walks_; }
  const DeadWalks* dead_walks() const { return &dead_walks_; }
  DeadRangeCleaner* cleaner() { return &cleaner_; }
  const DeadRangeCleaner* cleaner() const { return &cleaner_; }
  // Makes the current memtables and version visible to reads.
  void InstallSuperVersionLocked(bool closed) VARVE_REQUIRES(kDbMutex);
  // Returns true if MemTable::Overlaps is true for any memtable.
  bool MemTablesOverlap(const Slice* begin, const Slice* end)
      VARVE_EXCLUDES(kDbMutex);

  // ---- Memtables ----

  // Creates a memtable. For the leader. `family_count`: how many live families
  // the database has, with this one. Several fill their memtables side by side.
  // So the first memtable of a family is expected to get its share of a write
  // buffer, and a later one to get as large as the last: a larger index would
  // spread few entries over many pages.
  MemTable* NewMemTable(uint64_t wal_number, size_t family_count = 1) const;
  MemTable* memtable() const { return memtable_; }
  // Returns the memtables that wait for flush, oldest first.
  const std::vector<MemTable*>& immutable() const { return immutable_; }
  // Returns the flushed memtables that iterators and read transactions still
  // use.
  const std::vector<MemTable*>& flushed() const { return flushed_; }
  // REQUIRES: leadership or the mutex.
  bool MemTableIsFull() const {
    return memtable_->ApproximateMemoryUsage() > options_->write_buffer_size &&
           !memtable_->empty();
  }
  // Returns true if a new memtable is due.
  bool MustSwitchLocked() const VARVE_REQUIRES(kDbMutex) {
    return MemTableIsFull() || log_is_full_ ||
           (wants_switch_ && !memtable_->empty());
  }
  // Makes a new memtable due, unless the present one is empty.
  void RequestSwitchLocked() VARVE_REQUIRES(kDbMutex) { wants_switch_ = true; }
  // Makes a new memtable due in any case: its flush frees the log.
  void SetLogFullLocked() VARVE_REQUIRES(kDbMutex) { log_is_full_ = true; }
  // Returns true if no memtable has an update.
  bool IsAllFlushedLocked() const VARVE_REQUIRES(kDbMutex) {
    return memtable_->empty() && immutable_.empty();
  }
  // Returns the first log that the family needs. REQUIRES: the family has
  // memtables.
  uint64_t OldestLogLocked() const VARVE_REQUIRES(kDbMutex) {
    return immutable_.empty() ? memtable_->wal_number()
                              : immutable_.front()->wal_number();
  }
  // Returns true if one more memtable may wait for flush.
  bool SlotFreeLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns true if the next writer has to wait for a flush.
  bool AwaitsFlushLocked() const VARVE_REQUIRES(kDbMutex) {
    return MustSwitchLocked() && !SlotFreeLocked();
  }
  // Returns true if the memtables have updates written with disable_wal.
  // REQUIRES: leadership of the queue, or no writers.
  bool HasUnloggedLocked() const VARVE_REQUIRES(kDbMutex);
  // Makes `next` the current memtable. For the leader.
  void SwitchLocked(MemTable* next) VARVE_REQUIRES(kDbMutex);
  // Removes and returns the `count` oldest immutable memtables, which are in
  // tables. Give them to RetireLocked after the next install.
  std::vector<MemTable*> RemoveFlushedLocked(size_t count)
      VARVE_REQUIRES(kDbMutex);
  void RetireLocked(const std::vector<MemTable*>& flushed)
      VARVE_REQUIRES(kDbMutex);
  // Memtables to free without the mutex.
  bool HasObsoleteLocked() const VARVE_REQUIRES(kDbMutex) {
    return !obsolete_.empty();
  }
  std::vector<MemTable*> TakeObsoleteLocked() VARVE_REQUIRES(kDbMutex) {
    return std::exchange(obsolete_, {});
  }
  // Return how many memtables became immutable, and how many of them were
  // counted by CountFlushedLocked.
  uint64_t switched_count() const { return switched_count_; }
  uint64_t flushed_count() const { return flushed_count_; }
  void CountFlushedLocked(uint64_t count) VARVE_REQUIRES(kDbMutex) {
    flushed_count_ += count;
  }
  // Whether a flush of the family runs. There is one at a time.
  bool flush_runs() const { return flush_runs_; }
  void SetFlushRunsLocked(bool runs) VARVE_REQUIRES(kDbMutex) {
    flush_runs_ = runs;
  }
  // Tells the budget whether a flush is about to free the immutable memtables.
  void MarkFlushExpectedLocked(bool is_expected) VARVE_REQUIRES(kDbMutex);

  // ---- Writers ----

  // For the leader. Counts `bytes` of batches written to the memtable.
  void CountWritten(uint64_t bytes, bool logged) {
    written_bytes_ += bytes;
    Add(&user_bytes_, bytes);
    if (logged) Add(&logged_bytes_, bytes);
  }
  // Return the bytes of all batches, and the bytes of batches in the log.
  uint64_t user_bytes() const {
    return user_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }
  uint64_t logged_bytes() const {
    return logged_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }
  // For the leader. Returns true if it must call PauseMicrosLocked.
  bool PaceIsDue() const { return written_bytes_ >= pace_at_bytes_; }
  void MakePaceDueLocked() VARVE_REQUIRES(kDbMutex) { pace_at_bytes_ = 0; }
  // For the leader. Returns how long to pause, so that compactions keep up with
  // the writers, and no writer has to wait for the previous flush when the
  // memtable is full. The pace is due again at once after a pause, and
  // otherwise after at most `log_space` bytes. If `may_pause` is false, returns
  // 0, and later writers pause longer.
  uint64_t PauseMicrosLocked(uint64_t log_space, bool may_pause)
      VARVE_REQUIRES(kDbMutex);
  // Returns whether compactions can hardly keep up with the writers, or could
  // not at low priority on a busy machine.
  bool CompactionsAreUrgentLocked() const VARVE_REQUIRES(kDbMutex);
  FlushPace* flush_pace() { return &flush_pace_; }

  const WriteStallState& stall() const { return stall_; }
  // Updates stall() after its causes changed, and returns the causes.
  WriteDebt UpdateStallLocked() VARVE_REQUIRES(kDbMutex);
  // Returns why writes are stopped; kNone if they are not.
  StallCause StopCauseLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns how long a writer of `bytes` has to sleep. See WriteDelay::Charge.
  uint64_t DelayMicrosLocked(uint64_t bytes, bool may_sleep)
      VARVE_REQUIRES(kDbMutex);
  void CountStallLocked(StallCause cause, WritePressure pressure)
      VARVE_REQUIRES(kDbMutex);
  void AddStallMicrosLocked(uint64_t micros) VARVE_REQUIRES(kDbMutex);
  uint64_t stall_count() const { return stall_count_; }
  uint64_t stall_micros() const { return stall_micros_; }
  // Return how often and how long writers paused for compactions.
  uint64_t pace_count() const { return pace_count_; }
  uint64_t pace_micros() const { return pace_micros_; }

  // ---- Compactions ----

  CompactionState& compactions() { return compactions_; }
  const CompactionState& compactions() const { return compactions_; }
  // Records the duration of a flush of the `count` oldest immutable memtables
  // to tables of `table_bytes`. Call it before RemoveFlushedLocked.
  void MeasureFlushLocked(size_t count, uint64_t micros, uint64_t table_bytes)
      VARVE_REQUIRES(kDbMutex);
  // Record that a compaction begins and ends.
  void BeginCompactionLocked(Compaction* compaction) VARVE_REQUIRES(kDbMutex);
  void EndCompactionLocked(const Compaction* compaction, bool succeeded)
      VARVE_REQUIRES(kDbMutex);
  // Counts the edit's tables as the output of `flushes` flushes.
  void CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                          uint64_t micros) VARVE_REQUIRES(kDbMutex);

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  ColumnFamily(std::string name, std::unique_ptr<Options> owned,
               Options* options, const Shared& shared);

  // Adds to a count that only this thread changes.
  static void Add(std::atomic<uint64_t>* count, uint64_t bytes) {
    // relaxed: for a report.
    count->store(count->load(std::memory_order_relaxed) + bytes,
                 std::memory_order_relaxed);
  }

  void RequestSwitch() override { request_switch_(this); }
  void DisposeLocked(SuperVersion* super_version) override
      VARVE_REQUIRES(kDbMutex);
  void FreeLaterLocked() override VARVE_REQUIRES(kDbMutex) { free_later_(); }
  void UnrefMemTableLocked(MemTable* memtable) VARVE_REQUIRES(kDbMutex);
  // For the leader. Tells debt_pace_ how things are.
  void SampleDebtLocked(uint64_t now_us) VARVE_REQUIRES(kDbMutex);
  uint64_t DrainingMicrosLocked(uint64_t now_us) const VARVE_REQUIRES(kDbMutex);
  // For the leader. Return the bytes of batches per byte of the memtable's
  // memory, and how many fill it: as measured if it is half full, and otherwise
  // as they were with the last one that was.
  double BatchBytesPerMemoryByte() const;
  double FullBytes() const;
  // Returns 1 before the first flush that tells.
  double BatchBytesPerTableByteLocked() const VARVE_REQUIRES(kDbMutex);
  uint64_t FlushPauseMicrosLocked(uint64_t bytes, uint64_t now_us,
                                  uint64_t* step_bytes)
      VARVE_REQUIRES(kDbMutex);

  // Immutable.
  const std::string name_;
  const std::unique_ptr<Options> owned_options_;  // May be null.
  Options* const options_;                        // See DB::SetOptions.
  const InternalKeyComparator comparator_;
  Env* const env_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
  const std::function<void()> free_later_;
  const std::function<void(ColumnFamily*)> request_switch_;
  const std::shared_ptr<WriteBufferAccount> account_;  // May be null.
  VersionSet* version_set_ = nullptr;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<FamilyVersions> versions_;
  TableOutputContext output_context_;
  const bool owns_snapshots_;  // The default family does.
  // Deletes itself. It pins SuperVersions of the default family.
  SnapshotRegistry* const snapshots_;
  SuperVersionCache super_versions_;
  DeadWalks dead_walks_;
  DeadRangeCleaner cleaner_;
  std::atomic<int> refs_{1};
  bool is_dropped_ = false;

  MemTable* memtable_ = nullptr;  // Written to; see above.
  std::vector<MemTable*> immutable_;
  std::vector<uint64_t> immutable_bytes_;  // Of batches in immutable_.
  std::vector<MemTable*> flushed_;
  std::vector<MemTable*> obsolete_;
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  bool wants_switch_ = false;
  bool log_is_full_ = false;
  bool flush_runs_ = false;

  FlushPace flush_pace_;
  DebtPace debt_pace_;
  double relieved_bytes_ = 0;       // By compactions that have ended.
  double last_relieved_bytes_ = 0;  // At the last sample, and of running ones.
  double drained_bytes_ = 0;        // See DebtPace::Sample.
  uint64_t draining_us_ = 0;        // By compactions that have ended.
  uint64_t draining_since_us_ = 0;  // If any runs.
  // The highest, in bytes of batches per second. 0 until a memtable that was
  // not small was flushed.
  double flush_rate_ = 0;
  // Of the batches and tables of flushes; older flushes count less.
  double flushed_batch_bytes_ = 0;
  double flushed_table_bytes_ = 0;
  // Of the last memtable that was half full. Changed by the leader.
  double batch_bytes_per_memory_byte_ = 1;
  WriteDelay write_delay_;
  WriteStallState stall_;
  uint64_t stall_count_ = 0;
  uint64_t stall_micros_ = 0;
  uint64_t pace_count_ = 0;
  uint64_t pace_micros_ = 0;
  // Owned by the leader.
  uint64_t written_bytes_ = 0;  // Of batches, to memtable_.
  uint64_t last_bytes_ = 0;     // The same, of the last memtable.
  // written_bytes_ at which PaceIsDue is true next, and was true last.
  uint64_t pace_at_bytes_ = 0;
  uint64_t paced_bytes_ = 0;
  // Changed by the leader; any thread may read.
  std::atomic<uint64_t> user_bytes_{0};
  std::atomic<uint64_t> logged_bytes_{0};
  CompactionState compactions_;
};

}  // namespace varve
