// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "db/indexed_batch/batch_index.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class MergeOperator;

// The parts of an iterator over a database with a batch.
struct MergedIteratorParts {
  BatchIndex* index = nullptr;
  const FamilyIndex* family = nullptr;
  std::unique_ptr<Iterator> base = nullptr;
  // Null if it is not known.
  const MergeOperator* merge_operator = nullptr;
  // The bounds; may be null.
  const ReadOptions* options = nullptr;
  // After it has passed the batch's last update in its direction, the iterator
  // sees no update that is added later, until it seeks or turns.
  bool ends_with_batch = false;
};

// See WriteBatchWithIndex::NewIteratorWithBase.
std::unique_ptr<Iterator> NewMergedIterator(MergedIteratorParts parts);

}  // namespace varve
