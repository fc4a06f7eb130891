// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "table/block/internal_key.h"
#include "varve/slice.h"

namespace varve {

// A walk of an iterator over dead entries: deletions, and what they hide. No
// user key in the range is live for a reader with this sequence number.
// Thread-safety: a value. The slices belong to the iterator.
struct WalkedRange {
  Slice begin;  // Not set: from the first key on.
  Slice end;    // Not part of it. Not set: to the last key.
  bool has_begin = false;
  bool has_end = false;
  bool includes_begin = false;  // `begin` is part of it.
  SequenceNumber sequence = 0;
  uint64_t dead = 0;  // Deletions that the walk passed.
  // Besides, the walk stepped over a range that was known.
  bool stepped = false;
};

}  // namespace varve
