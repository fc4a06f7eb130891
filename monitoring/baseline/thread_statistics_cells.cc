// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/baseline/thread_statistics_cells.h"

#include <algorithm>

#include "util/base/process_wide.h"
#include "util/threads/thread_exit.h"

namespace varve {

namespace {

// Which indexes have an owner. Guarded by ThreadStatisticsMutex().
std::vector<bool>& TakenIndexes() {
  static constinit ProcessWide<std::vector<bool>> taken;
  return taken.Get();
}

uint64_t last_owner_number = 0;  // Guarded by ThreadStatisticsMutex().

void RetireSets(void* sets) {
  ThreadStatisticsCells::Retire(
      static_cast<ThreadStatisticsCells::ThreadSets*>(sets));
}

}  // namespace

constinit thread_local ThreadStatisticsCells::ThreadSets thread_statistics_sets;

Mutex& ThreadStatisticsMutex() {
  static constinit ProcessWide<Mutex> mutex;
  return mutex.Get();
}

ThreadStatisticsCells::ThreadStatisticsCells()
    : retired_(StatisticsCells::kCount) {
  MutexLock lock(&ThreadStatisticsMutex());
  number_ = ++last_owner_number;
  std::vector<bool>& taken = TakenIndexes();
  const auto free = std::find(taken.begin(), taken.end(), false);
  index_ = static_cast<size_t>(free - taken.begin());
  if (free == taken.end()) taken.push_back(true);
  taken[index_] = true;
}

ThreadStatisticsCells::~ThreadStatisticsCells() {
  MutexLock lock(&ThreadStatisticsMutex());
  for (Set* set : sets_) {
    // By the number, the thread detects that the rest is unused.
    FreeCells(set);
    set->owner = nullptr;
  }
  TakenIndexes()[index_] = false;
}

void ThreadStatisticsCells::FreeCells(Set* set) {
  if (set->is_mapped) {
    ReleaseReserved(set->cells, kSetBytes);
  } else {
    delete[] set->cells;
  }
  set->cells = nullptr;
}

StatisticsCells::Cell* ThreadStatisticsCells::AddSet() {
  auto* const set = new Set;
  set->owner = this;
  set->owner_number = number_;
  set->cells = static_cast<Cell*>(ReserveZeroed(kSetBytes));
  set->is_mapped = set->cells != nullptr;
  if (!set->is_mapped) set->cells = new Cell[StatisticsCells::kCount]();
  ThreadSets& mine = thread_statistics_sets;
  // Before the mutex, which is taken last: this may take the loader's lock.
  if (mine.sets == nullptr) CallAtThreadExit(&RetireSets, &mine);
  MutexLock lock(&ThreadStatisticsMutex());
  if (mine.size <= index_) {
    const size_t size = std::max<size_t>(8, 2 * (index_ + 1));
    auto** const sets = new Set*[size]();
    std::copy_n(mine.sets, mine.size, sets);
    delete[] mine.sets;
    mine.sets = sets;
    mine.size = size;
  }
  delete mine.sets[index_];  // Its owner is destroyed.
  mine.sets[index_] = set;
  sets_.push_back(set);
  return set->cells;
}

void ThreadStatisticsCells::Retire(ThreadSets* sets) {
  MutexLock lock(&ThreadStatisticsMutex());
  for (size_t i = 0; i < sets->size; ++i) {
    Set* const set = sets->sets[i];
    if (set == nullptr) continue;
    if (set->owner != nullptr) {
      FoldStatisticsSet(set->cells, set->owner->retired_.data());
      std::vector<Set*>& all = set->owner->sets_;
      all.erase(std::find(all.begin(), all.end(), set));
      FreeCells(set);
    }
    delete set;
  }
  delete[] sets->sets;
  *sets = ThreadSets();
}

void ThreadStatisticsCells::ForEachSet(
    const std::function<void(const Cell*)>& function) const {
  MutexLock lock(&ThreadStatisticsMutex());
  for (const Set* set : sets_) function(set->cells);
  function(retired_.data());
}

uint64_t ThreadStatisticsCells::used_bytes() const {
  uint64_t bytes = 0;
  MutexLock lock(&ThreadStatisticsMutex());
  for (const Set* set : sets_) bytes += ResidentBytes(set->cells, kSetBytes);
  return bytes + kSetBytes;
}

uint64_t ThreadStatisticsCells::reserved_bytes() const {
  MutexLock lock(&ThreadStatisticsMutex());
  return (sets_.size() + 1) * kSetBytes;
}

}  // namespace varve
