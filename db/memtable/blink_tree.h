// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An insert-only B-link tree of memtable entries (Lehman and Yao, "Efficient
// Locking for Concurrent Operations on B-Trees", 1981). It is a B-tree in which
// each node also has a link to its right sibling. So a node can be split before
// its parent has the new node. A search reads one node per level. A leaf's
// three cache lines are fetched together, whereas a skiplist has a cache miss
// for each comparison.
//
// Thread-safety: any threads may insert and read concurrently. Readers take no
// lock and write nothing.
//
// *Words and states.* The first entry that is inserted is the *reference*. A
// key's *prefix* is its position relative to that (RelativePrefix), so that
// keys that begin with the same bytes differ in it. `reference_` is null until
// then.
//
// A node has 13 slots. A slot has a key prefix and an item. In a leaf the item
// is an entry. In an inner node it is a child with a separator, the entry whose
// key is the child's low key. Entries and separators are kept as positions in
// their arena, which take half the memory of addresses. Children are kept as
// addresses, since each search reads some. The node's *word* says which slots
// are in use, and in which order:
//
//   bit 60   55..52   51..0
//   locked   count    13 slot numbers: `count` in key order, then the free ones
//
// A node's *low key* is the key of its first item. A leftmost node, which has
// no left sibling, begins below all keys. `next` is the right sibling, and
// `high` is the prefix of its low key. `version` counts splits. The thread that
// set the locked bit owns the node. Only the owner stores to the node.
//
// *Transitions.*
// T0 the first insert: compare-and-swap changes `reference_` from null to the
//    entry, release. An insert whose exchange fails takes the entry that is
//    there, acquire.
// T1 lock: compare-and-swap sets the locked bit, acquire.
// T2 insert: store prefix and item in a free slot, release each; then store the
//    word with that slot at its rank, unlocked, release.
// T3 split, with the lock held: copy the upper half to a new node, which is
//    created locked. Then store, in this order: `high`, relaxed; `next`; the
//    word without the upper half; `version`; the last three release. If the new
//    item belongs in this node, then fill its slot as in T2. A node that was
//    the root gets a parent, release. Unlock both nodes, release.
// T4 insert the new node in the level above, by T1 and T2 or T3.
// T5 read: load `reference_`, acquire; if it is null, there are no entries. To
//    read a node: load `version`, acquire; the word, acquire; `high`, relaxed;
//    the slots, acquire; `next`, acquire, if needed; `version` again, relaxed.
//    If `version` has changed, read the node again. Readers ignore the locked
//    bit. To find a key's place, count the prefixes below the key's in all
//    slots, also free ones, acquire; then load the word again, relaxed. If that
//    is not the word from before, unlocked, do not use the count, but search
//    the slots of the word from before in their order.
// T6 step right: if the key is above the low key of `next`, go to that node.
// T7 prefetch, for an iterator: near the end of its copy of a node, read the
//    word of `next` and some of its slots, acquire, as hints. They are only
//    prefetched, and read again by T5 once the iterator gets there.
//
// *Invariants.*
// I1 Nothing is ever removed. The number of keys in a level only grows, and a
//    key moves only to the right, along `next`.
// I2 A node's low key is in slot 0 and never changes, because smaller keys are
//    not routed to the node. Leftmost nodes stay leftmost.
// I3 `high` and the low key of `next` only decrease.
// I4 The slots in a word do not change while the node has that word. A slot
//    that a split has freed is refilled only after the split's store of
//    `version`.
// I5 From any node whose low key is below the key, T6 leads to the key's place.
// I6 `reference_` changes once, before any slot is filled, so all prefixes are
//    relative to one key.
// I7 In a node that no thread owns, the prefixes of free slots are not below
//    the prefix of any key that belongs in the node. A slot that was never
//    filled has the highest prefix. A split frees slots with prefixes that are
//    at least `high`.
//
// *Why each order is needed.*
// T0 pairs with itself and with T5: a thread that computes a prefix sees the
//    reference's bytes, which were written before.
// T2's word pairs with T5's: a thread that reads a slot number sees the slot,
//    and the memory that its item points to.
// T2's slots pair with T5's: a thread that reads a refilled slot sees, when it
//    reads `version` again, that it has changed (I4). So that second load may
//    be relaxed. A thread that counts a slot that an insert has filled sees,
//    when it loads the word again, that the word is locked or has changed. So
//    that load may be relaxed, too.
// T3's word pairs with T5's, which is read before `high` and `next`: a thread
//    that misses the upper half sees the link to it.
// T3's `version` pairs with T5's first load: a thread that reads the new
//    version sees the shrunk word. So no word older than the version passes.
// `high` needs no order: the shrunk word publishes it, and a thread that has
//    the word from before the split need not step right.
// The releases of T2 and T3 pair with T1: an owner sees the node as the last
//    owner left it, and may read it relaxed. T1 needs no release, because it
//    publishes nothing and stays in the release sequence of the store before.
//
// *Bad interleavings prevented.*
// B1 Two inserts take the same free slot. T1 makes one of them wait.
// B2 A reader has the word from before a split. The freed slots are refilled
//    with other keys, and the reader finds these in the wrong places. It sees
//    that `version` has changed.
// B3 A split stores `version` before the shrunk word. A reader pairs the new
//    version with the old word, and does not detect B2. T3's order prevents it.
// B4 A reader sees the shrunk word but the old `next`, and misses the upper
//    half. `next` is stored before the word and read after it.
// B5 A reader, or a writer that descends, enters by a parent that does not have
//    the new node yet. By I5 it still gets there.
// B6 A split overtakes a writer before the writer has its lock. The writer
//    steps right with the lock held, before it looks for the place.
// B7 A new sibling of the root is split before a root exists above them. It is
//    created locked, and stays locked until the root exists.
// B8 An iterator has copied a node. The node is split before the iterator moves
//    along `next`, or during the copy. Keys that the iterator has passed are
//    then in the next node, too. It skips keys that are not above the last key
//    it copied.
// B9 Two inserts find the tree empty, and each takes its own entry as the
//    reference. The prefixes of one are out of order among those of the other.
//    Only one exchange of T0 succeeds.
// B10 A reader finds no reference, and searches with a prefix that is relative
//    to nothing, while the first entries arrive. It reads no node.
// B11 A node is split between T7's read of the word and its reads of slots.
//    The iterator prefetches entries that it does not come to, and returns
//    none.
// B12 A reader counts a slot that an insert has filled, and the word that it
//    loaded does not have that slot. Its rank is one too high. It finds that
//    the word is locked or has changed, and searches in order.
//
// *Freshness and progress.* A read that starts after an Insert returned
// (happens-before) finds the reference, and its entry: every word that it reads
// is from that moment or later, and I1 and I5 lead to the entry. A read may
// miss concurrent inserts. A reader retries a node only if that node was split.
// A suspended writer delays the writers of its node and of that node's new
// sibling, but never a reader.
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

// The points of the protocol at which a test may run other threads.
enum class BlinkPoint : uint8_t {
  kNoReference,  // T0: before the exchange.
  kLockWanted,   // T1: the place is found, nothing is locked.
  kSlotFilled,   // T2: before the store of the word.
  kLinked,       // T3: `next` is stored.
  kShrunk,       // T3: the word is stored.
  kVersioned,    // T3: `version` is stored.
  kParentLess,   // T4: before it begins.
  kWordRead,     // T5: version and word are loaded.
  kBoundRead,    // T5: `high` is loaded, if needed.
  kCounted,      // T5: the prefixes below are counted.
  kSlotsRead,    // T5: all is loaded, except the version again.
};
struct NoBlinkPause {
  static void At(BlinkPoint) {}
};

struct BlinkNode;
class DeadWalk;
class DeletionBatch;

// The tree calls `Pause::At(BlinkPoint)` at each of these points.
template <typename Pause>
class BasicBlinkTree {
 public:
  static constexpr size_t kSlotCount = 13;

  // Creates an empty tree. `entries` provides the memory for entries, and
  // `nodes` provides the memory for nodes. Both may be the same arena, but
  // separate nodes need fewer pages. All arguments must outlive the tree.
  BasicBlinkTree(const InternalKeyComparator* comparator, Arena* entries,
                 Arena* nodes);
  BasicBlinkTree(const BasicBlinkTree&) = delete;
  BasicBlinkTree& operator=(const BasicBlinkTree&) = delete;

  // Allocates `size` bytes for an entry. The caller fills and inserts it.
  ArenaPlace AllocateEntry(size_t size) { return entries_->Allocate(size); }
  // Inserts the entry, which the tree allocated. `key` is its internal key.
  // REQUIRES: the tree has no entry with an equal internal key.
  void Insert(const ArenaPlace& entry, const Slice& key);
  // Inserts a deletion's entry. Before the entry can be read, sets *mark to 1
  // if the next entry in order has the same user key, else leaves it.
  // REQUIRES: as Insert.
  void InsertDeletion(const ArenaPlace& entry, const Slice& key, char* mark);
  // An entry to insert into a tree, and its mark if it is a deletion; see
  // InsertDeletion.
  struct Insertion {
    BasicBlinkTree* tree;
    ArenaPlace entry;
    Slice key;
    char* mark;  // Null for other entries.
  };
  static constexpr size_t kMaxInsertions = 8;
  // Inserts up to kMaxInsertions entries, each as Insert or InsertDeletion of
  // its tree would. It takes less time, since the cache misses of their
  // searches overlap. REQUIRES: as Insert for each; count > 0.
  static void InsertMany(const Insertion* insertions, size_t count);
  // Returns the first entry at or after the internal key, or null.
  const char* LowerBound(const Slice& internal_key) const;

  // Iterates over entries, on a copy of the current node.
  // Thread-safety: owned by one thread.
  class Iterator {
   public:
    explicit Iterator(const BasicBlinkTree* tree) : tree_(tree) {}
    bool Valid() const { return index_ < count_; }
    // REQUIRES: Valid().
    const char* entry() const { return entries_[index_]; }
    void Next() {
      // The next entries are probably not in the processor's cache.
      if (index_ + kAhead < count_) {
        __builtin_prefetch(entries_[index_ + kAhead]);
      } else if (index_ + kAhead == count_) {
        PrefetchNextNode();
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
    // Moves to the first entry at or after the internal key.
    void Seek(const Slice& internal_key);
    void SeekToFirst();
    void SeekToLast();
    // Move over dead entries, as InternalIterator's functions do.
    // REQUIRES: Valid(), and each deletion in the tree has a mark.
    void SkipDeadForward(DeadWalk* walk);
    void SkipDeadBackward(DeadWalk* walk);
    void CollectDeletions(const DeadWalk& walk, DeletionBatch* deletions) const;

   private:
    friend class BasicBlinkTree;
    static constexpr size_t kAhead = 4;

    class LeafCursor;
    class Window;

    void PrefetchAhead() const;
    void PrefetchNextNode() const;
    void NextNode();
    void PrevNode();
    size_t CountDeadBefore(const DeadWalk& walk, size_t* deletions) const;

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

  // Returns the key with its prefix relative to the reference.
  Target TargetOf(const Slice& key, const char* reference) const;
  // The same. REQUIRES: the caller has an entry of the tree.
  Target TargetOf(const Slice& key) const;
  const char* SetReference(const char* entry);
  // Returns the reference, which is the entry if there is none yet.
  const char* ReferenceFor(const char* entry);
  bool LowIsBelow(const Node* node, const Target& t) const;
  template <bool kIsLeaf>
  size_t Rank(const Node* node, uint64_t word, const Target& t) const;
  template <bool kIsLeaf>
  size_t RankInCopy(const Node* node, uint64_t word, const Target& t) const;
  size_t CountBelow(const Node* node, const Target& t) const;
  template <bool kIsLeaf>
  size_t RankFrom(size_t below, const Node* node, uint64_t word,
                  const Target& t) const;
  size_t SearchRank(const Node* node, uint64_t word, const Target& t,
                    size_t rank) const;
  size_t RankAmongEqual(const Node* node, uint64_t word, size_t from,
                        const Target& t) const;
  Node* RightOf(const Node* node, const Target& t) const;
  Node* Step(Node* node, const Target& t, Path* path) const;
  Node* Descend(const Target& t, uint32_t level, Path* path) const;
  size_t Copy(const Node* node, const Target* t, Iterator* to) const;
  bool CopyAhead(const Node* node, const char** entries, size_t* count,
                 const Node** next) const;

  template <bool kDeletion>
  void InsertAt(const ArenaPlace& entry, const Slice& key, char* mark);
  template <bool kDeletion>
  void InsertFrom(Node* node, Target t, Path* path, const char* reference,
                  uint32_t entry, char* mark);
  void InsertFound(Node* leaf, const Target& t, Path* path,
                   const char* reference, uint32_t entry, char* mark);
  bool PrecedesVersion(const Node* node, uint64_t word, const Target& t) const;

  // Returns the key of the slot's item. REQUIRES: it is not the first item of
  // a leftmost inner node.
  Slice KeyOf(const Node* node, size_t slot) const;
  Node* NewNode(uint32_t level);
  uint64_t LockPlace(Node** node, const Target& t) const;
  static uint64_t Fill(Node* node, uint64_t word, size_t rank, uint64_t prefix,
                       uint32_t entry, Node* child);
  Node* Split(Node* node, const Target& t, uint32_t entry, Node* child);
  void GrowRoot(Node* left, Node* right);

  const InternalKeyComparator* const comparator_;
  Arena* const entries_;
  Arena* const nodes_;
  Node* const first_;  // The leftmost leaf.
  std::atomic<const char*> reference_{nullptr};
  std::atomic<Node*> root_;
  // The leaf to try first for a key above all others: a leaf that is or
  // recently was the rightmost one.
  std::atomic<Node*> last_;
};

using BlinkTree = BasicBlinkTree<NoBlinkPause>;
extern template class BasicBlinkTree<NoBlinkPause>;

}  // namespace varve
