// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logarithmic method (Bentley and Saxe, 1980), with immutable sets that are
// published by pointer and reclaimed by epochs. It holds the range deletions of
// one memtable. The sizes of the sets are decreasing powers of two, like the
// bits of the number of deletions. A new deletion is merged with the sets that
// are not larger than the merged set so far. So n deletions cost
// n log(n) * log(n) steps in total, and a read searches at most log(n) sets.
//
// Thread-safety: thread-safe. Readers take no mutex, except in CopySets and
// Sets.
//
// *Words and states.* `list_` is null until the first Add, then the current
// list of sets. A list and its sets never change.
// *Transitions.*
// T1 An Add stores a new list, release, with mutex_ held. Then it passes the
//    old list to Retire.
// T2 A reader inside a read-side critical section loads the list, acquire.
// *Why each order is needed.* T1 pairs with T2: a thread that sees the list
// sees the sets in it.
// *Bad interleavings prevented.*
// B1 A reader iterates over a list while an Add replaces it. The read-side
//    critical section keeps the list alive.
// B2 Two Adds start from the same list, and one deletion is lost. mutex_
//    prevents it.
// *Freshness and progress.* A reader that may see the deletion's sequence
// number is ordered after its Add, and so sees its list or a later one. Writers
// never delay readers.
// *Reclamation.* Retire. The memtable frees the last list.

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "table/block/range_tombstone_set.h"
#include "util/base/mutex.h"

namespace varve {

class RangeTombstoneMemTable {
 public:
  using SetList = std::vector<std::shared_ptr<const RangeTombstoneSet>>;

  // `comparator` must outlive this object.
  explicit RangeTombstoneMemTable(const InternalKeyComparator* comparator)
      : comparator_(comparator) {}
  RangeTombstoneMemTable(const RangeTombstoneMemTable&) = delete;
  RangeTombstoneMemTable& operator=(const RangeTombstoneMemTable&) = delete;
  // REQUIRES: no other thread uses this object any more.
  ~RangeTombstoneMemTable();

  // Adds a range deletion. Ignores a range without keys.
  void Add(const Slice& begin, const Slice& end, SequenceNumber sequence);

  bool empty() const {
    // relaxed: a reader that must see a deletion is ordered after its Add.
    return list_.load(std::memory_order_relaxed) == nullptr;
  }
  // Returns RangeTombstoneSet's MaxCovering over all sets.
  // REQUIRES: the caller is inside a read-side critical section.
  SequenceNumber MaxCovering(const Slice& user_key,
                             SequenceNumber sequence) const {
    return empty() ? 0 : AskSets(user_key, sequence);
  }
  // Copies the pointers to the sets, which keep the sets alive. For callers
  // outside a read-side critical section.
  template <typename List>
  void CopySets(List* sets) const {
    if (empty()) return;
    MutexLock lock(&mutex_);
    // relaxed: stored with the mutex held, and retired only after that.
    const SetList& list = *list_.load(std::memory_order_relaxed);
    sets->assign(list.begin(), list.end());
  }
  SetList Sets() const {
    SetList sets;
    CopySets(&sets);
    return sets;
  }

  size_t MemoryUsage() const {
    // relaxed: a statistic.
    return memory_usage_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Entry {
    std::string begin;
    std::string end;
    SequenceNumber sequence;
  };

  [[gnu::noinline]] SequenceNumber AskSets(const Slice& user_key,
                                           SequenceNumber sequence) const;

  const InternalKeyComparator* const comparator_;
  std::atomic<const SetList*> list_{nullptr};
  std::atomic<size_t> memory_usage_bytes_{0};

  mutable Mutex mutex_;
  std::deque<Entry> entries_ VARVE_GUARDED_BY(mutex_);
  size_t entry_bytes_ VARVE_GUARDED_BY(mutex_) = 0;
};

}  // namespace varve
