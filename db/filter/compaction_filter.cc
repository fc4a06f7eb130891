// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compiled with exceptions, which filters may throw through these functions.
#include "varve/compaction_filter.h"

namespace varve {

CompactionFilter::Decision CompactionFilter::FilterV2(
    int level, const Slice& key, ValueType type, const Slice& existing_value,
    std::string* new_value, std::string*) const {
  if (type == ValueType::kMergeOperand) {
    return FilterMergeOperand(level, key, existing_value) ? Decision::kRemove
                                                          : Decision::kKeep;
  }
  bool value_changed = false;
  if (Filter(level, key, existing_value, new_value, &value_changed)) {
    return Decision::kRemove;
  }
  return value_changed ? Decision::kChangeValue : Decision::kKeep;
}

bool CompactionFilter::Filter(int, const Slice&, const Slice&, std::string*,
                              bool*) const {
  return false;
}

bool CompactionFilter::FilterMergeOperand(int, const Slice&,
                                          const Slice&) const {
  return false;
}

bool CompactionFilterFactory::ShouldFilterTableFileCreation(
    TableFileCreationReason reason) const {
  return reason == TableFileCreationReason::kCompaction;
}

}  // namespace varve
