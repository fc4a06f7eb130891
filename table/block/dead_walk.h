// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Moves over many dead entries at once. A reader sees none of these entries:
// - visible deletions, whose sequence number is at most the reader's;
// - older versions of a user key than a visible deletion of that key.
//
// A source of entries (a memtable, a block, a table, a level) knows the sizes
// and addresses of its entries. It moves over its dead ones in a loop without
// calls, and assembles a key and a value only where it stops. A merge lets the
// source of its current entry move, up to the current entry of the next source.
// Older versions of a deletion passed are dead wherever they are. So a source
// may pass them beyond that bound, but no other deletion.
//
// *Forward.* The hidden key is the user key of the last deletion passed. The
// caller has passed one before. An entry is passed if it is a visible deletion,
// or has the hidden key.
//
// *Backward.* Versions of a key come oldest first. A visible deletion is
// passed. Another entry is passed if the same source has a visible deletion of
// its user key directly before it, or before older versions directly before it.
// The caller holds no value that an entry to come may hide.
//
// After kMaxVersions consecutive versions of one key, a source may stop and say
// so. The caller then seeks past the rest of them.
//
// *Deletions in one source, older versions in another.* Entry by entry, the two
// would alternate. So the merge collects a batch of deletions from one source,
// without moving it, and lets the other source move over all entries that they
// hide. Such an entry has the user key of a deletion in the batch and a lower
// sequence number. Since dead entries are never shown, their order among
// sources does not matter.
//
// In both directions a source stops at any other entry, even a dead one. A
// source whose keys are out of order still passes each entry at most once.

#include <cstdint>

#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/key_buffer.h"
#include "util/bytes/short_copy.h"

namespace varve {

// The state of a walk over dead entries.
// Thread-safety: owned by one thread.
class DeadWalk {
 public:
  static constexpr size_t kMaxVersions = 8;

  // `comparator` and `hidden` must outlive the walk. Forward, *hidden is the
  // hidden key, and is replaced.
  DeadWalk(const InternalKeyComparator* comparator, SequenceNumber sequence,
           KeyBuffer* hidden)
      : comparator_(*comparator), sequence_(sequence), hidden_(*hidden) {}
  DeadWalk(const DeadWalk&) = delete;
  DeadWalk& operator=(const DeadWalk&) = delete;

  const InternalKeyComparator& comparator() const { return comparator_; }
  Slice hidden() const { return hidden_.slice(); }
  void Hide(const Slice& user_key) { hidden_.Assign(user_key); }
  KeyBuffer* hidden_buffer() { return &hidden_; }

  // Forward, no deletion at or after this internal key is passed, unless a
  // newer one hides it. Backward, no entry at or before it. Null: no bound. Not
  // owned.
  const Slice* bound() const { return bound_; }
  void SetBound(const Slice* bound) { bound_ = bound; }
  // Returns whether the bound allows passing this internal key.
  bool IsBeforeBound(const Slice& key) const {
    return bound_ == nullptr || comparator_.Compare(key, *bound_) < 0;
  }
  bool IsAfterBound(const Slice& key) const {
    return bound_ == nullptr || comparator_.Compare(key, *bound_) > 0;
  }

  bool IsVisibleDeletion(uint64_t trailer) const {
    return trailer >> 8 <= sequence_ &&
           IsDeletion(static_cast<ValueType>(trailer & 0xFF));
  }
  bool IsSameKey(const Slice& a, const Slice& b) const {
    if (!comparator_.bytewise()) return comparator_.CompareUser(a, b) == 0;
    return a.size() == b.size() && ShortEqual(a.data(), b.data(), a.size());
  }

  // The entries passed, and the visible deletions among them, as far as
  // examined.
  uint64_t passed() const { return passed_; }
  uint64_t deletions() const { return deletions_; }
  void CountPassed(uint64_t passed, uint64_t deletions) {
    passed_ += passed;
    deletions_ += deletions;
  }

  // Whether the walk stopped in the midst of many versions of the hidden key. A
  // walk that stops so backward sets the hidden key as well.
  bool in_many_versions() const { return in_many_versions_; }
  void StopInManyVersions() { in_many_versions_ = true; }

 private:
  const InternalKeyComparator& comparator_;
  const SequenceNumber sequence_;
  KeyBuffer& hidden_;
  const Slice* bound_ = nullptr;
  uint64_t passed_ = 0;
  uint64_t deletions_ = 0;
  bool in_many_versions_ = false;
};

// Visible deletions of one source, in order.
// Thread-safety: owned by one thread.
class DeletionBatch {
 public:
  static constexpr size_t kMaxCount = 16;
  static constexpr size_t kCopiedBytes = 1024;

  size_t size() const { return size_; }
  bool full() const { return size_ == kMaxCount; }
  void clear() { size_ = copied_ = 0; }
  // Returns the internal key of a deletion.
  const Slice& operator[](size_t i) const { return keys_[i]; }

  // Adds a key that stays valid. REQUIRES: not full().
  void Add(const Slice& key) { keys_[size_++] = key; }
  // Adds a copy of a key in two parts. Returns false if there is no space.
  bool AddCopy(const Slice& first, const Slice& second) {
    const size_t size = first.size() + second.size();
    if (full() || size > kCopiedBytes - copied_) return false;
    char* const to = bytes_ + copied_;
    ShortCopy(to, first.data(), first.size());
    ShortCopy(to + first.size(), second.data(), second.size());
    copied_ += size;
    Add(Slice(to, size));
    return true;
  }

 private:
  size_t size_ = 0;
  size_t copied_ = 0;
  Slice keys_[kMaxCount];
  char bytes_[kCopiedBytes];
};

// SkipHidden of a source without a faster way.
template <typename Source>
void SkipHiddenBySteps(Source* source, const DeletionBatch& deletions,
                       DeadWalk* walk) {
  const InternalKeyComparator& comparator = walk->comparator();
  for (size_t i = 0; i < deletions.size();) {
    if (!source->Valid()) return;
    const Slice key = source->key();
    const int order = comparator.CompareUser(ExtractUserKey(key),
                                             ExtractUserKey(deletions[i]));
    if (order > 0) {
      ++i;
      continue;
    }
    if (order < 0 || ExtractTrailer(key) >= ExtractTrailer(deletions[i])) {
      return;
    }
    walk->CountPassed(1, 0);
    source->Next();
  }
}

// SkipDeadForward of a source without a faster way. `source` has the members of
// InternalIterator.
template <typename Source>
void SkipDeadBySteps(Source* source, DeadWalk* walk) {
  size_t versions = 0;
  while (source->Valid()) {
    const Slice key = source->key();
    const bool deletion = walk->IsVisibleDeletion(ExtractTrailer(key));
    if (deletion) {
      if (!walk->IsBeforeBound(key)) return;
      walk->Hide(ExtractUserKey(key));
      versions = 0;
    } else if (!walk->IsSameKey(ExtractUserKey(key), walk->hidden())) {
      return;
    } else if (++versions > DeadWalk::kMaxVersions) {
      return walk->StopInManyVersions();
    }
    walk->CountPassed(1, deletion);
    source->Next();
  }
}

}  // namespace varve
