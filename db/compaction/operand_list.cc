// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/operand_list.h"

#include "db/merge/merge_call.h"

namespace varve {

const std::vector<Slice>& OperandList::OldestFirst() {
  oldest_first_.clear();
  for (size_t i = operands_.size(); i > 0; --i) {
    oldest_first_.push_back(value(i - 1));
  }
  return oldest_first_;
}

bool OperandList::FullMerge(const MergeOperator& merge_operator,
                            const Slice& key, const Slice* existing,
                            StatisticsImpl* stats) {
  return CallFullMerge(merge_operator, key, existing, OldestFirst(), stats,
                       &merged_);
}

bool OperandList::PartialMerge(const MergeOperator& merge_operator,
                               const Slice& key, StatisticsImpl* stats) {
  return operands_.size() > 1 &&
         CallPartialMerge(merge_operator, key, OldestFirst(), stats, &merged_);
}

}  // namespace varve
