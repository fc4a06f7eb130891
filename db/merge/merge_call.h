// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Calls of a merge operator, which is code of the user: what it throws goes no
// further. Thread-safety: thread-safe. No lock may be held, nor an epoch's
// read-side critical section be open, during a call.

#include <string>
#include <vector>

#include "monitoring/statistics.h"
#include "varve/merge_operator.h"
#include "varve/slice.h"

namespace varve {

// Applies the operands, oldest first, to the existing value, which is null if
// there is none, and stores the value in *result. Returns false, and counts
// kNumberMergeFailures if `stats` is not null, if the operator fails or throws;
// *result is empty then. `existing` and the operands must not point into
// *result. REQUIRES: there is an operand.
bool CallFullMerge(const MergeOperator& merge_operator, const Slice& key,
                   const Slice* existing, const std::vector<Slice>& operands,
                   StatisticsImpl* stats, std::string* result);

// Combines the operands, oldest first, to one in *result. Returns false if the
// operator cannot; *result is empty then. This is no failure unless the
// operator throws. The operands must not point into *result. REQUIRES: there
// are at least two operands.
bool CallPartialMerge(const MergeOperator& merge_operator, const Slice& key,
                      const std::vector<Slice>& operands, StatisticsImpl* stats,
                      std::string* result);

}  // namespace varve
