// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What belongs to one sorted set of keys, of which a database has one: the
// memtables, what its reads see (the SuperVersion), how fast its writers may
// be, and what its compactions are at. The tables are the current version of
// the VersionSet, which it shares.
//
// DBImpl holds it by value: a read finds its SuperVersionCache without a
// load that depends on another.
//
// Thread-safety: what is called ...Locked, with the DB mutex held; what is said
// to be for the leader, by the leader of the write queue. The memtable that is
// written to changes by the leader with the mutex held, so that either is
// enough to look at it.

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
#include "db/write/flush_pace.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"
#include "util/base/mutex.h"
#include "varve/options.h"

namespace varve {

// What compactions are at. Guarded by the DB mutex.
struct CompactionState {
  std::vector<const Compaction*> running;
  CompactionStats stats[kNumLevels];
  uint64_t space_debt = 0;    // See CompactionPickerContext.
  int manual_count = 0;       // Calls of CompactRange.
  bool is_exclusive = false;  // One of them wants to be alone.
  // Why compactions pause: they found no space. Writes may go on.
  Status error;
};

class ColumnFamily final : private SuperVersionDisposer {
 public:
  // What is left of one that is abandoned, never to be freed.
  struct Remains {
    const SnapshotRegistry* snapshots;
    const SuperVersion* super_version;
    std::vector<MemTable*> memtables;
  };

  // `mutex` is the DB's. `free_later` is called with it when a reader has let
  // go of what is then to be freed on another thread. All outlive this.
  ColumnFamily(const Options* options, const InternalKeyComparator* comparator,
               Env* env, StatisticsImpl* stats, Mutex* mutex,
               std::function<void()> free_later);
  // Close or Abandon was called.
  ~ColumnFamily() = default;
  ColumnFamily(const ColumnFamily&) = delete;
  ColumnFamily& operator=(const ColumnFamily&) = delete;

  // To be called once, first.
  void SetVersions(VersionSet* versions);
  // The first memtable to write to, and those that wait for flush already.
  void BeginLocked(MemTable* memtable, std::vector<MemTable*> immutable);
  bool HasBegunLocked() const { return memtable_ != nullptr; }
  // All reads have ended. REQUIRES: the mutex is not held.
  void Close() VARVE_EXCLUDES(*mutex_);
  // In place of that, in a child made by fork().
  Remains Abandon();

  // ---- Reads ----

  // Takes no mutex, in most cases.
  SuperVersionCache& super_versions() { return super_versions_; }
  const SuperVersionCache& super_versions() const { return super_versions_; }
  SnapshotRegistry* snapshots() const { return snapshots_; }
  // Makes the current memtables and version what reads see.
  void InstallSuperVersionLocked(bool closed);
  // As MemTable::Overlaps has it, of any memtable.
  bool MemTablesOverlap(const Slice* begin, const Slice* end)
      VARVE_EXCLUDES(*mutex_);

  // ---- Memtables ----

  MemTable* NewMemTable(uint64_t wal_number) const;
  MemTable* memtable() const { return memtable_; }
  // They wait for flush, oldest first.
  const std::vector<MemTable*>& immutable() const { return immutable_; }
  // Flushed, but still read by iterators and read transactions.
  const std::vector<MemTable*>& flushed() const { return flushed_; }
  // For the leader, or with the mutex.
  bool MemTableIsFull() const {
    return memtable_->ApproximateMemoryUsage() > options_->write_buffer_size &&
           !memtable_->empty();
  }
  // Whether another one is due.
  bool MustSwitchLocked() const { return MemTableIsFull() || log_is_full_; }
  // Whether one more may wait for flush.
  bool SlotFreeLocked() const;
  // Whether the next writer has to wait for one of them to be flushed.
  bool AwaitsFlushLocked() const {
    return MustSwitchLocked() && !SlotFreeLocked();
  }
  // Whether they have what was written with disable_wal. REQUIRES: the lead, or
  // that nobody writes.
  bool HasUnloggedLocked() const;
  // `next` is written to from now on. For the leader. `flush_runs`: whether a
  // flush is queued or runs.
  void SwitchLocked(MemTable* next, bool flush_runs);
  // Removes and returns the `count` oldest ones, which are in tables. After the
  // next install they must be passed to RetireLocked.
  std::vector<MemTable*> RemoveFlushedLocked(size_t count);
  void RetireLocked(const std::vector<MemTable*>& flushed);
  // What is to be freed, without the mutex.
  bool HasObsoleteLocked() const { return !obsolete_.empty(); }
  std::vector<MemTable*> TakeObsoleteLocked() {
    return std::exchange(obsolete_, {});
  }
  // How many became immutable, and how many of those were flushed, as far as
  // CountFlushedLocked was told.
  uint64_t switched_count() const { return switched_count_; }
  uint64_t flushed_count() const { return flushed_count_; }
  void CountFlushedLocked(uint64_t count) { flushed_count_ += count; }

  // ---- Writers ----

  // What writers have to know without the mutex. relaxed everywhere: a writer
  // who sees it late writes once more, as if it had come earlier; but a failure
  // to write the log is seen by the next leader, since this one stores it
  // before it leaves the queue.
  bool GateIsOpen() const {
    return gate_.load(std::memory_order_relaxed) == 0;  // relaxed: as above.
  }
  bool GateSaysError() const {
    // relaxed: as above.
    return (gate_.load(std::memory_order_relaxed) & kGateError) != 0;
  }
  // For the leader: whether it may write as things are.
  bool HasRoom() const {
    // relaxed: as above.
    const uint32_t gate = gate_.load(std::memory_order_relaxed);
    return (gate & ~kGateSlow) == 0 && !MemTableIsFull();
  }
  // After a change of stall(), or of whether there is an error.
  void UpdateGateLocked(bool has_error);
  // In a child made by fork(): every writer asks from now on.
  void CloseGateInChild() {
    // relaxed: there is no other thread.
    gate_.store(kGateError, std::memory_order_relaxed);
  }

  // For the leader: counts batches that were written to the memtable.
  void CountWritten(uint64_t bytes, bool logged) {
    written_bytes_ += bytes;
    Add(&user_bytes_, bytes);
    if (logged) Add(&logged_bytes_, bytes);
  }
  // Bytes of batches so far, and of those, what went to the log.
  uint64_t user_bytes() const {
    return user_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }
  uint64_t logged_bytes() const {
    return logged_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }
  // For the leader: whether to check if it must pause.
  bool PaceIsDue() const { return written_bytes_ >= pace_at_bytes_; }
  // Makes it due again after this many bytes.
  void SetPaceLocked(uint64_t bytes) {
    pace_at_bytes_ = written_bytes_ + bytes;
  }
  void MakePaceDueLocked() { pace_at_bytes_ = 0; }
  // For the leader: how long to pause, so that nobody has to wait at the end of
  // the memtable for the flush of the one before.
  uint64_t PauseMicrosLocked();
  FlushPace* flush_pace() { return &flush_pace_; }
  // The log has no room until the next switch.
  void SetLogFullLocked() { log_is_full_ = true; }

  const WriteStallState& stall() const { return stall_; }
  // To be called after a change of anything that slows writers down. Returns
  // the amounts of unfinished work.
  WriteDebt UpdateStallLocked();
  // Why no one may write; kNone if they may.
  StallCause StopCauseLocked() const;
  // Returns how long a writer of this many bytes has to sleep.
  uint64_t DelayMicrosLocked(uint64_t bytes);
  void CountStallLocked(StallCause cause, WritePressure pressure);
  void AddStallMicrosLocked(uint64_t micros);
  uint64_t stall_count() const { return stall_count_; }
  uint64_t stall_micros() const { return stall_micros_; }

  // ---- Compactions ----

  CompactionState& compactions() { return compactions_; }
  const CompactionState& compactions() const { return compactions_; }
  // Counts the edit's tables as written by this many flushes.
  void CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                          uint64_t micros);

 private:
  // Of what makes the gate.
  static constexpr uint32_t kGateError = 1;
  static constexpr uint32_t kGateStop = 2;
  static constexpr uint32_t kGateSlow = 4;

  // To a count that only this thread changes now.
  static void Add(std::atomic<uint64_t>* count, uint64_t bytes) {
    // relaxed: for a report.
    count->store(count->load(std::memory_order_relaxed) + bytes,
                 std::memory_order_relaxed);
  }

  void DisposeLocked(SuperVersion* super_version) override;
  void FreeLaterLocked() override { free_later_(); }
  void UnrefMemTableLocked(MemTable* memtable);

  // Immutable.
  const Options* const options_;  // See DB::SetOptions.
  const InternalKeyComparator* const comparator_;
  Env* const env_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
  const std::function<void()> free_later_;
  VersionSet* versions_ = nullptr;
  // Deletes itself. Here since what it pins is this family's.
  SnapshotRegistry* const snapshots_;
  SuperVersionCache super_versions_;

  MemTable* memtable_ = nullptr;  // Written to; see above.
  std::vector<MemTable*> immutable_;
  std::vector<MemTable*> flushed_;
  std::vector<MemTable*> obsolete_;
  uint64_t switched_count_ = 0;
  uint64_t flushed_count_ = 0;
  bool log_is_full_ = false;

  FlushPace flush_pace_;
  WriteDelay write_delay_;
  WriteStallState stall_;
  uint64_t stall_count_ = 0;
  uint64_t stall_micros_ = 0;
  // Owned by the leader.
  uint64_t written_bytes_ = 0;  // Of batches, to memtable_.
  uint64_t full_bytes_ = 0;     // The same, when the last one was full.
  // written_bytes_ at which PaceIsDue the next time, and was last.
  uint64_t pace_at_bytes_ = 0;
  uint64_t paced_bytes_ = 0;
  // Changed by the leader; anybody may look.
  std::atomic<uint64_t> user_bytes_{0};
  std::atomic<uint64_t> logged_bytes_{0};
  std::atomic<uint32_t> gate_{0};  // Bits of kGate..., stored with the mutex.

  CompactionState compactions_;
};

}  // namespace varve
