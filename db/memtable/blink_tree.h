// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An insert-only B-link tree of memtable entries: a B-tree in which each node
// also has a link to its right sibling, so that a node can be split before its
// parent knows ("Efficient Locking for Concurrent Operations on B-Trees",
// Lehman and Yao, 1981). A search touches a node of four cache lines per
// level, fetched together, where a skiplist pays a miss for each comparison.
//
// Thread-safety: any number of threads may insert, and any number read, at
// once. Readers take no lock and write nothing.
//
// *Words and states.* A node has 14 slots of a key prefix and an item: an
// entry in a leaf, a child in an inner node, there with a separator, the entry
// whose key is the child's low key. Which of them are in use, and their order,
// is in the node's *word*:
//
//   bit 60   59..56   55..0
//   locked   count    14 slot numbers: `count` in key order, then the free ones
//
// A node's *low key* is that of its first item, except that a leftmost node,
// which has no left sibling, begins below all keys. `next` is the right
// sibling, and `high` the prefix of its low key. `version` counts splits.
// Whoever set the locked bit owns the node: only the owner stores to it.
//
// *Transitions.*
// T1 lock: compare-and-swap sets the locked bit, acquire.
// T2 insert: prefix and item are stored in a free slot, release each; then
//    the word with that slot in its place, unlocked, release.
// T3 split, locked all along: the upper half is copied to a new node, which is
//    born locked; then in this order are stored `high`, relaxed, and `next`,
//    the word without the upper half, and `version`, release each. If the new
//    item belongs here, its slot is then filled as in T2. A node that was the
//    root gets a parent, release. Both nodes are unlocked, release.
// T4 the new node is inserted in the level above, by T1 and T2 or T3.
// T5 read of a node: `version` acquire, word acquire, `high` relaxed, slots
//    acquire, `next` acquire if needed, `version` again, relaxed. If it moved,
//    the node is read again. Readers ignore the locked bit.
// T6 step right: if the key is above the low key of `next`, that is the node.
//
// *Invariants.*
// I1 Nothing is ever removed: the keys of a level only grow in number, and a
//    key moves right only, along `next`.
// I2 A node's low key is in slot 0 and never changes, as smaller keys are not
//    routed to it; leftmost nodes stay leftmost.
// I3 `high` and low key of `next` only sink.
// I4 The slots of a word do not change while the word stands. A slot that a
//    split has freed is refilled only after the split's store of `version`.
// I5 From any node whose low key is below the key, T6 leads to its place.
//
// *Why each order is needed.* T2's word pairs with T5's: who reads a slot
// number sees the slot, and what its item points to. T2's slots pair with
// T5's: who reads a slot that was refilled sees, when it reads `version`
// again, that it moved (I4); so that read may be relaxed. T3's word pairs with
// T5's, read before `high` and `next`: who misses the upper half sees the link
// to it. T3's `version` pairs with T5's first: who reads the new version sees
// the shrunk word, so that no word older than the version passes. `high` needs
// no order: the shrunk word brings it along, and who has the word from before
// need not step right. The releases of T2 and T3 pair with T1: an owner sees
// the node as the last one left it, and may read it relaxed. T1 needs no
// release, as it publishes nothing and stays in the release sequence of the
// store before.
//
// *Bad interleavings prevented.*
// B1 Two inserts take the same free slot. T1 lets one of them wait.
// B2 A reader has the word from before a split; the freed slots are refilled
//    with other keys, and it finds those in the wrong places. `version` moved.
// B3 A split stores `version` before the shrunk word: a reader pairs the new
//    version with the old word, and B2 goes unnoticed. Hence T3's order.
// B4 A reader sees the shrunk word but the old `next` and misses the upper
//    half. `next` is stored before and read after the word.
// B5 A reader, or a writer on its way, enters by a parent that does not know
//    the new node yet: by I5 it gets there all the same.
// B6 A writer, before it gets its lock, is overtaken by a split. It steps
//    right under the lock, before it looks for the place.
// B7 A new sibling of the root is split before there is a root above them. It
//    is born locked, and stays so until there is.
// B8 An iterator has copied a node; before it moves on along `next` the node
//    is split, or was while it copied, so that keys which it has passed lie in
//    the next node too. It skips what is not above the last key it copied.
//
// *Freshness and progress.* A read that starts after an Insert returned
// (happens-before) finds its entry: every word it reads is of that moment or
// later, and I1 and I5 lead to the entry. It may miss inserts that run while
// it does. A reader starts over on a node only when that node was split. A
// writer that is suspended delays the writers of its node, and of that node's
// new sibling, never a reader.
//
// *Reclamation.* None: nodes live as long as their arena.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "db/memtable/memtable_entry.h"
#include "table/block/internal_key.h"
#include "util/bytes/arena.h"
#include "varve/slice.h"

namespace varve {

// The moments of the protocol at which a test may let others run.
enum class BlinkPoint : uint8_t {
  kLockWanted,  // T1: the place is found, nothing is locked.
  kSlotFilled,  // T2: before the word.
  kLinked,      // T3: `next` is stored,
  kShrunk,      // the word,
  kVersioned,   // `version`.
  kParentLess,  // T4: before it.
  kWordRead,    // T5: version and word are read,
  kBoundRead,   // and `high`, if it is to be,
  kSlotsRead,   // and all the rest, but for the version again.
};
struct NoBlinkPause {
  static void At(BlinkPoint) {}
};

struct BlinkNode;

// `Pause::At(BlinkPoint)` is called at each of these moments.
template <typename Pause>
class BasicBlinkTree {
 public:
  static constexpr size_t kSlotCount = 14;

  // `entries` provides the memory of entries, `nodes` that of nodes: they may
  // be one, but nodes that lie together need fewer pages. All must outlive the
  // tree.
  BasicBlinkTree(const InternalKeyComparator* comparator, Arena* entries,
                 Arena* nodes);
  BasicBlinkTree(const BasicBlinkTree&) = delete;
  BasicBlinkTree& operator=(const BasicBlinkTree&) = delete;

  // Space for an entry of so many bytes, to be filled and then inserted.
  char* AllocateEntry(size_t size) {
    return entries_->AllocateAligned(kEntryOwnerBytes + size) +
           kEntryOwnerBytes;
  }
  // REQUIRES: no equal internal key is in the tree.
  void Insert(const char* entry);
  // The first entry at or behind the internal key; null if there is none.
  const char* LowerBound(const Slice& internal_key) const;

  // Stands on a copy of a node. Owned by one thread.
  class Iterator {
   public:
    explicit Iterator(const BasicBlinkTree* tree) : tree_(tree) {}
    bool Valid() const { return index_ < count_; }
    // REQUIRES: Valid().
    const char* entry() const { return entries_[index_]; }
    void Next() {
      // What comes next was written long ago, and elsewhere.
      if (index_ + kAhead < count_) {
        __builtin_prefetch(entries_[index_ + kAhead]);
      }
      if (++index_ == count_) NextNode();
    }
    void Prev() {
      if (index_ > 0) {
        --index_;
      } else {
        PrevNode();
      }
    }
    // To the first entry at or behind the internal key.
    void Seek(const Slice& internal_key);
    void SeekToFirst();
    void SeekToLast();

   private:
    friend class BasicBlinkTree;
    static constexpr size_t kAhead = 4;

    void NextNode();
    void PrevNode();

    const BasicBlinkTree* tree_;
    size_t index_ = 0;
    size_t count_ = 0;
    const BlinkNode* next_ = nullptr;
    const char* entries_[kSlotCount];
  };

 private:
  using Node = BlinkNode;
  struct Target;
  struct Path;

  Target TargetOf(const Slice& key) const;
  bool LowIsBelow(const Node* node, const Target& t) const;
  size_t Rank(const Node* node, uint64_t word, const Target& t) const;
  size_t RankAmongEqual(const Node* node, uint64_t word, size_t from,
                        const Target& t) const;
  Node* RightOf(const Node* node, const Target& t) const;
  Node* Descend(const Target& t, uint32_t level, Path* path) const;
  size_t Copy(const Node* node, const Target* t, Iterator* to) const;

  Node* NewNode(uint32_t level);
  uint64_t LockPlace(Node** node, const Target& t) const;
  static uint64_t Fill(Node* node, uint64_t word, size_t rank, uint64_t prefix,
                       void* item, const char* separator);
  Node* Split(Node* node, const Target& t, void* item, const char* separator);
  void GrowRoot(Node* left, Node* right);

  const InternalKeyComparator* const comparator_;
  Arena* const entries_;
  Arena* const nodes_;
  Node* const first_;  // The leftmost leaf.
  std::atomic<Node*> root_;
  // Where to look first for the place of a key above all others: a leaf that
  // is, or was not long ago, the rightmost one.
  std::atomic<Node*> last_;
};

using BlinkTree = BasicBlinkTree<NoBlinkPause>;
extern template class BasicBlinkTree<NoBlinkPause>;

}  // namespace varve
