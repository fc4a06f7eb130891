// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of several keys at one moment.

#include <algorithm>
#include <utility>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

using FamilyHandle = rocksdb_column_family_handle_t;

// A larger number of keys is a negative one converted to size_t.
constexpr size_t kMaxKeys = PTRDIFF_MAX / sizeof(PinnableSlice);

// The keys of one call, in one of two forms, and their families.
struct Keys {
  size_t count;
  const char* const* data = nullptr;
  const size_t* sizes = nullptr;
  const rocksdb_slice_t* slices = nullptr;
  // One for each key.
  const FamilyHandle* const* families = nullptr;

  bool are_slices() const { return slices != nullptr; }
  Bytes At(size_t i) const {
    return are_slices() ? Bytes{slices[i].data, slices[i].size, "key"}
                        : Bytes{data[i], sizes[i], "key"};
  }
};

// Reads the keys of `family` (null is the default one) or of keys.families.
// They are usable except for those that have an error in `errs`. Stores an
// error, or calls store(i, value), for each of the others. The value is null if
// the key does not exist.
template <typename Store>
void Read(rocksdb_t* db, const rocksdb_readoptions_t& options,
          const FamilyHandle* family, const Keys& keys, char** errs,
          Store store) {
  std::vector<Slice> slices(keys.count);
  for (size_t i = 0; i < keys.count; ++i) {
    const Bytes key = keys.At(i);
    if (Usable(&errs[i], key)) slices[i] = key.slice();
  }
  std::vector<PinnableSlice> values(keys.count);
  std::vector<Status> statuses(keys.count);
  if (keys.families == nullptr) {
    db->db->MultiGet(options.rep,
                     family != nullptr ? family->rep.get() : nullptr,
                     keys.count, slices.data(), values.data(), statuses.data());
  } else {
    std::vector<ColumnFamilyHandle*> families(keys.count);
    for (size_t i = 0; i < keys.count; ++i) {
      const FamilyOf own{keys.families[i], db};
      if (Usable(&errs[i], own)) families[i] = own.family->rep.get();
    }
    db->db->MultiGet(options.rep, keys.count, families.data(), slices.data(),
                     values.data(), statuses.data());
  }
  for (size_t i = 0; i < keys.count; ++i) {
    if (errs[i] != nullptr) continue;
    if (statuses[i].ok()) {
      store(i, &values[i]);
    } else if (!statuses[i].IsNotFound()) {
      ReplaceError(&errs[i], statuses[i]);
    }
  }
}

// Checks the arguments that concern all keys, and reads. `errs` receives null
// or an error for each key; its entries are not freed before. clear(i) is
// called for each key first. `arrays` must not be null.
template <typename Clear, typename Store, typename... More>
void MultiGet(rocksdb_t* db, const rocksdb_readoptions_t* options,
              const FamilyHandle* family, const Keys& keys,
              std::initializer_list<const void*> arrays, char** errs,
              Clear clear, Store store, const More&... more) {
  if (errs == nullptr || keys.count > kMaxKeys) return;
  std::fill_n(errs, keys.count, nullptr);
  char* error = nullptr;
  if (std::find(arrays.begin(), arrays.end(), nullptr) != arrays.end()) {
    RefuseArgument(&error, "an array", "is NULL");
  } else {
    for (size_t i = 0; i < keys.count; ++i) clear(i);
    if (Ready(&error, db, options, more...)) {
      Read(db, *options, family, keys, errs, store);
      return;
    }
  }
  for (size_t i = 0; i < keys.count; ++i) errs[i] = CopyBytes(Slice(error));
  free(error);
}

// As above, with copies of the values from malloc as results.
void MultiGetCopies(rocksdb_t* db, const rocksdb_readoptions_t* options,
                    const Keys& keys, std::initializer_list<const void*> arrays,
                    char** copies, size_t* sizes, char** errs) {
  MultiGet(
      db, options, nullptr, keys, arrays, errs,
      [copies, sizes](size_t i) {
        copies[i] = nullptr;
        sizes[i] = 0;
      },
      [copies, sizes](size_t i, PinnableSlice* value) {
        copies[i] = CopyBytes(*value);
        sizes[i] = value->size();
      });
}

// As above, with pinned values of one family.
void MultiGetPinned(rocksdb_t* db, const rocksdb_readoptions_t* options,
                    const FamilyHandle* family, const Keys& keys,
                    std::initializer_list<const void*> arrays,
                    rocksdb_pinnableslice_t** values, char** errs) {
  MultiGet(
      db, options, family, keys, arrays, errs,
      [values](size_t i) { values[i] = nullptr; },
      [values](size_t i, PinnableSlice* value) {
        values[i] = new rocksdb_pinnableslice_t;
        values[i]->rep = std::move(*value);
      },
      FamilyOf{family, db});
}

}  // namespace
}  // namespace varve::rocksdb_c

extern "C" {

void rocksdb_multi_get(rocksdb_t* db, const rocksdb_readoptions_t* options,
                       size_t num_keys, const char* const* keys_list,
                       const size_t* keys_list_sizes, char** values_list,
                       size_t* values_list_sizes, char** errs) {
  varve::rocksdb_c::MultiGetCopies(
      db, options,
      {.count = num_keys, .data = keys_list, .sizes = keys_list_sizes},
      {keys_list, keys_list_sizes, values_list, values_list_sizes}, values_list,
      values_list_sizes, errs);
}

void rocksdb_multi_get_cf(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    const rocksdb_column_family_handle_t* const* column_families,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  varve::rocksdb_c::MultiGetCopies(db, options,
                                   {.count = num_keys,
                                    .data = keys_list,
                                    .sizes = keys_list_sizes,
                                    .families = column_families},
                                   {column_families, keys_list, keys_list_sizes,
                                    values_list, values_list_sizes},
                                   values_list, values_list_sizes, errs);
}

void rocksdb_batched_multi_get_cf(rocksdb_t* db,
                                  const rocksdb_readoptions_t* options,
                                  rocksdb_column_family_handle_t* column_family,
                                  size_t num_keys, const char* const* keys_list,
                                  const size_t* keys_list_sizes,
                                  rocksdb_pinnableslice_t** values, char** errs,
                                  const bool /*sorted_input*/) {
  varve::rocksdb_c::MultiGetPinned(
      db, options, column_family,
      {.count = num_keys, .data = keys_list, .sizes = keys_list_sizes},
      {keys_list, keys_list_sizes, values}, values, errs);
}

void rocksdb_batched_multi_get_cf_slice(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, size_t num_keys,
    const rocksdb_slice_t* keys_list, rocksdb_pinnableslice_t** values,
    char** errs, const bool /*sorted_input*/) {
  varve::rocksdb_c::MultiGetPinned(db, options, column_family,
                                   {.count = num_keys, .slices = keys_list},
                                   {keys_list, values}, values, errs);
}

}  // extern "C"
