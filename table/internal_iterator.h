// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Walks internal keys: blocks, tables, memtables and merges of them.
// Thread-safety: owned by one thread at a time.
class InternalIterator {
 public:
  InternalIterator() = default;
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;
  virtual ~InternalIterator() = default;

  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first entry at or behind the internal key.
  virtual void Seek(const Slice& internal_key) = 0;
  // To the last entry at or before the internal key.
  virtual void SeekForPrev(const Slice& internal_key) = 0;
  // REQUIRES for all of these: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;
  // Valid until the iterator moves.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;

  // OK at the end of the data; else what stopped it. Valid() is then false.
  virtual Status status() const = 0;
};

}  // namespace varve
