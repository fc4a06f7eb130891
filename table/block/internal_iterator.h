// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "util/threads/thread_arena.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class DeadWalk;
class DeletionBatch;

// The current entry of an iterator.
struct IteratorPosition {
  bool valid = false;  // False: key and value mean nothing.
  Slice key;           // The internal key.
  Slice value;
};

// Iterator over internal keys: in blocks, tables, memtables, and merges of
// them.
//
// An iterator over other iterators exposes the position of the current one as
// its own. Reading the entry thus passes through no layer.
// Thread-safety: owned by one thread at a time.
class InternalIterator : public InArena {
 public:
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;
  virtual ~InternalIterator() = default;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // Moves to the first entry at or after the internal key.
  virtual void Seek(const Slice& internal_key) = 0;
  // Moves to the last entry at or before the internal key.
  virtual void SeekForPrev(const Slice& internal_key) = 0;
  // Seek in steps, for a caller that seeks in several sources. A step
  // prefetches what the next step reads. So if each source takes a step before
  // one takes the next, their cache misses overlap. PrepareSeek is called for
  // the steps 0 to kSeekSteps - 1, and then FinishSeek, which moves as Seek
  // does. The key is the same in all, and nothing else is called in between;
  // the iterator is not positioned then. If PrepareSeek returns false, an error
  // has ended the seek, and status() returns it. A seek may be given up after
  // any step; the next call is then another seek, or ResetForReuse.
  static constexpr int kSeekSteps = 3;
  virtual bool PrepareSeek(const Slice& /*internal_key*/, int /*step*/) {
    return true;
  }
  virtual void FinishSeek(const Slice& internal_key) { Seek(internal_key); }
  // REQUIRES for all of these: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // These move over dead entries, much faster than steps, as dead_walk.h
  // describes. All may do nothing.
  // REQUIRES: Valid().
  virtual void SkipDeadForward(DeadWalk* /*walk*/) {}
  virtual void SkipDeadBackward(DeadWalk* /*walk*/) {}
  // Moves forward over entries that the deletions hide.
  virtual void SkipHidden(const DeletionBatch& /*deletions*/,
                          DeadWalk* /*walk*/) {}
  // Adds deletions from the current entry on. Does not move.
  virtual void CollectDeletions(const DeadWalk& /*walk*/,
                                DeletionBatch* /*deletions*/) const {}

  // Releases all pins, references and heap memory, so that the iterator can be
  // kept in an arena. It is then not positioned, and can be used again while
  // the objects that it was created for still exist. Returns false if it can
  // only be destroyed.
  virtual bool ResetForReuse() { return false; }

  // OK at the end of the data; otherwise the error that stopped it. In both
  // cases Valid() is false.
  virtual Status status() const = 0;

  bool Valid() const { return position_->valid; }
  // Valid until the iterator moves.
  Slice key() const { return position_->key; }
  Slice value() const { return position_->value; }
  // May return another object after each move. The object lives as long as the
  // iterator.
  const IteratorPosition* position() const { return position_; }

 protected:
  InternalIterator() = default;
  explicit InternalIterator(const IteratorPosition* position)
      : position_(position) {}

  void Show(const IteratorPosition* position) { position_ = position; }
  void ShowNothing() { position_ = &kNowhere; }

 private:
  static constexpr IteratorPosition kNowhere{};

  const IteratorPosition* position_ = &kNowhere;
};

}  // namespace varve
