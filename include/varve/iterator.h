// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class SliceTransform;
class Snapshot;

// Iterates over the entries of a database in the order of its comparator. It
// shows the state of the database at its creation, or at
// ReadOptions::snapshot.
//
// A new iterator is not valid until it seeks. After an error it is not valid
// either. When Valid() returns false, check status().
// Thread-safety: owned by one thread at a time.
// Lifetime: must be destroyed before the DB. It keeps memtables, files and
// blocks alive.
class VARVE_EXPORT Iterator {
 public:
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator() = default;

  // Returns true if the iterator is positioned at an entry.
  bool Valid() const { return valid_; }

  // Moves to the first or the last entry within the bounds of ReadOptions.
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // Moves to the first entry whose key is at or after `target`.
  virtual void Seek(const Slice& target) = 0;
  // Moves to the last entry whose key is at or before `target`.
  virtual void SeekForPrev(const Slice& target) = 0;

  // Moves to the next or the previous entry. REQUIRES: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Returns the key or the value of the entry. The slice is valid until the
  // iterator moves. REQUIRES: Valid().
  Slice key() const { return key_; }
  Slice value() const { return value_; }

  // Returns OK at the end of the data, otherwise the error that ended the
  // iteration.
  virtual Status status() const = 0;

  // Shows the present state of the database, or the state of `snapshot`, from
  // the next seek on; the iterator is not valid until then. Returns
  // NotSupported for an iterator that cannot.
  virtual Status Refresh(const Snapshot* snapshot = nullptr);

  // Returns the function in whose prefixes the iterator stays
  // (ReadOptions::prefix_same_as_start), or null. It is the family's as of the
  // iterator's creation. An iterator of your own that shows another one's
  // entries returns the other one's.
  virtual std::shared_ptr<const SliceTransform> prefix_extractor() const;

 protected:
  // Set by every move, so that Valid, key and value need no virtual call.
  bool valid_ = false;
  Slice key_;
  Slice value_;
};

// Returns an iterator that is never valid and has the given status.
VARVE_EXPORT std::unique_ptr<Iterator> NewErrorIterator(Status status);

}  // namespace varve
