// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/merge_operator.h"

#include <rocksdb/c.h>

#include <cstdlib>

#include "compat/rocksdb/options/options.h"

namespace {

using varve::Slice;

// Slices in the form that the callbacks take.
struct Operands {
  explicit Operands(const std::vector<Slice>& slices) {
    data.reserve(slices.size());
    sizes.reserve(slices.size());
    for (const Slice& slice : slices) {
      data.push_back(slice.data());
      sizes.push_back(slice.size());
    }
  }
  int count() const { return static_cast<int>(data.size()); }

  std::vector<const char*> data;
  std::vector<size_t> sizes;
};

// Copies the value that a callback returned, which can be null after a failure,
// and lets the program delete it.
void TakeValue(const rocksdb_mergeoperator_t& merge_operator, char* value,
               size_t size, std::string* result) {
  if (value != nullptr) result->assign(value, size);
  if (merge_operator.delete_value != nullptr) {
    merge_operator.delete_value(merge_operator.state.get(), value, size);
  } else {
    free(value);
  }
}

}  // namespace

bool rocksdb_mergeoperator_t::FullMerge(const FullMergeInput& input,
                                        std::string* new_value) const {
  const Operands operands(input.operands);
  // A null pointer is no value; an empty one has another pointer.
  const char* existing = nullptr;
  size_t existing_size = 0;
  if (input.existing_value != nullptr) {
    existing_size = input.existing_value->size();
    existing = existing_size == 0 ? "" : input.existing_value->data();
  }
  unsigned char success = 0;
  size_t size = 0;
  char* const value =
      full_merge(state.get(), input.key.data(), input.key.size(), existing,
                 existing_size, operands.data.data(), operands.sizes.data(),
                 operands.count(), &success, &size);
  TakeValue(*this, value, size, new_value);
  return success != 0;
}

bool rocksdb_mergeoperator_t::PartialMerge(const Slice& key, const Slice& left,
                                           const Slice& right,
                                           std::string* new_value) const {
  return PartialMergeMulti(key, {left, right}, new_value);
}

bool rocksdb_mergeoperator_t::PartialMergeMulti(
    const Slice& key, const std::vector<Slice>& slices,
    std::string* new_value) const {
  if (partial_merge == nullptr) return false;
  const Operands operands(slices);
  unsigned char success = 0;
  size_t size = 0;
  char* const value =
      partial_merge(state.get(), key.data(), key.size(), operands.data.data(),
                    operands.sizes.data(), operands.count(), &success, &size);
  TakeValue(*this, value, size, new_value);
  return success != 0;
}

extern "C" {

rocksdb_mergeoperator_t* rocksdb_mergeoperator_create(
    void* state, void (*destructor)(void*),
    char* (*full_merge)(void*, const char* key, size_t key_length,
                        const char* existing_value,
                        size_t existing_value_length,
                        const char* const* operands_list,
                        const size_t* operands_list_length, int num_operands,
                        unsigned char* success, size_t* new_value_length),
    char* (*partial_merge)(void*, const char* key, size_t key_length,
                           const char* const* operands_list,
                           const size_t* operands_list_length, int num_operands,
                           unsigned char* success, size_t* new_value_length),
    void (*delete_value)(void*, const char* value, size_t value_length),
    const char* (*name)(void*)) {
  if (full_merge == nullptr) return nullptr;
  return new rocksdb_mergeoperator_t({state, destructor, name}, full_merge,
                                     partial_merge, delete_value);
}

void rocksdb_mergeoperator_destroy(rocksdb_mergeoperator_t* merge_operator) {
  delete merge_operator;
}

void rocksdb_options_set_uint64add_merge_operator(rocksdb_options_t* options) {
  if (options == nullptr) return;
  options->merge_operator = varve::NewUInt64AddOperator();
}

}  // extern "C"
