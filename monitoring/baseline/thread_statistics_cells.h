// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Thread-safety: thread-safe, except for construction and destruction.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "monitoring/statistics_cells.h"
#include "util/base/mutex.h"

namespace varve {

// statistics=thread: one set per thread, to which only that thread writes. A
// query reads all sets. A thread that ends adds its counts to the set
// `retired_`.
class ThreadStatisticsCells final : public StatisticsCellSets {
 public:
  ThreadStatisticsCells();
  ~ThreadStatisticsCells() override;
  ThreadStatisticsCells(const ThreadStatisticsCells&) = delete;
  ThreadStatisticsCells& operator=(const ThreadStatisticsCells&) = delete;

  void Add(size_t cell, uint64_t count) override {
    Increase(&OwnSet()[cell], count);
  }
  void Record(size_t bounds, size_t cell, uint64_t value) override {
    RecordIn(OwnSet(), bounds, cell, value);
  }

  void ForEachSet(
      const std::function<void(const Cell*)>& function) const override;
  const char* Path() const override { return "thread-local"; }
  uint64_t used_bytes() const override;
  uint64_t reserved_bytes() const override;

  // The set of one thread in one owner.
  struct Set {
    ThreadStatisticsCells* owner = nullptr;  // Null once it is destroyed.
    uint64_t owner_number = 0;
    Cell* cells = nullptr;
    bool is_mapped = false;
  };
  // All sets of a thread, indexed by owner.
  struct ThreadSets {
    Set** sets = nullptr;
    size_t size = 0;
  };
  // Adds the counts to their owners' retired sets, at the end of the thread. A
  // thread that counts afterwards gets sets again.
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

  Cell* OwnSet();
  static void FreeCells(Set* set);
  [[gnu::noinline, gnu::cold]] Cell* AddSet();

  // Immutable after construction.
  uint64_t number_ = 0;  // Never reused.
  size_t index_ = 0;     // Reused by a later owner.

  // Guarded by ThreadStatisticsMutex().
  std::vector<Set*> sets_;
  std::vector<Cell> retired_;
};

// Guards the sets of all threads and their assignment. It is the last mutex:
// any other may be held when it is taken.
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

}  // namespace varve
