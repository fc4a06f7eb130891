// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>

#include "table/block/internal_iterator.h"
#include "varve/iterator.h"

namespace varve {

// The tree of an iterator with ReadOptions::max_skippable_internal_keys. It
// counts the entries that the iterator passes in one call, and ends with
// Incomplete after too many. Others have no such layer, and so cost nothing.
// Where the class is known, compilers compare each tree with it, so it is not
// defined here.
//
// Merge operands do not count, because they are part of the result. Entries
// that range deletions hide do not count either: the filters below seek over
// them.
// Thread-safety: owned by one thread at a time.
class SkipLimit;

std::shared_ptr<SkipLimit> NewSkipLimit(uint64_t max);
// Puts the limit over a tree, in place of an earlier one. Returns the limit,
// which must not be used after the tree is destroyed.
InternalIterator* PutOver(SkipLimit* limit, InternalIterator* tree);
// Returns an iterator that shows the entries of `base`, whose tree is under
// `limit`.
std::unique_ptr<Iterator> NewSkipLimitedIterator(
    std::shared_ptr<SkipLimit> limit, std::unique_ptr<Iterator> base);

}  // namespace varve
