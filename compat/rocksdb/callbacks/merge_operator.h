// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/callbacks/callback_state.h"
#include "varve/merge_operator.h"

// A merge operator of the program. Options that get it take it over.
struct rocksdb_mergeoperator_t final : varve::MergeOperator {
  // The functions return a value that `delete_value`, or free, is called with.
  using FullFunction = char* (*)(void*, const char* key, size_t key_length,
                                 const char* existing_value,
                                 size_t existing_value_length,
                                 const char* const* operands,
                                 const size_t* operand_lengths,
                                 int operand_count, unsigned char* success,
                                 size_t* new_value_length);
  using PartialFunction = char* (*)(void*, const char* key, size_t key_length,
                                    const char* const* operands,
                                    const size_t* operand_lengths,
                                    int operand_count, unsigned char* success,
                                    size_t* new_value_length);
  using DeleteFunction = void (*)(void*, const char* value,
                                  size_t value_length);

  rocksdb_mergeoperator_t(varve::rocksdb_c::CallbackState callback_state,
                          FullFunction full, PartialFunction partial,
                          DeleteFunction delete_function)
      : state(std::move(callback_state)),
        full_merge(full),
        partial_merge(partial),
        delete_value(delete_function) {}

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override;
  bool PartialMerge(const varve::Slice& key, const varve::Slice& left,
                    const varve::Slice& right,
                    std::string* new_value) const override;
  bool PartialMergeMulti(const varve::Slice& key,
                         const std::vector<varve::Slice>& operands,
                         std::string* new_value) const override;
  const char* Name() const override { return state.Name(); }

  const varve::rocksdb_c::CallbackState state;
  const FullFunction full_merge;
  const PartialFunction partial_merge;  // Null: operands are not combined.
  const DeleteFunction delete_value;    // Null: free.
};
