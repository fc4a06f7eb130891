// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <span>

#include "table/block/internal_iterator.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

// Wraps the sources of an iterator (memtables, tables, levels) in filters that
// leave out entries hidden by range deletions. For any key, a source has only
// older versions than the sources before it. So a filter need not read entries
// that a deletion of an earlier source covers, and seeks over them. Between the
// entries and deletions of one source, the sequence numbers decide.
//
// Thread-safety: owned by one thread.
class RangeTombstoneFilters {
 public:
  using SetList = ArenaVector<std::shared_ptr<const RangeTombstoneSet>>;

  // Deletions newer than `sequence` are ignored. `comparator` and `memory` must
  // outlive the wrapped iterators. `memory` may be null.
  RangeTombstoneFilters(const InternalKeyComparator* comparator,
                        SequenceNumber sequence, ThreadArena* memory)
      : comparator_(comparator), sequence_(sequence), above_(memory) {}
  ThreadArena* memory() const { return above_.get_allocator().memory(); }

  // Returns a filter around `source`, or `source` itself if no deletion can
  // hide its entries. `own` are the source's own deletions. Must be called for
  // the sources from newest to oldest.
  std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source,
      std::span<const std::shared_ptr<const RangeTombstoneSet>> own);

 private:
  const InternalKeyComparator* const comparator_;
  const SequenceNumber sequence_;
  SetList above_;
};

}  // namespace varve
