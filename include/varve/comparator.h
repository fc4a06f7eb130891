// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// A total order over keys. It belongs to a database for life: its name is
// recorded there, and opening with another one is refused.
// Thread-safety: methods are called from many threads at once.
// Lifetime: must outlive every DB opened with it.
class VARVE_EXPORT Comparator {
 public:
  virtual ~Comparator() = default;

  // < 0, 0 or > 0 as a stands before, with or behind b. If 0 may also be the
  // answer for other bytes, the database must have no built-in Bloom filter.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // The name recorded in databases. Change it when the order changes. Names
  // that begin with "leveldb." or "rocksdb." or "varve." are taken.
  virtual const char* Name() const = 0;

  // If *start < limit, may change *start to a shorter string in
  // [*start, limit). Doing nothing is correct; it only makes indexes larger.
  virtual void FindShortestSeparator(std::string* start,
                                     const Slice& limit) const = 0;

  // May change *key to a shorter string >= *key. Doing nothing is correct.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Unsigned bytewise order, a prefix first: "leveldb.BytewiseComparator", the
// default. Lives for ever.
VARVE_EXPORT const Comparator* BytewiseComparator();

}  // namespace varve
