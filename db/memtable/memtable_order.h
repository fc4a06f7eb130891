// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The interface of structures that can replace a memtable's B-link tree. The
// baselines in db/memtable/baseline/ and the tree with a filter of prefixes
// (db/prefix/prefix_order) implement it. The tree does not, so that calls to it
// are direct.
//
// Thread-safety: thread-safe.

#include <cstddef>
#include <memory>

#include "table/block/internal_iterator.h"
#include "util/base/experiment.h"
#include "util/bytes/arena.h"
#include "varve/slice.h"

namespace varve {

class SliceTransform;
class ThreadArena;
class InternalKeyComparator;

class MemTableOrder {
 public:
  virtual ~MemTableOrder() = default;

  // Allocates `size` bytes for an entry. The caller fills and inserts it.
  virtual ArenaPlace AllocateEntry(size_t size) = 0;
  // Inserts the entry, which the structure allocated. `key` is its internal
  // key. REQUIRES: no entry with an equal internal key was inserted.
  virtual void Insert(const ArenaPlace& entry, const Slice& key) = 0;
  // Returns the first entry at or after the internal key, or null.
  virtual const char* LowerBound(const Slice& internal_key) const = 0;
  // Returns an iterator, which must not outlive this object. `memory` may be
  // null.
  virtual std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory) const = 0;
  // See MemTable::MayHavePrefix.
  virtual bool MayHavePrefix(const SliceTransform& /*extractor*/,
                             uint64_t /*hash*/) const {
    return true;
  }
};

}  // namespace varve
