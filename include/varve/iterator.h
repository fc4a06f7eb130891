// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Walks the entries of a database, as they were when the iterator was made
// (or of ReadOptions::snapshot), in the order of its comparator.
//
// A new iterator is not valid: seek first. After an error it is not valid
// either, and status() says which: check it when Valid() turns false.
// Thread-safety: owned by one thread at a time.
// Lifetime: destroy it before the DB; it keeps memtables, files and blocks
// alive.
class VARVE_EXPORT Iterator {
 public:
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator() = default;

  // Whether it stands on an entry.
  bool Valid() const { return valid_; }

  // The first and last entry within the bounds of ReadOptions.
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // The first entry at or behind `target`.
  virtual void Seek(const Slice& target) = 0;
  // The last entry at or before `target`.
  virtual void SeekForPrev(const Slice& target) = 0;

  // REQUIRES: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Valid until the iterator moves. REQUIRES: Valid().
  Slice key() const { return key_; }
  Slice value() const { return value_; }

  // OK at the end of the data; else what stopped it.
  virtual Status status() const = 0;

 protected:
  // Set by every move, so that looking at the entry costs no call.
  bool valid_ = false;
  Slice key_;
  Slice value_;
};

// An iterator that is never valid, and has this status.
VARVE_EXPORT std::unique_ptr<Iterator> NewErrorIterator(Status status);

}  // namespace varve
