// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <functional>
#include <memory>

#include "db/engine/iterator_state.h"
#include "table/block/internal_key.h"
#include "util/threads/thread_arena.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class DeadWalks;
class StatisticsImpl;

// The parts of a user's iterator.
struct DbIteratorParts {
  const InternalKeyComparator* comparator = nullptr;
  IteratorState* state = nullptr;  // With a tree.
  // Newer updates are invisible.
  SequenceNumber sequence = 0;
  StatisticsImpl* statistics = nullptr;
  Env* env = nullptr;
  // What is known of dead entries; null if walks do not matter.
  DeadWalks* dead_walks = nullptr;
  // Long walks are reported, so that the dead entries are removed.
  bool reports_walks = true;
  // Called when the iterator is destroyed, to release its sources.
  std::function<void()> cleanup;
};

// Returns the bytes of an iterator, for its place in the state.
size_t DbIteratorBytes();

// Creates an iterator over user keys and their values. It yields the newest
// version of each key that is visible at the sequence number, and no deleted
// keys.
std::unique_ptr<Iterator> NewDbIterator(DbIteratorParts parts,
                                        const ReadOptions& options);

}  // namespace varve
