// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "monitoring/statistics.h"
#include "table/block/internal_key.h"
#include "varve/merge_operator.h"
#include "varve/slice.h"

namespace varve {

// Merge operands of one key, as a job reads them: newest first. Keeps a copy of
// all of them, and its memory for the next key. Thread-safety: owned by one
// thread.
class OperandList {
 public:
  OperandList() = default;
  OperandList(const OperandList&) = delete;
  OperandList& operator=(const OperandList&) = delete;

  void Clear() {
    operands_.clear();
    bytes_.clear();
  }
  // Adds an operand that is older than all others.
  void Add(SequenceNumber sequence, const Slice& value) {
    operands_.push_back({sequence, bytes_.size(), value.size()});
    bytes_.append(value.data(), value.size());
  }

  bool empty() const { return operands_.empty(); }
  size_t size() const { return operands_.size(); }
  // The newest is 0. Slices are valid until the next Add or Clear.
  SequenceNumber sequence(size_t i) const { return operands_[i].sequence; }
  Slice value(size_t i) const {
    return Slice(bytes_.data() + operands_[i].begin, operands_[i].size);
  }

  // Merge all operands; see CallFullMerge and CallPartialMerge. The result is
  // in merged() until the next call. PartialMerge returns false for less than
  // two operands.
  bool FullMerge(const MergeOperator& merge_operator, const Slice& key,
                 const Slice* existing, StatisticsImpl* stats);
  bool PartialMerge(const MergeOperator& merge_operator, const Slice& key,
                    StatisticsImpl* stats);
  const std::string& merged() const { return merged_; }

 private:
  struct Operand {
    SequenceNumber sequence;
    size_t begin;  // In bytes_.
    size_t size;
  };

  const std::vector<Slice>& OldestFirst();

  std::vector<Operand> operands_;
  std::string bytes_;
  std::vector<Slice> oldest_first_;
  std::string merged_;
};

}  // namespace varve
