// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The state of one sorted set of keys. A database has one. It holds the
// memtables, the SuperVersion that reads use, the write stall state and the
// state of compactions. The tables are the current version of the shared
// VersionSet.
//
// DBImpl holds it by value, so that a read finds its SuperVersionCache without
// a dependent load.
//
// Thread-safety: functions called ...Locked require the DB mutex. Only the
// leader of the write queue may call the functions marked "for the leader". The
// leader changes the current memtable with the mutex held, so either of the two
// suffices to read it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_stats.h"
#include "db/memtable/memtable.h"
#include "db/options/level_limit.h"
#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "db/version/version_set.h"
#include "db/write/debt_pace.h"
#include "db/write/flush_pace.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

// The state of compactions. Guarded by the DB mutex.
struct CompactionState {
  std::vector<const Compaction*> running;
  CompactionStats stats[kNumLevels];
  uint64_t space_debt = 0;    // See CompactionPickerContext.
  int manual_count = 0;       // Calls of CompactRange.
  bool is_exclusive = false;  // One of them runs alone.
  // The error that pauses compactions: no space. Writes continue.
  Status error;
};

class ColumnFamily final : private SuperVersionDisposer {
 public:
  // The remains of an abandoned family, which are never freed.
  struct AbandonedState {
    const SnapshotRegistry* snapshots;
    const SuperVersion* super_version;
    std::vector<MemTable*> memtables;
  };

  // `mutex` is the DB's. `free_later` is called with it held when a reader has
  // released memory that another thread is to free. All must outlive this
  // object.
  ColumnFamily(const Options* options, const InternalKeyComparator* comparator,
               Env* env, StatisticsImpl* stats, Mutex* mutex,
               std::function<void()> free_later);
  // REQUIRES: Close or Abandon was called.
  ~ColumnFamily() = default;
  ColumnFamily(const ColumnFamily&) = delete;
  ColumnFamily& operator=(const ColumnFamily&) = delete;

  // REQUIRES: called once, before all other functions.
  void SetVersions(VersionSet* versions);
  // Sets the first memtable to write to, and the immutable memtables.
  void BeginLocked(MemTable* memtable, std::vector<MemTable*> immutable);
  bool HasBegunLocked() const { return memtable_ != nullptr; }
  // Releases everything. REQUIRES: all reads have ended; the mutex is not held.
  void Close() VARVE_EXCLUDES(*mutex_);
  // Replaces Close in a child created by fork().
  AbandonedState Abandon();

  // ---- Reads ----

  // Usually takes no mutex.
  SuperVersionCache& super_versions() { return super_versions_; }
  const SuperVersionCache& super_versions() const { return super_versions_; }
  SnapshotRegistry* snapshots() const { return snapshots_; }
  // Makes the current memtables and version visible to reads.
  void InstallSuperVersionLocked(bool closed);
  // Returns true if MemTable::Overlaps is true for any memtable.
  bool MemTablesOverlap(const Slice* begin, const Slice* end)
      VARVE_EXCLUDES(*mutex_);

  // ---- Memtables ----

  MemTable* NewMemTable(uint64_t wal_number) const;
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
  bool MustSwitchLocked() const { return MemTableIsFull() || log_is_full_; }
  // Returns true if one more memtable may wait for flush.
  bool SlotFreeLocked() const;
  // Returns true if the next writer has to wait for a flush.
  bool AwaitsFlushLocked() const {
    return MustSwitchLocked() && !SlotFreeLocked();
  }
  // Returns true if the memtables have updates written with disable_wal.
  // REQUIRES: leadership of the queue, or no writers.
  bool HasUnloggedLocked() const;
  // Makes `next` the current memtable. For the leader. `flush_runs`: whether a
  // flush is queued or runs.
  void SwitchLocked(MemTable* next, bool flush_runs);
  // Removes and returns the `count` oldest immutable memtables, which are in
  // tables. Give them to RetireLocked after the next install.
  std::vector<MemTable*> RemoveFlushedLocked(size_t count);
  void RetireLocked(const std::vector<MemTable*>& flushed);
  // Memtables to free without the mutex.
  bool HasObsoleteLocked() const { return !obsolete_.empty(); }
  std::vector<MemTable*> TakeObsoleteLocked() {
    return std::exchange(obsolete_, {});
  }
  // Return how many memtables became immutable, and how many of them were
  // counted by CountFlushedLocked.
  uint64_t switched_count() const { return switched_count_; }
  uint64_t flushed_count() const { return flushed_count_; }
  void CountFlushedLocked(uint64_t count) { flushed_count_ += count; }

  // ---- Writers ----

  // State that writers read without the mutex. relaxed everywhere: a writer
  // that sees it late writes once more, as if it had come earlier. The next
  // leader does see a failure to write the log, since this leader stores it
  // before it leaves the queue.
  bool StallStateIsClear() const {
    // relaxed: as above.
    return stall_bits_.load(std::memory_order_relaxed) == 0;
  }
  bool StallStateHasError() const {
    // relaxed: as above.
    return (stall_bits_.load(std::memory_order_relaxed) & kStallError) != 0;
  }
  // For the leader. Returns true if it may write without a check under the
  // mutex.
  bool HasSpace() const {
    // relaxed: as above.
    const uint32_t bits = stall_bits_.load(std::memory_order_relaxed);
    return (bits & ~kStallSlow) == 0 && !MemTableIsFull();
  }
  // REQUIRES: called after each change of stall() or of the error state.
  void UpdateStallStateLocked(bool has_error);
  // Stops writes in a child created by fork(). Every writer then takes the
  // mutex.
  void StopWritesInChild() {
    // relaxed: there is no other thread.
    stall_bits_.store(kStallError, std::memory_order_relaxed);
  }

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
  void MakePaceDueLocked() { pace_at_bytes_ = 0; }
  // For the leader. Returns how long to pause, so that compactions keep up with
  // the writers, and no writer has to wait for the previous flush when the
  // memtable is full. The pace is due again at once after a pause, and
  // otherwise after at most `log_space` bytes. If `may_pause` is false, returns
  // 0, and later writers pause longer.
  uint64_t PauseMicrosLocked(uint64_t log_space, bool may_pause);
  // Returns whether compactions can hardly keep up with the writers.
  bool CompactionsAreUrgentLocked() const {
    return debt_pace_.IsBinding() || stall_.pressure != WritePressure::kNone;
  }
  FlushPace* flush_pace() { return &flush_pace_; }
  // Marks the log as full until the next switch.
  void SetLogFullLocked() { log_is_full_ = true; }

  const WriteStallState& stall() const { return stall_; }
  // Updates stall() after its causes changed, and returns the causes.
  WriteDebt UpdateStallLocked();
  // Returns why writes are stopped; kNone if they are not.
  StallCause StopCauseLocked() const;
  // Returns how long a writer of `bytes` has to sleep.
  uint64_t DelayMicrosLocked(uint64_t bytes);
  void CountStallLocked(StallCause cause, WritePressure pressure);
  void AddStallMicrosLocked(uint64_t micros);
  uint64_t stall_count() const { return stall_count_; }
  uint64_t stall_micros() const { return stall_micros_; }
  // Return how often and how long writers paused for compactions.
  uint64_t pace_count() const { return pace_count_; }
  uint64_t pace_micros() const { return pace_micros_; }

  // ---- Compactions ----

  CompactionState& compactions() { return compactions_; }
  const CompactionState& compactions() const { return compactions_; }
  // Records the duration of a flush of the `count` oldest immutable memtables.
  // Call it before RemoveFlushedLocked.
  void MeasureFlushLocked(size_t count, uint64_t micros);
  // Record that a compaction begins and ends.
  void BeginCompactionLocked(Compaction* compaction);
  void EndCompactionLocked(const Compaction* compaction, bool succeeded);
  // Counts the edit's tables as the output of `flushes` flushes.
  void CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                          uint64_t micros);

 private:
  // The bits of the stall state.
  static constexpr uint32_t kStallError = 1;
  static constexpr uint32_t kStallStop = 2;
  static constexpr uint32_t kStallSlow = 4;

  // Adds to a count that only this thread changes.
  static void Add(std::atomic<uint64_t>* count, uint64_t bytes) {
    // relaxed: for a report.
    count->store(count->load(std::memory_order_relaxed) + bytes,
                 std::memory_order_relaxed);
  }

  void DisposeLocked(SuperVersion* super_version) override;
  void FreeLaterLocked() override { free_later_(); }
  void UnrefMemTableLocked(MemTable* memtable);
  // For the leader. Tells debt_pace_ how things are.
  void SampleDebtLocked(uint64_t now_us);
  uint64_t DrainingMicrosLocked(uint64_t now_us) const;
  uint64_t FlushPauseMicrosLocked(uint64_t bytes, uint64_t now_us,
                                  uint64_t* step_bytes);

  // Immutable.
  const Options* const options_;  // See DB::SetOptions.
  const InternalKeyComparator* const comparator_;
  Env* const env_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
  const std::function<void()> free_later_;
  VersionSet* versions_ = nullptr;
  // Deletes itself. It pins entries of this family.
  SnapshotRegistry* const snapshots_;
  SuperVersionCache super_versions_;

  MemTable* memtable_ = nullptr;  // Written to; see above.
  std::vector<MemTable*> immutable_;
  std::vector<uint64_t> immutable_bytes_;  // Of batches in immutable_.
  std::vector<MemTable*> flushed_;
  std::vector<MemTable*> obsolete_;
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  bool log_is_full_ = false;

  FlushPace flush_pace_;
  DebtPace debt_pace_;
  double relieved_bytes_ = 0;       // By compactions that have ended.
  double last_relieved_bytes_ = 0;  // At the last sample, and of running ones.
  double drained_bytes_ = 0;        // See DebtPace::Sample.
  uint64_t draining_us_ = 0;        // By compactions that have ended.
  uint64_t draining_since_us_ = 0;  // If any runs.
  double flush_rate_ = 0;  // The highest, in bytes of batches per second.
  double user_bytes_per_table_byte_ = 1;
  WriteDelay write_delay_;
  WriteStallState stall_;
  uint64_t stall_count_ = 0;
  uint64_t stall_micros_ = 0;
  uint64_t pace_count_ = 0;
  uint64_t pace_micros_ = 0;
  // Owned by the leader.
  uint64_t written_bytes_ = 0;  // Of batches, to memtable_.
  uint64_t full_bytes_ = 0;  // written_bytes_ when the last memtable was full.
  // written_bytes_ at which PaceIsDue is true next, and was true last.
  uint64_t pace_at_bytes_ = 0;
  uint64_t paced_bytes_ = 0;
  // Changed by the leader; any thread may read.
  std::atomic<uint64_t> user_bytes_{0};
  std::atomic<uint64_t> logged_bytes_{0};
  // Bits of kStall..., stored with the mutex.
  std::atomic<uint32_t> stall_bits_{0};

  CompactionState compactions_;
};

}  // namespace varve
