// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <span>

#include "table/block/internal_iterator.h"
#include "table/block/range_tombstone_set.h"

namespace varve {

// Puts filters around the sources of an iterator (memtables, tables, levels)
// that leave out what range deletions hide from it. Of any key, a source holds
// older versions only than those before it. So what a deletion of an earlier
// source covers need not even be looked at: the filter seeks over it. Among
// the versions and deletions of one source the sequence numbers decide.
// Thread-safety: owned by one thread.
class RangeTombstoneFilters {
 public:
  using SetList = ArenaVector<std::shared_ptr<const RangeTombstoneSet>>;

  // Deletions newer than `sequence` are not seen. `comparator` must outlive
  // what is wrapped, and so must `memory`, which may be null.
  RangeTombstoneFilters(const InternalKeyComparator* comparator,
                        SequenceNumber sequence, ThreadArena* memory)
      : comparator_(comparator), sequence_(sequence), above_(memory) {}
  ThreadArena* memory() const { return above_.get_allocator().memory(); }

  // To be called for the sources newest first, with the deletions of each.
  // Gives the source itself back if there is nothing to leave out.
  std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source,
      std::span<const std::shared_ptr<const RangeTombstoneSet>> own);

 private:
  const InternalKeyComparator* const comparator_;
  const SequenceNumber sequence_;
  SetList above_;
};

}  // namespace varve
