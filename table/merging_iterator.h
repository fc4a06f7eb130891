// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <vector>

#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace varve {

// An iterator over the union of its children, which it owns. Equal internal
// keys come from the earlier child first. One child is handed back as it is.
// An error of a child is the merge's: it stops there.
// `comparator` must outlive it.
std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::vector<std::unique_ptr<InternalIterator>> children);

// An iterator without entries.
std::unique_ptr<InternalIterator> NewEmptyIterator(Status status);

}  // namespace varve
