// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/baseline/skiplist_order.h"

#include "db/memtable/baseline/skiplist.h"
#include "db/memtable/memtable_iterator.h"
#include "util/threads/path_counter.h"
#include "util/threads/thread_arena.h"

namespace varve {

namespace {

// Counts each search; a SeekForPrev may be two.
class CountedIterator : public SkipList::Iterator {
 public:
  using SkipList::Iterator::Iterator;

  void Seek(const Slice& internal_key) {
    CountPath(PathCounter::kSkipList);
    SkipList::Iterator::Seek(internal_key);
  }
  void SeekToFirst() {
    CountPath(PathCounter::kSkipList);
    SkipList::Iterator::SeekToFirst();
  }
  void SeekToLast() {
    CountPath(PathCounter::kSkipList);
    SkipList::Iterator::SeekToLast();
  }
};

struct CountedSkipList : SkipList {
  using SkipList::SkipList;
  using Iterator = CountedIterator;
};

class SkipListOrder final : public MemTableOrder {
 public:
  SkipListOrder(const InternalKeyComparator* comparator, Arena* arena)
      : comparator_(comparator), list_(comparator, arena) {
    CountPath(PathCounter::kSkipList);
  }

  ArenaPlace AllocateEntry(size_t size) override {
    return list_.AllocateEntry(size);
  }
  void Insert(const ArenaPlace& entry, const Slice& key) override {
    list_.Insert(entry, key);
  }
  const char* LowerBound(const Slice& internal_key) const override {
    CountedIterator iterator(&list_);
    iterator.Seek(internal_key);
    return iterator.Valid() ? iterator.entry() : nullptr;
  }
  std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory) const override {
    return std::unique_ptr<InternalIterator>(
        new (memory) MemTableIterator<CountedSkipList>(comparator_, &list_));
  }

 private:
  const InternalKeyComparator* const comparator_;
  CountedSkipList list_;
};

}  // namespace

std::unique_ptr<MemTableOrder> NewSkipListOrder(
    const InternalKeyComparator* comparator, Arena* entries, Arena* /*nodes*/) {
  return std::make_unique<SkipListOrder>(comparator, entries);
}

}  // namespace varve
