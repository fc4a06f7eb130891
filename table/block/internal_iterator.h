// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "util/threads/thread_arena.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The entry that an iterator stands on.
struct IteratorPosition {
  bool valid = false;  // It stands on one; else key and value mean nothing.
  Slice key;           // The internal key.
  Slice value;
};

// Walks internal keys: blocks, tables, memtables and merges of them.
//
// An iterator over others shows the position of the one that it stands on as
// its own, so that reading the entry passes through no layer.
// Thread-safety: owned by one thread at a time.
class InternalIterator : public InArena {
 public:
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;
  virtual ~InternalIterator() = default;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first entry at or behind the internal key.
  virtual void Seek(const Slice& internal_key) = 0;
  // To the last entry at or before the internal key.
  virtual void SeekForPrev(const Slice& internal_key) = 0;
  // REQUIRES for all of these: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Lets go of all that it holds (pins, references, memory on the heap), so
  // that it can be kept in an arena; it then stands nowhere, and can be used
  // again while what it was made for is still there. False if it cannot: it
  // is only to be destroyed.
  virtual bool ResetForReuse() { return false; }

  // OK at the end of the data; else what stopped it. Valid() is then false.
  virtual Status status() const = 0;

  bool Valid() const { return position_->valid; }
  // Valid until the iterator moves.
  Slice key() const { return position_->key; }
  Slice value() const { return position_->value; }
  // May be another object after each move; lives as long as the iterator.
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
