// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/range_tombstone_memtable.h"

#include <algorithm>

#include "util/threads/epoch.h"

namespace varve {

RangeTombstoneMemTable::~RangeTombstoneMemTable() {
  // relaxed: the caller sees all Adds.
  delete list_.load(std::memory_order_relaxed);
}

void RangeTombstoneMemTable::Add(const Slice& begin, const Slice& end,
                                 SequenceNumber sequence) {
  if (comparator_->CompareUser(begin, end) >= 0) return;
  const SetList* old = nullptr;
  {
    MutexLock lock(&mutex_);
    entries_.push_back({begin.ToString(), end.ToString(), sequence});
    // relaxed: stored with the mutex held.
    old = list_.load(std::memory_order_relaxed);
    auto next = std::make_unique<SetList>();
    if (old != nullptr) *next = *old;
    // Merge the newest entry with all sets that are not larger.
    size_t count = 1;
    while (!next->empty() && next->back()->size() <= count) {
      count += next->back()->size();
      next->pop_back();
    }
    std::vector<RangeTombstone> merged;
    merged.reserve(count);
    for (size_t i = entries_.size() - count; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      merged.push_back({entry.begin, entry.end, entry.sequence});
    }
    next->push_back(RangeTombstoneSet::Build(comparator_, merged));
    entry_bytes_ += sizeof(Entry) + begin.size() + end.size();
    size_t bytes = entry_bytes_;
    for (const auto& set : *next) bytes += set->ApproximateMemoryUsage();
    // relaxed: a statistic.
    memory_usage_bytes_.store(bytes, std::memory_order_relaxed);
    // T1. release pairs with the acquire of T2.
    list_.store(next.release(), std::memory_order_release);
  }
  if (old == nullptr) return;
  Retire(const_cast<SetList*>(old),
         [](void* list) { delete static_cast<SetList*>(list); });
}

SequenceNumber RangeTombstoneMemTable::AskSets(const Slice& user_key,
                                               SequenceNumber sequence) const {
  // T2. acquire pairs with the release of T1.
  const SetList& sets = *list_.load(std::memory_order_acquire);
  SequenceNumber result = 0;
  for (const auto& set : sets) {
    result = std::max(result, set->MaxCovering(user_key, sequence));
  }
  return result;
}

}  // namespace varve
