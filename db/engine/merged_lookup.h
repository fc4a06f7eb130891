// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "table/reader/merge_operands.h"
#include "table/reader/read_target.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// A lookup of a MultiGet that found merge operands. They are applied when all
// lookups have ended. Thread-safety: owned by one thread.
struct MergedLookup {
  Slice key;
  ReadTarget target;
  Status* status;  // Of the lookup.
  MergeOperands operands;
};

}  // namespace varve
