// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <vector>

#include "table/internal_iterator.h"
#include "table/range_tombstones.h"

namespace varve {

// Puts filters around the sources of an iterator (memtables, tables, levels)
// that leave out what range deletions hide from it. Of any key, a source holds
// older versions only than those before it. So what a deletion of an earlier
// source covers need not even be looked at: the filter seeks over it. Among
// the versions and deletions of one source the sequence numbers decide.
// Thread-safety: owned by one thread.
class RangeDeletionFilters {
 public:
  using SetList = std::vector<std::shared_ptr<const RangeTombstones>>;

  // Deletions newer than `sequence` are not seen. `comparator` must outlive
  // what is wrapped.
  RangeDeletionFilters(const InternalKeyComparator* comparator,
                       SequenceNumber sequence)
      : comparator_(comparator), sequence_(sequence) {}

  // To be called for the sources newest first, with the deletions of each.
  // Gives the source itself back if there is nothing to leave out.
  std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source, const SetList& own);

 private:
  const InternalKeyComparator* const comparator_;
  const SequenceNumber sequence_;
  SetList above_;
};

}  // namespace varve
