// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compiled with exceptions, unlike the rest of the engine.
#include "db/merge/merge_call.h"

namespace varve {

bool CallFullMerge(const MergeOperator& merge_operator, const Slice& key,
                   const Slice* existing, const std::vector<Slice>& operands,
                   StatisticsImpl* stats, std::string* result) {
  result->clear();
  bool merged = false;
  try {
    merged = merge_operator.FullMerge({key, existing, operands}, result);
  } catch (...) {
    merged = false;
  }
  if (merged) return true;
  result->clear();
  RecordTick(stats, Ticker::kNumberMergeFailures);
  return false;
}

bool CallPartialMerge(const MergeOperator& merge_operator, const Slice& key,
                      const std::vector<Slice>& operands, StatisticsImpl* stats,
                      std::string* result) {
  result->clear();
  bool merged = false;
  try {
    merged = merge_operator.PartialMergeMulti(key, operands, result);
  } catch (...) {
    RecordTick(stats, Ticker::kNumberMergeFailures);
  }
  if (!merged) result->clear();
  return merged;
}

}  // namespace varve
