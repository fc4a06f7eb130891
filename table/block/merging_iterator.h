// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"

namespace varve {

// An iterator over the union of its children, which it owns. Equal internal
// keys come from the earlier child first. One child is handed back as it is.
// An error of a child is the merge's: it stops there.
// `comparator` must outlive it, and so must `memory`, which may be null. Moves
// from the children.
std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::span<std::unique_ptr<InternalIterator>> children, ThreadArena* memory);
inline std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::vector<std::unique_ptr<InternalIterator>> children) {
  return NewMergingIterator(comparator, std::span(children), nullptr);
}

// An iterator without entries.
std::unique_ptr<InternalIterator> NewEmptyIterator(
    Status status, ThreadArena* memory = nullptr);

}  // namespace varve
