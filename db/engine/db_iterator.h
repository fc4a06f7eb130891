// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>

#include "db/engine/iterator_state.h"
#include "db/prefix/prefix_iterator.h"
#include "table/block/internal_key.h"
#include "util/threads/thread_arena.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class ColumnFamily;
class DeadWalks;
class MergeOperator;
class SkipLimit;
class StatisticsImpl;
struct DbIteratorParts;
struct SuperVersion;

// The DB that an iterator reads from. An interface, because a std::function
// with as many values would allocate memory for each iterator.
class IteratorOwner {
 public:
  // Sets the parts of *parts that belong to the present state of the family:
  // sequence, state, dead_walks and super_version, to which it takes a
  // reference in `stripe`. If `reused` has the right tree, it becomes the
  // state. On an error, nothing changes.
  virtual Status BeginIterator(ColumnFamily* family, const ReadOptions& options,
                               IteratorState* reused,
                               DbIteratorParts* parts) = 0;
  // Releases the SuperVersion of an iterator that goes on with another one.
  virtual void ReleaseSuperVersion(const DbIteratorParts& parts) = 0;
  // Called when the iterator is destroyed, to release what it has read.
  virtual void EndIterator(const DbIteratorParts& parts) = 0;

 protected:
  ~IteratorOwner() = default;
};

// The parts of a user's iterator.
struct DbIteratorParts {
  const InternalKeyComparator* comparator = nullptr;
  IteratorState* state = nullptr;  // With a tree.
  // Newer updates are invisible.
  SequenceNumber sequence = 0;
  StatisticsImpl* statistics = nullptr;
  const MergeOperator* merge_operator = nullptr;  // May be null.
  Env* env = nullptr;
  SkipLimit* skip_limit = nullptr;  // May be null.
  PrefixUse prefixes;
  // What is known of dead entries; null if walks do not matter.
  DeadWalks* dead_walks = nullptr;
  // The DB created it for itself. The long walks of others are reported, so
  // that the dead entries are removed.
  bool is_own = false;
  IteratorOwner* owner = nullptr;
  ColumnFamily* family = nullptr;
  SuperVersion* super_version = nullptr;
  uint32_t stripe = 0;  // See StripedRefs.
};

// Returns the bytes of an iterator, for its place in the state.
size_t DbIteratorBytes();

// Creates an iterator over user keys and their values. It yields the newest
// version of each key that is visible at the sequence number, and no deleted
// keys.
std::unique_ptr<BoundedIterator> NewDbIterator(const DbIteratorParts& parts,
                                               const ReadOptions& options);

}  // namespace varve
