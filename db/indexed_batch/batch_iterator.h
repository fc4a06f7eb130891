// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "db/indexed_batch/batch_index.h"
#include "varve/write_batch_with_index.h"

namespace varve {

// Returns an iterator over the updates of the family. See
// WriteBatchWithIndex::NewIterator. `index` must outlive it.
std::unique_ptr<WBWIIterator> NewBatchIterator(BatchIndex* index,
                                               const FamilyIndex& family);

// Returns an iterator that has the given error.
std::unique_ptr<WBWIIterator> NewErrorBatchIterator(Status status);

}  // namespace varve
