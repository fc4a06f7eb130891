// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An insert-only skiplist of memtable entries.
//
// Thread-safety: any number of threads may insert, and any number read, at
// once. Readers take no lock and write nothing.
//
// Words and states. A node's key never changes once the node is linked; its
// links `next[i]` only ever change from one node to a newly inserted one that
// sorts before it. Nothing is unlinked or freed before the whole list goes
// with its arena.
// Transitions. T1: a link is set by compare-and-swap with release, level by
// level from the bottom. T2: links are read with acquire.
// Why. T1 pairs with T2: whoever reaches a node sees its key and its links of
// the levels below, which were written before.
// Bad interleavings. B1: two inserts find the same predecessor; the second
// compare-and-swap fails, and that level is searched again from the
// predecessor, which is still linked. B2: a reader sees a node on a level but
// not yet on a higher one: it finds it all the same, a little slower, since
// the bottom level alone holds the truth.
// Progress. An insert that fails a compare-and-swap does so because another
// one succeeded.

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

  // Both must outlive the list.
  SkipList(const InternalKeyComparator* comparator, Arena* arena);
  SkipList(const SkipList&) = delete;
  SkipList& operator=(const SkipList&) = delete;

  // Space for an entry of so many bytes, to be filled and then inserted.
  char* AllocateEntry(size_t size);
  // REQUIRES: no equal internal key is in the list.
  void Insert(const char* entry);

  class Iterator {
   public:
    explicit Iterator(const SkipList* list) : list_(list) {}
    bool Valid() const { return node_ != nullptr; }
    // REQUIRES: Valid().
    const char* entry() const;
    void Next();
    void Prev();
    // To the first entry at or behind the internal key.
    void Seek(const Slice& internal_key);
    void SeekToFirst();
    void SeekToLast();

   private:
    const SkipList* list_;
    const struct SkipListNode* node_ = nullptr;
  };

 private:
  using Node = SkipListNode;

  Node* NewNode(size_t entry_size, int height);
  Node* FindGreaterOrEqual(const Slice& key) const;
  Node* FindLessThan(const Slice& key) const;
  // Around `key` on one level, starting at `before`, which sorts before it.
  void FindOnLevel(const Slice& key, Node* before, int level, Node** prev,
                   Node** next) const;

  const InternalKeyComparator* comparator_;
  Arena* arena_;
  Node* head_;
  std::atomic<int> max_height_{1};
};

}  // namespace varve
