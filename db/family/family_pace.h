// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The law of pacing of one column family: how fast it may be written to, so
// that flushes and compactions keep up. It counts what is written, and knows
// when writers are slowed down, stopped, or are to pause.
//
// Thread-safety: functions called ...Locked require the DB mutex. Only the
// leader of the write queue may call the functions marked "for the leader".

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/family/family_compactions.h"
#include "db/family/family_memtables.h"
#include "db/options/db_mutex.h"
#include "db/version/version.h"
#include "db/write/debt_pace.h"
#include "db/write/flush_pace.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"
#include "varve/env.h"
#include "varve/options.h"

namespace varve {

class FamilyPace {
 public:
  // `stats` may be null. All must outlive this object.
  FamilyPace(const Options* options, Env* env, StatisticsImpl* stats,
             const FamilyMemtables* memtables,
             const FamilyCompactions* compactions)
      : options_(*options),
        env_(env),
        stats_(stats),
        memtables_(*memtables),
        compactions_(*compactions) {}
  FamilyPace(const FamilyPace&) = delete;
  FamilyPace& operator=(const FamilyPace&) = delete;

  // ---- Bytes ----

  // For the leader. Counts `bytes` of batches written to the memtable.
  void CountWritten(uint64_t bytes, bool logged) {
    written_bytes_ += bytes;
    Add(&user_bytes_, bytes);
    if (logged) Add(&logged_bytes_, bytes);
  }
  // For the leader. Returns the bytes of batches in the memtable.
  uint64_t written_bytes() const { return written_bytes_; }
  // Return the bytes of all batches, and the bytes of batches in the log.
  uint64_t user_bytes() const {
    return user_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }
  uint64_t logged_bytes() const {
    return logged_bytes_.load(std::memory_order_relaxed);  // relaxed: see Add.
  }

  // ---- Memtables and flushes ----

  // For the leader, before the memtable is switched.
  void BeforeSwitchLocked() VARVE_REQUIRES(kDbMutex);
  // Records the duration of a flush of the `count` oldest immutable memtables
  // to tables of `table_bytes`.
  void MeasureFlushLocked(size_t count, uint64_t micros, uint64_t table_bytes)
      VARVE_REQUIRES(kDbMutex);
  // Call it when the `count` oldest immutable memtables are removed.
  void ForgetFlushedLocked(size_t count) VARVE_REQUIRES(kDbMutex);
  FlushPace* flush_pace() { return &flush_pace_; }

  // ---- Pauses ----

  // For the leader. Returns true if it must call PauseMicrosLocked.
  bool IsDue() const { return written_bytes_ >= pace_at_bytes_; }
  void MakeDueLocked() VARVE_REQUIRES(kDbMutex) { pace_at_bytes_ = 0; }
  // For the leader. Returns how long to pause, so that compactions keep up with
  // the writers, and no writer has to wait for the previous flush when the
  // memtable is full. The pace is due again at once after a pause, and
  // otherwise after at most `log_space` bytes. If `may_pause` is false, returns
  // 0, and later writers pause longer. `version` is the current one.
  uint64_t PauseMicrosLocked(const Version& version, uint64_t log_space,
                             bool may_pause) VARVE_REQUIRES(kDbMutex);
  // Returns whether compactions can hardly keep up with the writers, or could
  // not at low priority on a busy machine.
  bool CompactionsAreUrgentLocked() const VARVE_REQUIRES(kDbMutex);
  // Return how often and how long writers paused for compactions.
  uint64_t pace_count() const { return pace_count_; }
  uint64_t pace_micros() const { return pace_micros_; }

  // ---- Stalls ----

  const WriteStallState& stall() const { return stall_; }
  // Updates stall() after its causes changed, and returns the causes. `version`
  // is the current one.
  WriteDebt UpdateStallLocked(const Version& version) VARVE_REQUIRES(kDbMutex);
  // Returns why writes are stopped; kNone if they are not.
  StallCause StopCauseLocked() const VARVE_REQUIRES(kDbMutex);
  // Returns how long a writer of `bytes` has to sleep. See WriteDelay::Charge.
  uint64_t DelayMicrosLocked(uint64_t bytes, bool may_sleep)
      VARVE_REQUIRES(kDbMutex);
  void CountStallLocked(StallCause cause, WritePressure pressure)
      VARVE_REQUIRES(kDbMutex);
  void AddStallMicrosLocked(uint64_t micros) VARVE_REQUIRES(kDbMutex);
  // Returns how many writes were slowed down or stopped for the cause.
  uint64_t StallCount(StallCause cause, WritePressure pressure) const {
    return stall_counts_[static_cast<size_t>(cause)]
                        [static_cast<size_t>(pressure)];
  }
  uint64_t stall_micros() const { return stall_micros_; }

 private:
  // Adds to a count that only this thread changes.
  static void Add(std::atomic<uint64_t>* count, uint64_t bytes) {
    // relaxed: for a report.
    count->store(count->load(std::memory_order_relaxed) + bytes,
                 std::memory_order_relaxed);
  }

  // For the leader. Tells debt_pace_ how things are.
  void SampleDebtLocked(const Version& version, uint64_t now_us)
      VARVE_REQUIRES(kDbMutex);
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

  const Options& options_;
  Env* const env_;
  StatisticsImpl* const stats_;
  const FamilyMemtables& memtables_;
  const FamilyCompactions& compactions_;

  // Owned by the leader.
  uint64_t written_bytes_ = 0;  // Of batches, to the memtable.
  // written_bytes_ at which IsDue is true next, and was true last.
  uint64_t pace_at_bytes_ = 0;
  uint64_t paced_bytes_ = 0;
  // Changed by the leader; any thread may read.
  std::atomic<uint64_t> user_bytes_{0};
  std::atomic<uint64_t> logged_bytes_{0};

  FlushPace flush_pace_;
  std::vector<uint64_t> immutable_bytes_;  // Of batches in memtables.
  // The highest, in bytes of batches per second. 0 until a memtable that was
  // not small was flushed.
  double flush_rate_ = 0;
  // Of the batches and tables of flushes; older flushes count less.
  double flushed_batch_bytes_ = 0;
  double flushed_table_bytes_ = 0;
  // Of the last memtable that was half full. Changed by the leader.
  double batch_bytes_per_memory_byte_ = 1;

  DebtPace debt_pace_;
  double last_relieved_bytes_ = 0;  // At the last sample.
  double drained_bytes_ = 0;        // See DebtPace::Sample.
  uint64_t pace_count_ = 0;
  uint64_t pace_micros_ = 0;

  WriteDelay write_delay_;
  WriteStallState stall_;
  // By cause and pressure.
  std::array<std::array<uint64_t, 3>, 5> stall_counts_{};
  uint64_t stall_micros_ = 0;
};

}  // namespace varve
