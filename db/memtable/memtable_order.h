// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What orders the entries of a memtable in the place of its B-link tree. The
// baselines of db/memtable/baseline/ are of this kind; the tree is not, so that
// its calls are direct.
// Thread-safety: thread-safe.

#include <cstddef>
#include <memory>

#include "table/block/internal_iterator.h"
#include "util/base/experiment.h"
#include "varve/slice.h"

namespace varve {

class Arena;
class ContextMemory;
class InternalKeyComparator;

class MemTableOrder {
 public:
  virtual ~MemTableOrder() = default;

  // Returns memory for an entry of this size, to be filled and then inserted.
  virtual char* AllocateEntry(size_t size) = 0;
  // REQUIRES: no entry with an equal internal key was inserted.
  virtual void Insert(const char* entry) = 0;
  // The first entry at or after the internal key; null if there is none.
  virtual const char* LowerBound(const Slice& internal_key) const = 0;
  // Must not outlive this. `memory` may be null.
  virtual std::unique_ptr<InternalIterator> NewIterator(
      ContextMemory* memory) const = 0;
};

}  // namespace varve
