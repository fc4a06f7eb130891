// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compiled with exceptions, which operators may throw through these functions.
#include "varve/merge_operator.h"

#include <cstddef>

namespace varve {

bool MergeOperator::PartialMerge(const Slice&, const Slice&, const Slice&,
                                 std::string*) const {
  return false;
}

bool MergeOperator::PartialMergeMulti(const Slice& key,
                                      const std::vector<Slice>& operands,
                                      std::string* new_value) const {
  if (operands.size() < 2) return false;
  std::string combined;
  Slice left = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    new_value->clear();
    if (!PartialMerge(key, left, operands[i], new_value)) return false;
    if (i + 1 == operands.size()) break;
    combined.swap(*new_value);
    left = combined;
  }
  return true;
}

bool AssociativeMergeOperator::FullMerge(const FullMergeInput& input,
                                         std::string* new_value) const {
  std::string merged;
  Slice left;
  const Slice* existing = input.existing_value;
  for (const Slice& operand : input.operands) {
    new_value->clear();
    if (!Merge(input.key, existing, operand, new_value)) return false;
    if (&operand == &input.operands.back()) break;
    merged.swap(*new_value);
    left = merged;
    existing = &left;
  }
  return true;
}

bool AssociativeMergeOperator::PartialMerge(const Slice& key, const Slice& left,
                                            const Slice& right,
                                            std::string* new_value) const {
  return Merge(key, &left, right, new_value);
}

}  // namespace varve
