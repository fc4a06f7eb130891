// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// Defines a total order of keys. A database records the name of its comparator
// at creation. It cannot be opened with another one.
// Thread-safety: methods are called from many threads at once.
// Lifetime: must outlive every DB opened with it.
class VARVE_EXPORT Comparator {
 public:
  virtual ~Comparator() = default;

  // Returns a value < 0, 0 or > 0 if a is ordered before, equal to or after b.
  // If it returns 0 for keys with different bytes, the database must not use
  // the built-in Bloom filter.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // Returns the name that databases record. It must change when the order
  // changes. Names that begin with "leveldb.", "rocksdb." or "varve." are
  // reserved.
  virtual const char* Name() const = 0;

  // If *start < limit, changes *start to a shorter string in [*start, limit).
  // An implementation can do nothing. Index blocks are then larger.
  virtual void FindShortestSeparator(std::string* start,
                                     const Slice& limit) const = 0;

  // Changes *key to a shorter string >= *key. An implementation can do nothing.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Returns the default comparator, "leveldb.BytewiseComparator". It orders keys
// by their bytes as unsigned numbers. A key is ordered before its extensions.
// The comparator is never destroyed.
VARVE_EXPORT const Comparator* BytewiseComparator();

// Returns the comparator "rocksdb.ReverseBytewiseComparator". It has the
// reverse order of BytewiseComparator. The comparator is never destroyed.
VARVE_EXPORT const Comparator* ReverseBytewiseComparator();

}  // namespace varve
