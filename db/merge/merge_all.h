// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "table/reader/merge_operands.h"
#include "varve/merge_operator.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class StatisticsImpl;

// Sets *value to what the operands of the key result in. Returns Corruption if
// the operator fails, and InvalidArgument if it is null. REQUIRES: the caller
// holds no lock and is outside of read-side critical sections, because this
// calls the user's code; the operands are not empty. `stats` may be null.
Status MergeAll(const MergeOperator* merge_operator, const Slice& key,
                const MergeOperands& operands, StatisticsImpl* stats,
                std::string* value);

}  // namespace varve
