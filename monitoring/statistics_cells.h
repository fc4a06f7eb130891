// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where the counters of a Statistics are: which cell is what, and the three
// ways to keep sets of cells, of which each Statistics has one.
//
// Thread-safety: thread-safe, but for construction and destruction.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "monitoring/histogram.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "util/threads/per_cpu.h"
#include "varve/statistics.h"

namespace varve {

inline constexpr size_t kTickerCount = static_cast<size_t>(Ticker::kCount);
inline constexpr size_t kHistogramCount =
    static_cast<size_t>(HistogramType::kCount);

// Events that come together: one addition is one of each of their tickers.
// What a Get does most often is so counted by one. See BundleTickers in
// statistics_names.cc.
enum class Bundle : uint8_t {
  kGetFromMemtable,
  kGetDeletedInMemtable,
  kGetNowhere,  // Not found, or deleted, in tables.
  // Found in a table of that level.
  kGetL0,
  kGetL1,
  kGetL2AndUp,
  // And its filter was asked, and the block was in the cache.
  kGetL0Usual,
  kGetL1Usual,
  kGetL2AndUpUsual,
  // A leader's write of one update, for itself alone; to the log.
  kWriteOne,
  kWriteOneLogged,
  kCount,
};
inline constexpr size_t kBundleCount = static_cast<size_t>(Bundle::kCount);

struct StatisticsCells {
  using Cell = std::atomic<uint64_t>;

  static constexpr size_t Of(Ticker ticker) {
    return static_cast<size_t>(ticker);
  }
  static constexpr size_t Of(Bundle bundle) {
    return kTickerCount + static_cast<size_t>(bundle);
  }
  // Of a histogram: its sum, modulo 2^64; a pair of bounds, as in per_cpu.h;
  // and a count for each bucket, which come last.
  static constexpr size_t SumOf(size_t histogram) {
    return kTickerCount + kBundleCount + 3 * histogram;
  }
  static constexpr size_t BoundsOf(size_t histogram) {
    return SumOf(histogram) + 1;
  }
  static constexpr size_t BucketOf(size_t histogram, size_t bucket) {
    return kFirstBucket + Histogram::kBuckets * histogram + bucket;
  }
  static constexpr size_t kFirstBucket =
      kTickerCount + kBundleCount + 3 * kHistogramCount;
  static constexpr size_t kCount =
      kFirstBucket + Histogram::kBuckets * kHistogramCount;
};

// statistics=per_cpu.
using PerCpuStatisticsCells = PerCpuCells<StatisticsCells::kCount>;

// statistics=global: one set of atomic cells for all.
class GlobalStatisticsCells final {
 public:
  using Cell = StatisticsCells::Cell;

  void Add(size_t cell, uint64_t count) {
    // relaxed: a count orders nothing.
    cells_[cell].fetch_add(count, std::memory_order_relaxed);
  }
  void Record(size_t bounds, size_t cell, uint64_t value);

  const Cell* set() const { return cells_.data(); }
  Cell* set() { return cells_.data(); }

 private:
  std::array<Cell, StatisticsCells::kCount> cells_ = {};
};

// statistics=thread: a set a thread, which that thread alone writes. A query
// goes through all of them; a thread that ends leaves its counts to the set
// `retired`.
class ThreadStatisticsCells final {
 public:
  using Cell = StatisticsCells::Cell;

  ThreadStatisticsCells();
  ~ThreadStatisticsCells();
  ThreadStatisticsCells(const ThreadStatisticsCells&) = delete;
  ThreadStatisticsCells& operator=(const ThreadStatisticsCells&) = delete;

  void Add(size_t cell, uint64_t count) {
    Cell* const set = OwnSet();
    if (set == nullptr) [[unlikely]] {
      AddLate(cell, count);
      return;
    }
    Increase(&set[cell], count);
  }
  void Record(size_t bounds, size_t cell, uint64_t value) {
    Cell* const set = OwnSet();
    if (set == nullptr) [[unlikely]] {
      RecordLate(bounds, cell, value);
      return;
    }
    RecordIn(set, bounds, cell, value);
  }

  // Calls function(const Cell*) for each set, with a mutex held that lets no
  // thread come or go.
  template <typename Function>
  void ForEachSet(Function function) const;

  uint64_t used_bytes() const;
  uint64_t reserved_bytes() const;

  // The set of one thread in one owner.
  struct Set {
    ThreadStatisticsCells* owner = nullptr;  // Null once that is gone.
    uint64_t owner_number = 0;
    Cell* cells = nullptr;
    bool is_mapped = false;
  };
  // All sets of a thread, by the index of the owner.
  struct ThreadSets {
    Set** sets = nullptr;
    size_t size = 0;
    bool is_over = false;  // The thread is ending, and must not get any more.
  };
  // Leaves the counts to their owners. For the end of the thread.
  static void Retire(ThreadSets* sets);

 private:
  static constexpr size_t kSetBytes = StatisticsCells::kCount * sizeof(Cell);

  // One writer, so no atomic addition is needed.
  static void Increase(Cell* cell, uint64_t count) {
    // relaxed, both: this thread alone writes it, and a count orders nothing.
    cell->store(cell->load(std::memory_order_relaxed) + count,
                std::memory_order_relaxed);
  }
  static void Raise(Cell* cell, uint64_t value) {
    // relaxed, both: as above.
    if (cell->load(std::memory_order_relaxed) < value) {
      cell->store(value, std::memory_order_relaxed);
    }
  }

  static void RecordIn(Cell* set, size_t bounds, size_t cell, uint64_t value) {
    Raise(&set[bounds], value);
    Raise(&set[bounds + 1], ~value);
    Increase(&set[cell], 1);
  }

  // Null at the end of a thread, when its sets are gone: the destructors of its
  // other objects may still count. That goes to `retired_`.
  Cell* OwnSet();
  [[gnu::noinline, gnu::cold]] void AddLate(size_t cell, uint64_t count);
  [[gnu::noinline, gnu::cold]] void RecordLate(size_t bounds, size_t cell,
                                               uint64_t value);
  static void FreeCells(Set* set);
  [[gnu::noinline, gnu::cold]] Cell* AddSet();

  // Immutable after construction.
  uint64_t number_ = 0;  // Never given twice.
  size_t index_ = 0;     // Given again to a later owner.

  // Guarded by ThreadStatisticsMutex().
  std::vector<Set*> sets_;
  std::vector<Cell> retired_;
};

// Guards all sets of threads: who has which. Taken last, with any other held.
Mutex& ThreadStatisticsMutex();

[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local ThreadStatisticsCells::
    ThreadSets thread_statistics_sets;

inline ThreadStatisticsCells::Cell* ThreadStatisticsCells::OwnSet() {
  const ThreadSets& mine = thread_statistics_sets;
  if (index_ < mine.size) [[likely]] {
    const Set* const set = mine.sets[index_];
    if (set != nullptr && set->owner_number == number_) [[likely]] {
      return set->cells;
    }
  }
  return AddSet();
}

template <typename Function>
void ThreadStatisticsCells::ForEachSet(Function function) const {
  MutexLock lock(&ThreadStatisticsMutex());
  for (const Set* set : sets_) function(set->cells);
  function(retired_.data());
}

// Adds what a set holds to another, which nobody else writes.
void FoldStatisticsSet(const StatisticsCells::Cell* from,
                       StatisticsCells::Cell* to);

}  // namespace varve
