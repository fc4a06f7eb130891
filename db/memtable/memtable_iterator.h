// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An iterator over an ordered structure of memtable entries.

#include "db/memtable/memtable_entry.h"
#include "table/block/dead_walk.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"

namespace varve {

// Adapts a structure's iterator to InternalIterator. The structure is a
// template parameter, so that its calls are inlined.
// Thread-safety: owned by one thread.
template <typename Structure>
class MemTableIterator final : public InternalIterator {
 public:
  MemTableIterator(const InternalKeyComparator* comparator,
                   const Structure* structure)
      : InternalIterator(&position_),
        comparator_(comparator),
        iterator_(structure) {}

  void SeekToFirst() override {
    iterator_.SeekToFirst();
    Load();
  }
  void SeekToLast() override {
    iterator_.SeekToLast();
    Load();
  }
  void Seek(const Slice& internal_key) override {
    iterator_.Seek(internal_key);
    Load();
  }
  bool PrepareSeek(const Slice& internal_key, int step) override {
    if (step == 0) iterator_.Seek(internal_key);
    return true;
  }
  void FinishSeek(const Slice& /*internal_key*/) override { Load(); }
  void SeekForPrev(const Slice& internal_key) override {
    iterator_.Seek(internal_key);
    if (!iterator_.Valid()) iterator_.SeekToLast();
    // In a loop, because concurrent inserts may add entries after the key.
    while (iterator_.Valid() &&
           comparator_->Compare(EntryKey(iterator_.entry()), internal_key) >
               0) {
      iterator_.Prev();
    }
    Load();
  }
  void Next() override {
    iterator_.Next();
    Load();
  }
  void Prev() override {
    iterator_.Prev();
    Load();
  }
  void SkipDeadForward(DeadWalk* walk) override {
    if constexpr (requires { iterator_.SkipDeadForward(walk); }) {
      iterator_.SkipDeadForward(walk);
      Load();
    } else {
      SkipDeadBySteps(this, walk);
    }
  }
  void SkipDeadBackward(DeadWalk* walk) override {
    if constexpr (requires { iterator_.SkipDeadBackward(walk); }) {
      iterator_.SkipDeadBackward(walk);
      Load();
    }
  }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    SkipHiddenBySteps(this, deletions, walk);
  }
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    if constexpr (requires { iterator_.CollectDeletions(walk, deletions); }) {
      iterator_.CollectDeletions(walk, deletions);
    }
  }
  bool ResetForReuse() override {
    position_.valid = false;
    return true;
  }
  Status status() const override { return Status::OK(); }

 private:
  void Load() {
    position_.valid = iterator_.Valid();
    if (!position_.valid) return;
    position_.key = EntryKey(iterator_.entry());
    position_.value = EntryValue(position_.key);
  }

  const InternalKeyComparator* comparator_;
  typename Structure::Iterator iterator_;
  IteratorPosition position_;
};

}  // namespace varve
