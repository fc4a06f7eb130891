// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's merge operators; see varve/rocksdb.h. They get no logger.

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/merge_operator.h"
#include "varve/rocksdb/names.h"

namespace VARVE_ROCKSDB_NAMESPACE {

class MergeOperator {
 public:
  struct MergeOperationInput {
    const Slice& key;
    const Slice* existing_value;
    const std::vector<Slice>& operand_list;
    Logger* logger;
  };
  struct MergeOperationOutput {
    std::string& new_value;
    // If its data is not null, it is the result in the place of new_value.
    Slice& existing_operand;
  };

  virtual ~MergeOperator() = default;
  virtual const char* Name() const = 0;

  // The default calls FullMerge.
  virtual bool FullMergeV2(const MergeOperationInput& input,
                           MergeOperationOutput* output) const {
    std::deque<std::string> operands;
    for (const Slice& operand : input.operand_list) {
      operands.push_back(operand.ToString());
    }
    return FullMerge(input.key, input.existing_value, operands,
                     &output->new_value, input.logger);
  }
  virtual bool FullMerge(const Slice& /*key*/, const Slice* /*existing_value*/,
                         const std::deque<std::string>& /*operands*/,
                         std::string* /*new_value*/, Logger* /*logger*/) const {
    return false;
  }
  virtual bool PartialMerge(const Slice& /*key*/, const Slice& /*left*/,
                            const Slice& /*right*/, std::string* /*new_value*/,
                            Logger* /*logger*/) const {
    return false;
  }
  // The default calls PartialMerge for one pair after another.
  virtual bool PartialMergeMulti(const Slice& key,
                                 const std::deque<Slice>& operands,
                                 std::string* new_value, Logger* logger) const {
    std::string left = operands.front().ToString();
    for (size_t i = 1; i < operands.size(); ++i) {
      new_value->clear();
      if (!PartialMerge(key, left, operands[i], new_value, logger)) {
        return false;
      }
      left = *new_value;
    }
    return true;
  }
};

class AssociativeMergeOperator : public MergeOperator {
 public:
  virtual bool Merge(const Slice& key, const Slice* existing_value,
                     const Slice& value, std::string* new_value,
                     Logger* logger) const = 0;

 private:
  bool FullMergeV2(const MergeOperationInput& input,
                   MergeOperationOutput* output) const override {
    const Slice* existing = input.existing_value;
    std::string result;
    Slice merged;
    for (const Slice& operand : input.operand_list) {
      std::string next;
      if (!Merge(input.key, existing, operand, &next, input.logger)) {
        return false;
      }
      result = std::move(next);
      merged = result;
      existing = &merged;
    }
    output->new_value = std::move(result);
    return true;
  }
  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value, Logger* logger) const override {
    return Merge(key, &left, right, new_value, logger);
  }
};

namespace internal {

// A program's operator as Varve's.
class MergeAdapter final : public varve::MergeOperator {
 public:
  explicit MergeAdapter(
      std::shared_ptr<VARVE_ROCKSDB_NAMESPACE::MergeOperator> target)
      : target_(std::move(target)) {}

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    Slice operand(nullptr, 0);
    VARVE_ROCKSDB_NAMESPACE::MergeOperator::MergeOperationOutput output{
        *new_value, operand};
    if (!target_->FullMergeV2(
            {input.key, input.existing_value, input.operands, nullptr},
            &output)) {
      return false;
    }
    if (operand.data() != nullptr) {
      new_value->assign(operand.data(), operand.size());
    }
    return true;
  }
  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    return PartialMergeMulti(key, {left, right}, new_value);
  }
  bool PartialMergeMulti(const Slice& key, const std::vector<Slice>& operands,
                         std::string* new_value) const override {
    return target_->PartialMergeMulti(key, {operands.begin(), operands.end()},
                                      new_value, nullptr);
  }
  const char* Name() const override { return target_->Name(); }

 private:
  const std::shared_ptr<VARVE_ROCKSDB_NAMESPACE::MergeOperator> target_;
};

}  // namespace internal

}  // namespace VARVE_ROCKSDB_NAMESPACE
