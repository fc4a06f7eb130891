// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What orders the entries of a memtable in the place of its B-link tree. The
// baselines of db/memtable/baseline/ are of this kind; the tree is not, so that
// its calls are direct.
// Thread-safety: thread-safe.

#include <cstddef>
#include <memory>

#include "table/block/internal_iterator.h"
#include "varve/slice.h"

namespace varve {

class Arena;
class ThreadArena;
class InternalKeyComparator;

class MemTableOrder {
 public:
  virtual ~MemTableOrder() = default;

  // Space for an entry of so many bytes, to be filled and then inserted.
  virtual char* AllocateEntry(size_t size) = 0;
  // REQUIRES: no entry with an equal internal key was inserted.
  virtual void Insert(const char* entry) = 0;
  // The first entry at or after the internal key; null if there is none.
  virtual const char* LowerBound(const Slice& internal_key) const = 0;
  // Must not outlive this. `memory` may be null.
  virtual std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory) const = 0;
};

// `arena` is for the entries; both must outlive the result.
using NewMemTableOrder = std::unique_ptr<MemTableOrder>(
    const InternalKeyComparator* comparator, Arena* arena);

}  // namespace varve
