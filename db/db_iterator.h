// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <functional>
#include <memory>

#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class StatisticsImpl;

// What a user's iterator is made of.
struct DbIteratorParts {
  const InternalKeyComparator* comparator = nullptr;
  std::unique_ptr<InternalIterator> internal;
  // Newer updates are not seen.
  SequenceNumber sequence = 0;
  StatisticsImpl* statistics = nullptr;
  Env* env = nullptr;
  // Called when the iterator has gone, to let go of what it reads from.
  std::function<void()> cleanup;
};

// Yields user keys and their values: the newest version of each that the
// sequence number sees, without the deleted ones.
std::unique_ptr<Iterator> NewDbIterator(DbIteratorParts parts,
                                        const ReadOptions& options);

// An iterator that has only a status.
std::unique_ptr<Iterator> NewErrorIterator(Status status);

}  // namespace varve
