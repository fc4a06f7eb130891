// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/merge_operands.h"

#include <algorithm>

namespace varve {

void MergeOperands::Clear() {
  bytes_.clear();
  ends_.clear();
  newest_first_ = true;
  ended_ = false;
  cover_ = 0;
  has_base_ = false;
}

bool MergeOperands::Add(uint64_t trailer, const Slice& value) {
  const auto type = static_cast<ValueType>(trailer & 0xFF);
  if (trailer >> 8 < cover_) {
    ended_ = true;
  } else if (type == ValueType::kMerge) {
    bytes_.append(value.data(), value.size());
    ends_.push_back(bytes_.size());
  } else {
    ended_ = true;
    if (type == ValueType::kValue) SetBase(value);
  }
  return !ended_;
}

void MergeOperands::AddNewer(const Slice& operand) {
  newest_first_ = false;
  bytes_.append(operand.data(), operand.size());
  ends_.push_back(bytes_.size());
}

void MergeOperands::SetBase(const Slice& value) {
  has_base_ = true;
  base_.assign(value.data(), value.size());
}

std::vector<Slice> MergeOperands::OldestFirst() const {
  std::vector<Slice> operands;
  operands.reserve(ends_.size());
  size_t begin = 0;
  for (const size_t end : ends_) {
    operands.emplace_back(bytes_.data() + begin, end - begin);
    begin = end;
  }
  if (newest_first_) std::reverse(operands.begin(), operands.end());
  return operands;
}

}  // namespace varve
