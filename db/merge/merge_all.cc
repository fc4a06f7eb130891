// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/merge/merge_all.h"

#include "db/merge/merge_call.h"

namespace varve {

Status MergeAll(const MergeOperator* merge_operator, const Slice& key,
                const MergeOperands& operands, StatisticsImpl* stats,
                std::string* value) {
  if (merge_operator == nullptr) {
    return Status::InvalidArgument(
        "the key has merge operands, and Options::merge_operator is not set");
  }
  const Slice base = operands.base();
  if (CallFullMerge(*merge_operator, key, operands.has_base() ? &base : nullptr,
                    operands.OldestFirst(), stats, value)) {
    return Status::OK();
  }
  return Status::Corruption(
      Status::Subcode::kMergeOperatorFailed,
      std::string("the merge operator ") + merge_operator->Name() + " failed",
      "key " + key.ToString(/*hex=*/true));
}

}  // namespace varve
