// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "compat/rocksdb/options/slice_transform.h"
#include "varve/iterator.h"

namespace varve::rocksdb_c {

// Returns an iterator that ends where the keys have another prefix than the
// target of its last seek. SeekToFirst and SeekToLast take the prefix of the
// key that they find.
std::unique_ptr<Iterator> NewPrefixIterator(
    std::unique_ptr<Iterator> base,
    std::shared_ptr<const SliceTransform> extractor);

}  // namespace varve::rocksdb_c
