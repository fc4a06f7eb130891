// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The implementation of the tree, for sources that instantiate it.
// db/memtable/blink_tree.h describes the protocol.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>

#include "db/memtable/blink_tree.h"
#include "util/base/check.h"
#include "util/bytes/key_prefix.h"

namespace varve {

constexpr uint32_t kBlinkMaxHeight = 24;  // With nodes at least half full.

struct alignas(64) BlinkNode {
  static constexpr size_t kSlots = BasicBlinkTree<NoBlinkPause>::kSlotCount;
  static constexpr uint64_t kLocked = uint64_t{1} << 60;
  static constexpr int kCountShift = 52;
  // Slots 0 to 12, all free.
  static constexpr uint64_t kEmptyWord = 0xCBA9876543210;
  static constexpr uint64_t kNoBound = ~uint64_t{0};

  explicit BlinkNode(uint32_t node_level) : level(node_level) {
    // relaxed: the store that makes the node known publishes them.
    for (std::atomic<uint64_t>& prefix : prefixes) {
      prefix.store(kNoBound, std::memory_order_relaxed);
    }
  }

  static size_t Count(uint64_t word) { return word >> kCountShift & 15; }
  static size_t Slot(uint64_t word, size_t rank) {
    return word >> (4 * rank) & 15;
  }
  // Returns the bits of a word that hold the slot numbers below the rank.
  static uint64_t RanksBelow(size_t rank) {
    return (uint64_t{1} << (4 * rank)) - 1;
  }
  static uint64_t WithCount(uint64_t word, size_t count) {
    return (word & ~(uint64_t{15} << kCountShift)) | count << kCountShift;
  }

  uint64_t Prefix(uint64_t of_word, size_t rank) const {
    // T5. acquire pairs with the release of T2.
    return prefixes[Slot(of_word, rank)].load(std::memory_order_acquire);
  }
  // Returns the position of a leaf's entry, or of an inner node's separator.
  uint32_t Entry(uint64_t of_word, size_t rank) const {
    // T5. acquire pairs with the release of T2.
    return entries[Slot(of_word, rank)].load(std::memory_order_acquire);
  }
  // REQUIRES: it is an inner node.
  inline BlinkNode* Child(uint64_t of_word, size_t rank) const;

  std::atomic<uint64_t> word{kEmptyWord};
  std::atomic<uint32_t> version{0};
  const uint32_t level;  // 0: a leaf.
  std::atomic<BlinkNode*> next{nullptr};
  std::atomic<uint64_t> high{kNoBound};
  std::atomic<uint64_t> prefixes[kSlots];
  // In an inner node, the separators. They are read only if prefixes are equal,
  // and a leftmost node's first one is 0.
  std::atomic<uint32_t> entries[kSlots];
};
static_assert(sizeof(BlinkNode) == 192);

struct BlinkInnerNode : BlinkNode {
  using BlinkNode::BlinkNode;
  std::atomic<BlinkNode*> children[kSlots];
};
static_assert(sizeof(BlinkInnerNode) == 320);

inline BlinkNode* BlinkNode::Child(uint64_t of_word, size_t rank) const {
  VARVE_DCHECK(level > 0);
  // T5. acquire pairs with the release of T2.
  return static_cast<const BlinkInnerNode*>(this)
      ->children[Slot(of_word, rank)]
      .load(std::memory_order_acquire);
}

// Prefetches the cache lines of a leaf, so that their misses overlap. `node`
// may be null.
inline void PrefetchBlinkLeaf(const BlinkNode* node) {
  const auto address = reinterpret_cast<uintptr_t>(node);
  for (size_t offset = 0; offset < sizeof(BlinkNode); offset += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(address + offset));
  }
}
// Prefetches the cache lines with an inner node's children.
inline void PrefetchBlinkChildren(const BlinkNode* node) {
  const auto address = reinterpret_cast<uintptr_t>(node);
  for (size_t offset = sizeof(BlinkNode); offset < sizeof(BlinkInnerNode);
       offset += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(address + offset));
  }
}

// A key to search for.
template <typename Pause>
struct BasicBlinkTree<Pause>::Target {
  Slice key;
  uint64_t prefix;
};

// The nodes at which a descent left the levels 1 to `top`.
template <typename Pause>
struct BasicBlinkTree<Pause>::Path {
  uint32_t top = 0;
  Node* nodes[kBlinkMaxHeight];
};

template <typename Pause>
BasicBlinkTree<Pause>::BasicBlinkTree(const InternalKeyComparator* comparator,
                                      Arena* entries, Arena* nodes)
    : comparator_(comparator),
      entries_(entries),
      nodes_(nodes),
      first_(NewNode(0)),
      root_(first_),
      last_(first_) {}

template <typename Pause>
BlinkNode* BasicBlinkTree<Pause>::NewNode(uint32_t level) {
  VARVE_DCHECK(level < kBlinkMaxHeight);
  if (level == 0) {
    return new (nodes_->AllocateAligned(sizeof(Node), alignof(Node)))
        Node(level);
  }
  return new (nodes_->AllocateAligned(sizeof(BlinkInnerNode), alignof(Node)))
      BlinkInnerNode(level);
}

// ---- Search -----------------------------------------------------------------

template <typename Pause>
typename BasicBlinkTree<Pause>::Target BasicBlinkTree<Pause>::TargetOf(
    const Slice& key, const char* reference) const {
  // If the order of keys is not bytewise, all prefixes are equal.
  if (!comparator_->bytewise()) return Target{key, 0};
  return Target{key, RelativePrefix(ExtractUserKey(key),
                                    ExtractUserKey(EntryKey(reference)))};
}

template <typename Pause>
typename BasicBlinkTree<Pause>::Target BasicBlinkTree<Pause>::TargetOf(
    const Slice& key) const {
  // relaxed: whoever has an entry is ordered after T0.
  return TargetOf(key, reference_.load(std::memory_order_relaxed));
}

// Does T0 with this entry, if nobody has done it. Returns the reference.
template <typename Pause>
[[gnu::noinline]] const char* BasicBlinkTree<Pause>::SetReference(
    const char* entry) {
  Pause::At(BlinkPoint::kNoReference);
  const char* present = nullptr;
  // T0. release pairs with the acquire of T5 and of the next T0, acquire with
  // the release of the T0 that was first.
  return reference_.compare_exchange_strong(present, entry,
                                            std::memory_order_acq_rel,
                                            std::memory_order_acquire)
             ? entry
             : present;
}

// Returns whether the node's low key is below the target. REQUIRES: the node is
// not leftmost.
template <typename Pause>
inline bool BasicBlinkTree<Pause>::LowIsBelow(const Node* node,
                                              const Target& t) const {
  // relaxed: by I2 it was written before the node could be reached.
  const uint64_t low = node->prefixes[0].load(std::memory_order_relaxed);
  if (low != t.prefix) return low < t.prefix;
  return comparator_->Compare(KeyOf(node, 0), t.key) < 0;
}

template <typename Pause>
inline Slice BasicBlinkTree<Pause>::KeyOf(const Node* node, size_t slot) const {
  // T5. acquire pairs with the release of T2.
  return EntryKey(
      entries_->At(node->entries[slot].load(std::memory_order_acquire)));
}

// Returns how many keys of the word are below the target. The first key of an
// inner node always counts as below. REQUIRES: as CountBelow, this thread owns
// the node, and the target belongs there.
template <typename Pause>
template <bool kIsLeaf>
inline size_t BasicBlinkTree<Pause>::Rank(const Node* node, uint64_t word,
                                          const Target& t) const {
  return RankFrom<kIsLeaf>(CountBelow(node, t), node, word, t);
}

// The same for a thread that does not own the node. `word` may be locked. If
// the node was split, the result means nothing.
template <typename Pause>
template <bool kIsLeaf>
inline size_t BasicBlinkTree<Pause>::RankInCopy(const Node* node, uint64_t word,
                                                const Target& t) const {
  const size_t below = CountBelow(node, t);
  Pause::At(BlinkPoint::kCounted);
  // relaxed: see "Why", T2's slots.
  if (node->word.load(std::memory_order_relaxed) != (word & ~Node::kLocked))
      [[unlikely]] {
    return SearchRank(node, word, t, kIsLeaf ? 0 : 1);  // B12
  }
  return RankFrom<kIsLeaf>(below, node, word, t);
}

// Returns how many slots of a node have a prefix below the target's. Without
// branches, and no load has to wait for another.
template <typename Pause>
[[gnu::always_inline]] inline size_t BasicBlinkTree<Pause>::CountBelow(
    const Node* node, const Target& t) const {
  const uint64_t prefix = t.prefix;
  size_t below = 0;
#pragma GCC unroll 13
  for (const std::atomic<uint64_t>& other : node->prefixes) {
    // T5. acquire pairs with the release of T2.
    below += other.load(std::memory_order_acquire) < prefix ? 1 : 0;
  }
  return below;
}

// Returns the rank if `below` prefixes of the word are below the target's.
template <typename Pause>
template <bool kIsLeaf>
[[gnu::always_inline]] inline size_t BasicBlinkTree<Pause>::RankFrom(
    size_t below, const Node* node, uint64_t word, const Target& t) const {
  const size_t count = Node::Count(word);
  size_t rank = below;
  if constexpr (!kIsLeaf) rank += rank == 0 ? 1 : 0;
  // If all are below the target, none is equal.
  if (rank >= count || node->Prefix(word, rank) != t.prefix) [[likely]]
    return rank;
  return RankAmongEqual(node, word, rank, t);
}

// Does RankInCopy by a binary search among the word's slots, from `rank` on.
template <typename Pause>
[[gnu::noinline]] size_t BasicBlinkTree<Pause>::SearchRank(const Node* node,
                                                           uint64_t word,
                                                           const Target& t,
                                                           size_t rank) const {
  size_t end = Node::Count(word);
  while (rank < end) {
    const size_t middle = (rank + end) / 2;
    if (node->Prefix(word, middle) < t.prefix) {
      rank = middle + 1;
    } else {
      end = middle;
    }
  }
  if (rank >= Node::Count(word) || node->Prefix(word, rank) != t.prefix) {
    return rank;
  }
  return RankAmongEqual(node, word, rank, t);
}

// Returns the rank if the key at `from` is the first one with the target's
// prefix.
template <typename Pause>
[[gnu::noinline]] size_t BasicBlinkTree<Pause>::RankAmongEqual(
    const Node* node, uint64_t word, size_t from, const Target& t) const {
  // Most keys with one prefix differ in their next 8 bytes, which are compared
  // without a call of memcmp().
  const size_t prefix_end =
      comparator_->bytewise() ? RelativePrefixEnd(t.prefix) : SIZE_MAX;
  const auto second_prefix = [prefix_end](const Slice& key) -> uint64_t {
    const Slice user_key = ExtractUserKey(key);
    return user_key.size() <= prefix_end ? 0 : KeyPrefix(user_key, prefix_end);
  };
  const uint64_t of_target = second_prefix(t.key);
  const auto is_below = [&](const Slice& key) {
    const uint64_t of_key = second_prefix(key);
    if (of_key != of_target) [[likely]]
      return of_key < of_target;
    return comparator_->Compare(key, t.key) < 0;
  };
  size_t end = Node::Count(word);
  while (from < end) {
    const size_t middle = (from + end) / 2;
    const size_t slot = Node::Slot(word, middle);
    if (node->Prefix(word, middle) == t.prefix && is_below(KeyOf(node, slot))) {
      from = middle + 1;
    } else {
      end = middle;
    }
  }
  return from;
}

// Returns the right sibling if the target belongs there (T6), else null.
// REQUIRES: the node's word was read before, or the node is locked.
template <typename Pause>
inline BlinkNode* BasicBlinkTree<Pause>::RightOf(const Node* node,
                                                 const Target& t) const {
  // relaxed: a thread that has the shrunk word sees the bound stored before it.
  // For other threads the bound only saves a read of the sibling.
  if (t.prefix < node->high.load(std::memory_order_relaxed)) return nullptr;
  // T5. acquire pairs with the release of T3: B4.
  Node* const next = node->next.load(std::memory_order_acquire);
  return next != nullptr && LowIsBelow(next, t) ? next : nullptr;
}

// Returns a node of the level below `node`'s from which T6 leads to the
// target's place, or a right sibling if the target belongs there, or `node` to
// try again. If `path` is not null, stores the node that it leaves downwards.
template <typename Pause>
[[gnu::always_inline]] inline BlinkNode* BasicBlinkTree<Pause>::Step(
    Node* node, const Target& t, Path* path) const {
  // T5. acquire, both: pair with the release of T3, the word's of T2 too.
  const uint32_t version = node->version.load(std::memory_order_acquire);
  const uint64_t word = node->word.load(std::memory_order_acquire);
  Pause::At(BlinkPoint::kWordRead);
  if (Node* const right = RightOf(node, t)) return right;
  Pause::At(BlinkPoint::kBoundRead);
  Node* const child = node->Child(word, RankInCopy<false>(node, word, t) - 1);
  Pause::At(BlinkPoint::kSlotsRead);
  // relaxed: see "Why", T2's slots.
  if (node->version.load(std::memory_order_relaxed) != version) return node;
  PrefetchBlinkLeaf(child);
  if (node->level > 1) PrefetchBlinkChildren(child);
  if (path != nullptr) path->nodes[node->level] = node;
  return child;
}

// Returns a node of the level from which T6 leads to the target's place. If
// `path` is not null, stores the nodes above it there.
template <typename Pause>
inline BlinkNode* BasicBlinkTree<Pause>::Descend(const Target& t,
                                                 uint32_t level,
                                                 Path* path) const {
  // acquire pairs with the release of GrowRoot.
  Node* node = root_.load(std::memory_order_acquire);
  if (path != nullptr) path->top = node->level;
  while (node->level > level) node = Step(node, t, path);
  return node;
}

template <typename Pause>
const char* BasicBlinkTree<Pause>::LowerBound(const Slice& internal_key) const {
  // T5. acquire pairs with the release of T0.
  const char* const reference = reference_.load(std::memory_order_acquire);
  if (reference == nullptr) return nullptr;
  const Target t = TargetOf(internal_key, reference);
  const Node* node = Descend(t, 0, nullptr);
  for (;;) {
    // T5. acquire, both: pair with the release of T3, the word's of T2 too.
    const uint32_t version = node->version.load(std::memory_order_acquire);
    const uint64_t word = node->word.load(std::memory_order_acquire);
    Pause::At(BlinkPoint::kWordRead);
    const size_t rank = RankInCopy<true>(node, word, t);
    const char* result = nullptr;
    if (rank < Node::Count(word)) {
      result = entries_->At(node->Entry(word, rank));
    } else {
      // T5. acquire pairs with the release of T3: B4.
      const Node* const next = node->next.load(std::memory_order_acquire);
      if (next != nullptr) {
        if (LowIsBelow(next, t)) {
          node = next;
          continue;
        }
        // T5. acquire pairs with the release of T2.
        result = entries_->At(next->entries[0].load(std::memory_order_acquire));
      }
    }
    Pause::At(BlinkPoint::kSlotsRead);
    // relaxed: see "Why", T2's slots.
    if (node->version.load(std::memory_order_relaxed) == version) return result;
  }
}

// ---- Insert -----------------------------------------------------------------

// Does T1 at the node where the target belongs, which is *node or right of it,
// and sets *node to it. Returns the node's word without the locked bit.
template <typename Pause>
inline uint64_t BasicBlinkTree<Pause>::LockPlace(Node** node,
                                                 const Target& t) const {
  constexpr int kSpins = 100;
  for (int spins = 0;;) {
    std::atomic<uint64_t>& place = (*node)->word;
    // relaxed: T1 below checks that it has not changed.
    uint64_t word = place.load(std::memory_order_relaxed);
    // T1. acquire pairs with the release of T2 and T3; nothing is read through
    // a failed exchange, so relaxed there.
    if ((word & Node::kLocked) != 0 ||
        !place.compare_exchange_weak(word, word | Node::kLocked,
                                     std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      // The owner needs a few dozen instructions, unless it is not running.
      if (++spins % kSpins == 0) std::this_thread::yield();
      continue;
    }
    Node* const right = RightOf(*node, t);  // B6
    if (right == nullptr) return word;
    // release pairs with the acquire of T1: nothing was changed.
    place.store(word, std::memory_order_release);
    *node = right;
  }
}

// Fills a free slot of a node that this thread owns. `child` is null for a
// leaf. Returns the word that has this slot at `rank`.
template <typename Pause>
inline uint64_t BasicBlinkTree<Pause>::Fill(Node* node, uint64_t word,
                                            size_t rank, uint64_t prefix,
                                            uint32_t entry, Node* child) {
  const size_t count = Node::Count(word);
  const uint64_t slot = Node::Slot(word, count);
  // T2, both: release pairs with the acquire of T5.
  node->prefixes[slot].store(prefix, std::memory_order_release);
  node->entries[slot].store(entry, std::memory_order_release);
  if (child != nullptr) {
    // T2. release pairs with the acquire of T5.
    static_cast<BlinkInnerNode*>(node)->children[slot].store(
        child, std::memory_order_release);
  }
  // The slot numbers from `rank` on move up by one, over the slot's old place.
  const uint64_t below = Node::RanksBelow(rank);
  const uint64_t moved = Node::RanksBelow(count) & ~below;
  const uint64_t kept = below | ~Node::RanksBelow(count + 1);
  return Node::WithCount(
      (word & kept) | slot << (4 * rank) | (word & moved) << 4, count + 1);
}

template <typename Pause>
void BasicBlinkTree<Pause>::GrowRoot(Node* left, Node* right) {
  Node* const root = NewNode(left->level + 1);
  const uint64_t word = Fill(root, Node::kEmptyWord, 0, 0, /*entry=*/0, left);
  // relaxed, these: this thread created and owns the nodes.
  const uint64_t low = right->prefixes[0].load(std::memory_order_relaxed);
  const uint32_t separator = right->entries[0].load(std::memory_order_relaxed);
  root->word.store(Fill(root, word, 1, low, separator, right),
                   std::memory_order_relaxed);
  // release pairs with the acquire of Descend.
  root_.store(root, std::memory_order_release);
}

// Does T3 for a full node that this thread owns, and inserts the new item into
// one of the halves. Returns the new node, or null if it already has a parent.
template <typename Pause>
BlinkNode* BasicBlinkTree<Pause>::Split(Node* node, const Target& t,
                                        uint32_t entry, Node* child) {
  // relaxed, here and in what follows: this thread owns the node.
  const uint64_t word =
      node->word.load(std::memory_order_relaxed) & ~Node::kLocked;
  Node* const next = node->next.load(std::memory_order_relaxed);
  const bool is_leaf = node->level == 0;
  const size_t rank =
      is_leaf ? Rank<true>(node, word, t) : Rank<false>(node, word, t);
  // At the right end, keys probably arrive in order, so the node stays full.
  const size_t keep =
      rank == kSlotCount && next == nullptr ? kSlotCount : kSlotCount / 2;
  const bool goes_right = rank > keep || keep == kSlotCount;

  // The new node's slots are in key order.
  Node* const right = NewNode(node->level);
  size_t moved = 0;
  for (size_t i = keep; i < kSlotCount; ++i, ++moved) {
    const size_t slot = Node::Slot(word, i);
    // relaxed, these: this thread owns both nodes, and the store of `next`
    // below publishes the new one.
    right->prefixes[moved].store(
        node->prefixes[slot].load(std::memory_order_relaxed),
        std::memory_order_relaxed);
    // relaxed, both: as above.
    right->entries[moved].store(
        node->entries[slot].load(std::memory_order_relaxed),
        std::memory_order_relaxed);
    if (is_leaf) continue;
    // relaxed, both: as above.
    static_cast<BlinkInnerNode*>(right)->children[moved].store(
        static_cast<BlinkInnerNode*>(node)->children[slot].load(
            std::memory_order_relaxed),
        std::memory_order_relaxed);
  }
  uint64_t right_word = Node::WithCount(Node::kEmptyWord, moved);
  if (goes_right) {
    right_word = Fill(right, right_word, rank - keep, t.prefix, entry, child);
  }
  // relaxed, these: the store of `next` below publishes them.
  right->word.store(right_word | Node::kLocked, std::memory_order_relaxed);
  right->next.store(next, std::memory_order_relaxed);
  right->high.store(node->high.load(std::memory_order_relaxed),
                    std::memory_order_relaxed);

  // relaxed, both: see RightOf; this thread created the new node.
  node->high.store(right->prefixes[0].load(std::memory_order_relaxed),
                   std::memory_order_relaxed);
  // T3. release pairs with the acquire of T5.
  node->next.store(right, std::memory_order_release);
  Pause::At(BlinkPoint::kLinked);
  uint64_t left_word = Node::WithCount(word, keep);
  // T3. release pairs with the acquire of T5.
  node->word.store(left_word | Node::kLocked, std::memory_order_release);
  Pause::At(BlinkPoint::kShrunk);
  // relaxed load: this thread owns the node. T3. release pairs with the acquire
  // of T5.
  node->version.store(node->version.load(std::memory_order_relaxed) + 1,
                      std::memory_order_release);
  Pause::At(BlinkPoint::kVersioned);

  if (!goes_right) {
    left_word = Fill(node, left_word, rank, t.prefix, entry, child);
    Pause::At(BlinkPoint::kSlotFilled);
  }
  // relaxed: it changes only under the lock of the node that it points to.
  const bool was_root = root_.load(std::memory_order_relaxed) == node;
  if (was_root) GrowRoot(node, right);
  if (is_leaf && next == nullptr) {
    // release pairs with the acquire of Insert and SeekToLast.
    last_.store(right, std::memory_order_release);
  }
  // T3. release, both: pair with the acquire of T1 and T5.
  right->word.store(right_word, std::memory_order_release);
  node->word.store(left_word, std::memory_order_release);
  return was_root ? nullptr : right;
}

// Returns whether the entry after the target's place, if there is one, has the
// target's user key. REQUIRES: this thread owns the leaf, and the target
// belongs there.
template <typename Pause>
bool BasicBlinkTree<Pause>::PrecedesVersion(const Node* node, uint64_t word,
                                            const Target& t) const {
  const size_t rank = Rank<true>(node, word, t);
  Slice following;
  if (rank < Node::Count(word)) {
    if (node->Prefix(word, rank) != t.prefix) return false;
    following = KeyOf(node, Node::Slot(word, rank));
  } else {
    // relaxed: this thread owns the node.
    if (node->high.load(std::memory_order_relaxed) != t.prefix) return false;
    // relaxed: this thread owns the node.
    const Node* const next = node->next.load(std::memory_order_relaxed);
    if (next == nullptr) return false;
    following = KeyOf(next, 0);
  }
  return comparator_->CompareUser(ExtractUserKey(following),
                                  ExtractUserKey(t.key)) == 0;
}

template <typename Pause>
inline const char* BasicBlinkTree<Pause>::ReferenceFor(const char* entry) {
  // acquire pairs with the release of T0.
  const char* const reference = reference_.load(std::memory_order_acquire);
  return reference != nullptr ? reference : SetReference(entry);
}

template <typename Pause>
template <bool kDeletion>
[[gnu::always_inline]] inline void BasicBlinkTree<Pause>::InsertAt(
    const ArenaPlace& entry, const Slice& key, char* mark) {
  const char* const reference = ReferenceFor(entry.data);
  const Target t = TargetOf(key, reference);
  Path path;
  // acquire pairs with the release of Split.
  Node* node = last_.load(std::memory_order_acquire);
  if (node != first_ && !LowIsBelow(node, t)) node = Descend(t, 0, &path);
  InsertFrom<kDeletion>(node, t, &path, reference, entry.position, mark);
}

// Inserts from a leaf on from which T6 leads to the place. `path` has the nodes
// above that leaf, as many as are known.
template <typename Pause>
template <bool kDeletion>
[[gnu::always_inline]] inline void BasicBlinkTree<Pause>::InsertFrom(
    Node* node, Target t, Path* path, const char* reference, uint32_t entry,
    char* mark) {
  Node* child = nullptr;
  for (uint32_t level = 0;;) {
    VARVE_DCHECK(node->level == level);
    Pause::At(BlinkPoint::kLockWanted);
    const uint64_t word = LockPlace(&node, t);
    if constexpr (kDeletion) {
      // The stores below publish it, and nothing can come between before.
      if (level == 0 && PrecedesVersion(node, word, t)) *mark = 1;
    }
    if (Node::Count(word) < kSlotCount) {
      const size_t rank = child == nullptr ? Rank<true>(node, word, t)
                                           : Rank<false>(node, word, t);
      const uint64_t new_word = Fill(node, word, rank, t.prefix, entry, child);
      Pause::At(BlinkPoint::kSlotFilled);
      // T2. release pairs with the acquire of T5 and T1.
      node->word.store(new_word, std::memory_order_release);
      return;
    }
    Node* const right = Split(node, t, entry, child);
    if (right == nullptr) return;
    Pause::At(BlinkPoint::kParentLess);
    // T4. relaxed: by I2 it was written before.
    child = right;
    entry = right->entries[0].load(std::memory_order_relaxed);
    t = TargetOf(EntryKey(entries_->At(entry)), reference);
    ++level;
    node = level <= path->top ? path->nodes[level] : Descend(t, level, path);
  }
}

template <typename Pause>
void BasicBlinkTree<Pause>::Insert(const ArenaPlace& entry, const Slice& key) {
  InsertAt<false>(entry, key, nullptr);
}

template <typename Pause>
void BasicBlinkTree<Pause>::InsertDeletion(const ArenaPlace& entry,
                                           const Slice& key, char* mark) {
  InsertAt<true>(entry, key, mark);
}

template <typename Pause>
void BasicBlinkTree<Pause>::InsertMany(const Insertion* insertions,
                                       size_t count) {
  VARVE_DCHECK(count > 0 && count <= kMaxInsertions);
  const char* references[kMaxInsertions];
  Target targets[kMaxInsertions];
  Path paths[kMaxInsertions];
  Node* nodes[kMaxInsertions];
  const BasicBlinkTree* tree = nullptr;
  Node* last = nullptr;
  Node* root = nullptr;
  bool has_one_leaf = false;
  for (size_t i = 0; i < count; ++i) {
    const Insertion& insertion = insertions[i];
    if (insertion.tree == tree) {
      references[i] = references[i - 1];
    } else {
      references[i] = insertion.tree->ReferenceFor(insertion.entry.data);
      tree = insertion.tree;
      // acquire pairs with the release of Split.
      last = tree->last_.load(std::memory_order_acquire);
      // acquire pairs with the release of GrowRoot.
      root = tree->root_.load(std::memory_order_acquire);
      has_one_leaf = last == tree->first_;
    }
    targets[i] = tree->TargetOf(insertion.key, references[i]);
    const bool is_at_end = has_one_leaf || tree->LowIsBelow(last, targets[i]);
    nodes[i] = is_at_end ? last : root;
    paths[i].top = is_at_end ? 0 : root->level;
  }
  // All take a step before one takes the next, so that the misses of the nodes
  // that a step leads to overlap.
  for (bool is_above = true; is_above;) {
    is_above = false;
    for (size_t i = 0; i < count; ++i) {
      if (nodes[i]->level == 0) continue;
      nodes[i] = insertions[i].tree->Step(nodes[i], targets[i], &paths[i]);
      is_above = true;
    }
  }
  // Since then the leaves may have been split, also by the inserts before one's
  // own. T6 leads on from them (I5).
  for (size_t i = 0; i < count; ++i) {
    const auto& [to, entry, key, mark] = insertions[i];
    to->InsertFound(nodes[i], targets[i], &paths[i], references[i],
                    entry.position, mark);
  }
}

template <typename Pause>
[[gnu::noinline]] void BasicBlinkTree<Pause>::InsertFound(
    Node* leaf, const Target& t, Path* path, const char* reference,
    uint32_t entry, char* mark) {
  if (mark != nullptr) {
    InsertFrom<true>(leaf, t, path, reference, entry, mark);
  } else {
    InsertFrom<false>(leaf, t, path, reference, entry, nullptr);
  }
}

// ---- Iteration --------------------------------------------------------------

// Copies the node where the target belongs, which is `node` or right of it.
// Without a target, copies `node`. Returns the target's rank in the copy.
template <typename Pause>
size_t BasicBlinkTree<Pause>::Copy(const Node* node, const Target* t,
                                   Iterator* to) const {
  for (;;) {
    // T5. acquire, both: pair with the release of T3, the word's of T2 too.
    const uint32_t version = node->version.load(std::memory_order_acquire);
    const uint64_t word = node->word.load(std::memory_order_acquire);
    Pause::At(BlinkPoint::kWordRead);
    const Node* const right = t == nullptr ? nullptr : RightOf(node, *t);
    if (right != nullptr) {
      node = right;
      continue;
    }
    Pause::At(BlinkPoint::kBoundRead);
    const size_t rank = t == nullptr ? 0 : RankInCopy<true>(node, word, *t);
    to->count_ = Node::Count(word);
    for (size_t i = 0; i < to->count_; ++i) {
      to->entries_[i] = entries_->At(node->Entry(word, i));
    }
    // T5. acquire pairs with the release of T3: B4.
    to->next_ = node->next.load(std::memory_order_acquire);
    Pause::At(BlinkPoint::kSlotsRead);
    // relaxed: see "Why", T2's slots.
    if (node->version.load(std::memory_order_relaxed) == version) return rank;
  }
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::Seek(const Slice& internal_key) {
  index_ = 0;
  count_ = 0;
  // T5. acquire pairs with the release of T0.
  const char* const reference =
      tree_->reference_.load(std::memory_order_acquire);
  if (reference == nullptr) return;
  const Target t = tree_->TargetOf(internal_key, reference);
  const Node* node = tree_->Descend(t, 0, nullptr);
  do {
    index_ = tree_->Copy(node, &t, this);
    node = next_;
  } while (index_ == count_ && node != nullptr);
  PrefetchAhead();
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::SeekToFirst() {
  index_ = tree_->Copy(tree_->first_, nullptr, this);
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::SeekToLast() {
  // acquire pairs with the release of Split.
  const Node* node = tree_->last_.load(std::memory_order_acquire);
  do {
    tree_->Copy(node, nullptr, this);
    node = next_;
  } while (node != nullptr);
  index_ = count_ > 0 ? count_ - 1 : 0;
}

// Prefetches the current entry, those after it that Next does not prefetch, and
// the next leaf. Near the end of a leaf it reads the next leaf's word at once:
// to put that off until Next gets there costs all that the prefetches gain.
template <typename Pause>
inline void BasicBlinkTree<Pause>::Iterator::PrefetchAhead() const {
  const size_t end = std::min(index_ + kAhead, count_);
  for (size_t i = index_; i < end; ++i) __builtin_prefetch(entries_[i]);
  PrefetchBlinkLeaf(next_);
  if (index_ + kAhead > count_) PrefetchNextNode();
}

// Prefetches the first entries of the next leaf (T7, B11).
template <typename Pause>
[[gnu::noinline]] void BasicBlinkTree<Pause>::Iterator::PrefetchNextNode()
    const {
  if (next_ == nullptr) return;
  // acquire, also in Entry: as in T5.
  const uint64_t word = next_->word.load(std::memory_order_acquire);
  const size_t count = std::min(kAhead, Node::Count(word));
  for (size_t i = 0; i < count; ++i) {
    __builtin_prefetch(tree_->entries_->At(next_->Entry(word, i)));
  }
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::NextNode() {
  const Slice last = EntryKey(entries_[count_ - 1]);
  while (index_ == count_ && next_ != nullptr) {
    index_ = tree_->Copy(next_, nullptr, this);
    while (index_ < count_ &&
           tree_->comparator_->Compare(EntryKey(entries_[index_]), last) <= 0) {
      ++index_;  // B8
    }
  }
  PrefetchAhead();
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::PrevNode() {
  // relaxed: the iterator is at an entry, so it is set.
  const Target t = tree_->TargetOf(
      EntryKey(entries_[0]), tree_->reference_.load(std::memory_order_relaxed));
  const size_t rank = tree_->Copy(tree_->Descend(t, 0, nullptr), &t, this);
  if (rank == 0) count_ = 0;
  index_ = rank == 0 ? 0 : rank - 1;
}

}  // namespace varve
