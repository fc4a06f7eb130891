// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"

namespace varve {

// Returns an iterator over the union of its children, which it owns. Equal
// internal keys come from the earlier child first. A single child is returned
// as it is. An error of a child stops the merge, which then returns that error.
// `comparator` must outlive the iterator. So must `memory`, which may be null.
// Moves from the children.
std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::span<std::unique_ptr<InternalIterator>> children, ThreadArena* memory);
inline std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::vector<std::unique_ptr<InternalIterator>> children) {
  return NewMergingIterator(comparator, std::span(children), nullptr);
}

// Returns an iterator without entries and with this status.
std::unique_ptr<InternalIterator> NewEmptyIterator(
    Status status, ThreadArena* memory = nullptr);

}  // namespace varve
