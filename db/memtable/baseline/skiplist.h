// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An insert-only lock-free skiplist of memtable entries (skip lists: Pugh,
// 1990), linked by compare-and-swap.
//
// Thread-safety: any threads may insert and read concurrently. Readers take no
// lock and write nothing.
//
// *Words and states.* A node's key never changes after the node is linked. A
// link `next[i]` only changes to a newly inserted node that sorts before the
// node it led to. Nothing is unlinked. The arena frees all nodes at once.
// *Transitions.*
// T1 Set a link by compare-and-swap with release, level by level from the
//    bottom.
// T2 Read links with acquire.
// *Why each order is needed.* T1 pairs with T2: a thread that reaches a node
// sees its key and its links of the levels below, which were written before.
// *Bad interleavings prevented.*
// B1 Two inserts find the same predecessor. The second compare-and-swap fails.
//    That level is searched again from the predecessor, which is still linked.
// B2 A reader sees a node on one level but not yet on a higher one. It still
//    finds the node, a little more slowly, because the bottom level has all
//    nodes.
// *Freshness and progress.* A compare-and-swap fails only because another
// insert succeeded.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/bytes/arena.h"
#include "varve/slice.h"

namespace varve {

class SkipList {
 public:
  static constexpr int kMaxHeight = 12;

  // `comparator` and `arena` must outlive the list.
  SkipList(const InternalKeyComparator* comparator, Arena* arena);
  SkipList(const SkipList&) = delete;
  SkipList& operator=(const SkipList&) = delete;

  // Allocates `size` bytes for an entry. The caller fills and inserts it.
  ArenaPlace AllocateEntry(size_t size);
  // Inserts the entry, which the list allocated. `key` is its internal key.
  // REQUIRES: the list has no entry with an equal internal key.
  void Insert(const ArenaPlace& entry, const Slice& key);

  class Iterator {
   public:
    explicit Iterator(const SkipList* list) : list_(list) {}
    bool Valid() const { return node_ != nullptr; }
    // REQUIRES: Valid().
    const char* entry() const;
    void Next();
    void Prev();
    // Moves to the first entry at or after the internal key.
    void Seek(const Slice& internal_key);
    void SeekToFirst();
    void SeekToLast();

   private:
    const SkipList* list_;
    const struct SkipListNode* node_ = nullptr;
  };

 private:
  using Node = SkipListNode;

  // Returns the place of the node's entry.
  ArenaPlace NewNode(size_t entry_size, int height);
  Node* FindGreaterOrEqual(const Slice& key) const;
  Node* FindLessThan(const Slice& key) const;
  // Sets *prev and *next to the nodes around `key` on one level. Starts at
  // `before`, which must sort before `key`.
  void FindOnLevel(const Slice& key, Node* before, int level, Node** prev,
                   Node** next) const;

  const InternalKeyComparator* comparator_;
  Arena* arena_;
  Node* head_;
  std::atomic<int> max_height_{1};
};

}  // namespace varve
