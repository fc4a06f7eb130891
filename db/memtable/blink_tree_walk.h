// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Moves of the tree's iterator over dead entries, for sources that instantiate
// the tree. table/block/dead_walk.h says what is dead.
//
// *Cost.* The memory of leaves and entries is seldom in the processor's cache.
// A walk reads a leaf's slots and one cache line for each deletion. It does not
// touch an entry that a mark hides. It copies some leaves ahead into a window
// of entries. From there it prefetches entries at an even distance, which are
// deletions where deletions and older versions alternate.
//
// *Leaves copied ahead.* A copy is *settled* if the leaf was not locked between
// the first and the last load of its word. No split was then in progress. So
// all entries of `next` are above those in the copy. After another copy, the
// entries of `next` that are not above its last entry are left out (B8).

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "db/memtable/blink_tree_impl.h"
#include "table/block/dead_walk.h"

namespace varve {

// Entries from an iterator's place on.
template <typename Pause>
class BasicBlinkTree<Pause>::Iterator::Window {
 public:
  explicit Window(const Iterator& from) : tree_(*from.tree_) {
    AddLeaf(from.entries_ + from.index_, from.count_ - from.index_, from.next_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Returns whether there is a current entry.
  [[gnu::always_inline]] bool Valid() {
    if (place_ + kDistance >= end_ && next_ != nullptr) [[unlikely]]
      Fill();
    return place_ < end_;
  }
  const char* entry() const { return entries_[place_]; }
  bool HasFollowing() const { return place_ + 1 < end_; }
  // Returns the entry that was prefetched last.
  const char* farthest() const { return entries_[place_ + FarthestDistance()]; }
  size_t FarthestDistance() const {
    return std::min(kDistance, end_ - 1 - place_);
  }
  void Step(size_t count) {
    place_ += count;
    const auto ahead =
        reinterpret_cast<uintptr_t>(entries_[place_ + kDistance]);
    __builtin_prefetch(reinterpret_cast<const char*>(ahead));
    __builtin_prefetch(reinterpret_cast<const char*>(ahead + 32));
  }

  // Moves the iterator to the current entry.
  void MoveTo(Iterator* to) const {
    to->index_ = 0;
    to->count_ = 0;
    to->next_ = nullptr;
    for (size_t i = 0; i < leaf_count_; ++i) {
      if (leaves_[i].end <= place_) continue;
      to->count_ = leaves_[i].end - place_;
      to->next_ = leaves_[i].next;
      std::copy_n(entries_ + place_, to->count_, to->entries_);
      return;
    }
  }

 private:
  struct Leaf {
    size_t end;  // Of its entries in the window.
    const Node* next;
  };
  // Even, so that it leads from a deletion to a deletion. About what a memory
  // access takes, with 10 ns for two entries.
  static constexpr size_t kDistance = 16;
  static constexpr size_t kLeaves = 7;
  static constexpr size_t kSize = kLeaves * kSlotCount;
  static constexpr size_t kLeavesBeforeFar = 2;
  static constexpr size_t kFar = 3;

  void AddLeaf(const char* const* entries, size_t count, const Node* next) {
    std::copy_n(entries, count, entries_ + end_);
    AddLeaf(count, next);
  }
  void AddLeaf(size_t count, const Node* next) {
    next_ = next;
    if (count == 0) return;
    end_ += count;
    leaves_[leaf_count_++] = Leaf{end_, next};
  }

  // Makes space, by removing the entries before the current one.
  void Compact() {
    std::copy(entries_ + place_, entries_ + end_, entries_);
    size_t kept = 0;
    for (size_t i = 0; i < leaf_count_; ++i) {
      if (leaves_[i].end <= place_) continue;
      leaves_[kept++] = Leaf{leaves_[i].end - place_, leaves_[i].next};
    }
    leaf_count_ = kept;
    end_ -= place_;
    place_ = 0;
  }

  [[gnu::noinline]] void Fill() {
    if (end_ + kSlotCount > kSize || leaf_count_ == kLeaves) Compact();
    while (next_ != nullptr && place_ + kDistance >= end_ &&
           end_ + kSlotCount <= kSize && leaf_count_ < kLeaves) {
      const char** const to = entries_ + end_;
      const Node* next;
      size_t count;
      const bool was_settled = settled_;
      settled_ = tree_.CopyAhead(next_, to, &count, &next);
      if (!was_settled) {
        // An empty tree's only leaf has no `next`, so there is a last entry.
        const Slice last = EntryKey(entries_[end_ - 1]);
        size_t passed = 0;
        while (passed < count &&
               tree_.comparator_->Compare(EntryKey(to[passed]), last) <= 0) {
          ++passed;
        }
        std::copy(to + passed, to + count, to);
        // If all were passed, `next` may still be such a leaf.
        settled_ = settled_ && passed < count;
        count -= passed;
      }
      AddLeaf(count, next);
      PrefetchLeaf(next_);
      PrefetchFarLeaf();
    }
  }

  // Prefetches the lines that CopyAhead reads. `leaf` may be null.
  static void PrefetchLeaf(const Node* leaf) {
    const auto address = reinterpret_cast<uintptr_t>(leaf);
    for (const size_t offset : {0, 128}) {
      __builtin_prefetch(reinterpret_cast<const char*>(address + offset));
    }
  }

  // Prefetches the leaf kFar after `next_`. Its address is in the level above.
  // Leaves that are not there yet only shift the distance.
  void PrefetchFarLeaf() {
    if (parent_ == nullptr) {
      if (filled_++ != kLeavesBeforeFar) return;
      const Target t = tree_.TargetOf(EntryKey(entries_[end_ - 1]));
      parent_ = tree_.Descend(t, 1, nullptr);
      if (parent_->level != 1) {  // The root is a leaf.
        parent_ = nullptr;
        return;
      }
      // acquire pairs with the release of T2 and T3.
      const uint64_t of_parent = parent_->word.load(std::memory_order_acquire);
      rank_ = tree_.template RankInCopy<false>(parent_, of_parent, t) + kFar;
    }
    // acquire pairs with the release of T2 and T3. The version is not checked:
    // an item of another rank is a leaf, too.
    uint64_t word = parent_->word.load(std::memory_order_acquire);
    while (rank_ >= Node::Count(word)) {
      // acquire pairs with the release of T3.
      const Node* const next = parent_->next.load(std::memory_order_acquire);
      if (next == nullptr) return;
      rank_ -= Node::Count(word);
      parent_ = next;
      // acquire pairs with the release of T2 and T3.
      word = parent_->word.load(std::memory_order_acquire);
    }
    PrefetchLeaf(parent_->Child(word, rank_));
    ++rank_;
  }

  const BasicBlinkTree& tree_;
  size_t place_ = 0;
  size_t end_ = 0;
  const Node* next_ = nullptr;
  bool settled_ = false;          // The copy that `next_` is from.
  const Node* parent_ = nullptr;  // Of the leaf at rank_, to be prefetched.
  size_t rank_ = 0;
  size_t filled_ = 0;
  size_t leaf_count_ = 0;
  Leaf leaves_[kLeaves];
  // With space for prefetches beyond the end.
  const char* entries_[kSize + kDistance + 2] = {};
};

// Copies a leaf's entries and its `next`. Returns whether the copy is settled.
template <typename Pause>
bool BasicBlinkTree<Pause>::CopyAhead(const Node* node, const char** entries,
                                      size_t* count, const Node** next) const {
  for (;;) {
    // T5. acquire, both: pair with the release of T3, the word's of T2 too.
    const uint32_t version = node->version.load(std::memory_order_acquire);
    const uint64_t word = node->word.load(std::memory_order_acquire);
    Pause::At(BlinkPoint::kWordRead);
    *count = Node::Count(word);
    for (size_t i = 0; i < *count; ++i) {
      entries[i] = entries_->At(node->Entry(word, i));
    }
    // T5. acquire pairs with the release of T3: B4.
    *next = node->next.load(std::memory_order_acquire);
    Pause::At(BlinkPoint::kSlotsRead);
    // acquire: a word from after a split that was in progress at the loads
    // above pairs with that split's release, so that the new version is seen.
    const uint64_t word_after = node->word.load(std::memory_order_acquire);
    // relaxed: see "Why", T2's slots.
    if (node->version.load(std::memory_order_relaxed) == version) {
      return word_after == word && (word & Node::kLocked) == 0;
    }
  }
}

// Entries of the iterator's leaf, and then of others.
template <typename Pause>
class BasicBlinkTree<Pause>::Iterator::LeafCursor {
 public:
  explicit LeafCursor(Iterator* iterator) : iterator_(*iterator) {}
  bool Valid() const { return iterator_.Valid(); }
  const char* entry() const { return iterator_.entry(); }
  bool HasFollowing() const { return iterator_.index_ + 1 < iterator_.count_; }
  const char* farthest() const {
    return iterator_.entries_[iterator_.count_ - 1];
  }
  size_t FarthestDistance() const {
    return iterator_.count_ - 1 - iterator_.index_;
  }
  void Step(size_t count) {
    iterator_.index_ += count;
    const size_t ahead = iterator_.index_ + kDistance;
    if (ahead < iterator_.count_) __builtin_prefetch(iterator_.entries_[ahead]);
    if (iterator_.index_ == iterator_.count_) iterator_.NextNode();
  }

 private:
  static constexpr size_t kDistance = 6;

  Iterator& iterator_;
};

// What a walk forward has passed.
struct DeadPassed {
  size_t entries = 0;
  size_t deletions = 0;
  size_t versions = 0;  // Consecutive older versions of the hidden key.
  Slice hidden;
  Slice earlier;  // The hidden key some deletions before.
  bool in_many_versions = false;
  // As many entries from the current one on are known to be before the bound.
  size_t before_bound = 0;
};

// Passes dead entries until about `limit` are passed. Returns false if the
// cursor is at an entry that cannot be passed, or at the end.
template <typename Cursor>
[[gnu::always_inline]] inline bool PassDead(Cursor* cursor, size_t limit,
                                            const DeadWalk& walk,
                                            DeadPassed* passed) {
  while (cursor->Valid()) {
    if (passed->entries >= limit) return true;
    const Slice key = EntryKey(cursor->entry());
    size_t step = 1;
    if (walk.IsVisibleDeletion(ExtractTrailer(key))) {
      if (walk.bound() != nullptr && passed->before_bound == 0) {
        if (!walk.IsBeforeBound(key)) return false;
        // After some entries, one comparison for many.
        if (passed->entries >= 4 &&
            walk.IsBeforeBound(EntryKey(cursor->farthest()))) {
          passed->before_bound = cursor->FarthestDistance();
        }
      }
      passed->hidden = ExtractUserKey(key);
      passed->versions = 0;
      // Many deletions of one key are versions, too.
      if (passed->deletions % DeadWalk::kMaxVersions == 0) [[unlikely]] {
        if (passed->deletions != 0 &&
            walk.IsSameKey(passed->hidden, passed->earlier)) {
          passed->in_many_versions = true;
          return false;
        }
        passed->earlier = passed->hidden;
      }
      ++passed->deletions;
      step += DeletionHidesNext(key) && cursor->HasFollowing();
    } else if (!walk.IsSameKey(ExtractUserKey(key), passed->hidden)) {
      return false;
    } else if (++passed->versions > DeadWalk::kMaxVersions) {
      passed->in_many_versions = true;
      return false;
    }
    cursor->Step(step);
    passed->entries += step;
    passed->before_bound -= std::min(passed->before_bound, step);
  }
  return false;
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::SkipDeadForward(DeadWalk* walk) {
  // In a merge, another source is often next after some entries. A window would
  // cost more than it saves.
  const size_t before_window = walk->bound() != nullptr ? 64 : 8;
  DeadPassed passed;
  passed.hidden = walk->hidden();
  LeafCursor leaf(this);
  if (PassDead(&leaf, before_window, *walk, &passed)) {
    Window window(*this);
    PassDead(&window, SIZE_MAX, *walk, &passed);
    window.MoveTo(this);
  }
  if (passed.deletions > 0) walk->Hide(passed.hidden);
  walk->CountPassed(passed.entries, passed.deletions);
  if (passed.in_many_versions) walk->StopInManyVersions();
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::CollectDeletions(
    const DeadWalk& walk, DeletionBatch* deletions) const {
  for (size_t i = index_; i < count_ && !deletions->full(); ++i) {
    const Slice key = EntryKey(entries_[i]);
    if (!walk.IsVisibleDeletion(ExtractTrailer(key))) continue;
    deletions->Add(key);
    i += DeletionHidesNext(key);
  }
}

// Returns how many entries, from the current one backward, can be passed. Sets
// *deletions to the number of deletions examined.
template <typename Pause>
size_t BasicBlinkTree<Pause>::Iterator::CountDeadBefore(
    const DeadWalk& walk, size_t* deletions) const {
  *deletions = 1;
  if (index_ > 0) {
    const Slice before = EntryKey(entries_[index_ - 1]);
    if (walk.IsVisibleDeletion(ExtractTrailer(before)) &&
        DeletionHidesNext(before)) {
      return 2;
    }
  }
  const Slice key = EntryKey(entries_[index_]);
  if (walk.IsVisibleDeletion(ExtractTrailer(key))) return 1;
  for (size_t i = 1; i <= DeadWalk::kMaxVersions && i <= index_; ++i) {
    const Slice before = EntryKey(entries_[index_ - i]);
    if (!walk.IsSameKey(ExtractUserKey(before), ExtractUserKey(key))) return 0;
    if (walk.IsVisibleDeletion(ExtractTrailer(before))) return i + 1;
  }
  return 0;
}

template <typename Pause>
void BasicBlinkTree<Pause>::Iterator::SkipDeadBackward(DeadWalk* walk) {
  Slice last;  // The user key of the last entry passed.
  bool has_last = false;
  size_t versions = 0;
  while (Valid()) {
    size_t deletions = 0;
    size_t count = CountDeadBefore(*walk, &deletions);
    if (count > 0) {
      const Slice user_key =
          ExtractUserKey(EntryKey(entries_[index_ - (count - 1)]));
      if (!has_last || !walk->IsSameKey(user_key, last)) {
        last = user_key;
        has_last = true;
        versions = 0;
      } else if (++versions > DeadWalk::kMaxVersions) {
        walk->Hide(user_key);
        return walk->StopInManyVersions();
      }
      // The bound is compared with the last entry passed.
      if (walk->bound() != nullptr &&
          !walk->IsAfterBound(EntryKey(entries_[index_ - (count - 1)]))) {
        if (!walk->IsAfterBound(EntryKey(entries_[index_]))) return;
        count = 1;
        deletions = 0;
      }
      walk->CountPassed(count, deletions);
      index_ -= count - 1;
      Prev();
      continue;
    }
    if (index_ > 0) return;
    // The entry may be hidden by the last one of the node before.
    Iterator previous = *this;
    previous.PrevNode();
    if (!previous.Valid()) return;
    const Slice before = EntryKey(previous.entry());
    const Slice key = EntryKey(entry());
    if (!walk->IsVisibleDeletion(ExtractTrailer(before)) ||
        !walk->IsSameKey(ExtractUserKey(before), ExtractUserKey(key)) ||
        !walk->IsAfterBound(key)) {
      return;
    }
    walk->CountPassed(1, 0);
    *this = previous;
  }
}

}  // namespace varve
