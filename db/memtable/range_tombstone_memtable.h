// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The range deletions of one memtable. They lie in immutable sets of falling
// sizes, powers of two as the bits of their number: a new one is merged with
// the sets that are not larger than it has become. So n of them cost
// n log(n) * log(n) steps in all, and a read asks at most log(n) sets.
//
// Thread-safety: thread-safe. Readers take no mutex but in Sets.
//
// *Words and states.* `list_`: null until the first Add, then the current
// list of sets. A list and its sets never change.
// *Transitions.* T1 an Add stores a new list, release, with mutex_ held; then
// hands the old one to Retire. T2 a reader inside a read-side critical section
// loads it, acquire.
// *Why each order is needed.* T1 pairs with T2: who sees the list sees the sets
// in it.
// *Bad interleavings prevented.* B1 a reader walks a list while an Add takes it
// away: the read-side critical section keeps it. B2 two Adds start from one
// list and one deletion is lost: mutex_.
// *Freshness and progress.* A reader that may see the deletion's sequence
// number comes after its Add, and so sees its list or a later one. Writers
// never delay readers.
// *Reclamation.* Retire; the last list goes with the memtable.

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

  // `comparator` must outlive it.
  explicit RangeTombstoneMemTable(const InternalKeyComparator* comparator)
      : comparator_(comparator) {}
  RangeTombstoneMemTable(const RangeTombstoneMemTable&) = delete;
  RangeTombstoneMemTable& operator=(const RangeTombstoneMemTable&) = delete;
  // REQUIRES: no other thread uses it any more.
  ~RangeTombstoneMemTable();

  // A range without keys is left out.
  void Add(const Slice& begin, const Slice& end, SequenceNumber sequence);

  bool empty() const {
    // relaxed: who must see a deletion comes after its Add.
    return list_.load(std::memory_order_relaxed) == nullptr;
  }
  // As RangeTombstoneSet has it. REQUIRES: inside a read-side critical section.
  SequenceNumber MaxCovering(const Slice& user_key,
                             SequenceNumber sequence) const {
    return empty() ? 0 : AskSets(user_key, sequence);
  }
  // Copies the sets; they stay as long as the pointers do. For callers outside
  // of a read-side critical section.
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
