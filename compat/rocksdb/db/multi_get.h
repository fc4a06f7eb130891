// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The arguments and results of reads of several keys.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {

using FamilyHandle = rocksdb_column_family_handle_t;

// A larger number of keys is a negative one converted to size_t.
constexpr size_t kMaxKeys = PTRDIFF_MAX / sizeof(PinnableSlice);

// The keys of one call, in one of two forms, and their families.
struct Keys {
  size_t count;
  const char* const* data = nullptr;
  const size_t* sizes = nullptr;
  const rocksdb_slice_t* slices = nullptr;
  // One for each key. Null if all are of one family.
  const FamilyHandle* const* families = nullptr;

  bool are_slices() const { return slices != nullptr; }
  Bytes At(size_t i) const {
    return are_slices() ? Bytes{slices[i].data, slices[i].size, "key"}
                        : Bytes{data[i], sizes[i], "key"};
  }
};

// The keys of a call as the engine takes them. Those that are not usable are
// empty, and have an error in `errs`.
struct EngineKeys {
  // `main` is the handle of the database of the families.
  EngineKeys(const Keys& keys, const rocksdb_t* main, char** errs)
      : slices(keys.count) {
    for (size_t i = 0; i < keys.count; ++i) {
      const Bytes key = keys.At(i);
      if (Usable(&errs[i], key)) slices[i] = key.slice();
    }
    if (keys.families == nullptr) return;
    families.resize(keys.count);
    for (size_t i = 0; i < keys.count; ++i) {
      const FamilyOfMain own{keys.families[i], main};
      if (Usable(&errs[i], own)) families[i] = own.family->rep.get();
    }
  }

  std::vector<Slice> slices;
  std::vector<ColumnFamilyHandle*> families;  // Empty if all are of one.
};

// Checks the arguments that concern all keys, the last of them by
// ready(errptr), and calls read(). `errs` receives null or an error for each
// key; its entries are not freed before. clear(i) is called for each key first.
// `arrays` must not be null.
template <typename Clear, typename IsReady, typename Read>
void MultiGet(const Keys& keys, std::initializer_list<const void*> arrays,
              char** errs, Clear clear, IsReady ready, Read read) {
  if (errs == nullptr || keys.count > kMaxKeys) return;
  std::fill_n(errs, keys.count, nullptr);
  char* error = nullptr;
  if (std::find(arrays.begin(), arrays.end(), nullptr) != arrays.end()) {
    RefuseArgument(&error, "an array", "is NULL");
  } else {
    for (size_t i = 0; i < keys.count; ++i) clear(i);
    if (ready(&error)) {
      read();
      return;
    }
  }
  for (size_t i = 0; i < keys.count; ++i) errs[i] = CopyBytes(Slice(error));
  free(error);
}

}  // namespace varve::rocksdb_c
