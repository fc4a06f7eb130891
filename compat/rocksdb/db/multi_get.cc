// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of several keys at one moment.
#include "compat/rocksdb/db/multi_get.h"

#include <utility>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// Reads the keys of `family` (null is the default one) or of keys.families.
// Calls store(i, value) for each that exists.
template <typename Store>
void Read(rocksdb_t* db, const rocksdb_readoptions_t& options,
          const FamilyHandle* family, const Keys& keys, char** errs,
          Store store) {
  EngineKeys engine(keys, db->main, errs);
  std::vector<PinnableSlice> values(keys.count);
  std::vector<Status> statuses(keys.count);
  if (keys.families == nullptr) {
    db->db->MultiGet(
        options.rep, family != nullptr ? family->rep.get() : nullptr,
        keys.count, engine.slices.data(), values.data(), statuses.data());
  } else {
    db->db->MultiGet(options.rep, keys.count, engine.families.data(),
                     engine.slices.data(), values.data(), statuses.data());
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

// Copies the values to `copies` from malloc.
void MultiGetCopies(rocksdb_t* db, const rocksdb_readoptions_t* options,
                    const Keys& keys, std::initializer_list<const void*> arrays,
                    char** copies, size_t* sizes, char** errs) {
  MultiGet(
      keys, arrays, errs,
      [&](size_t i) {
        copies[i] = nullptr;
        sizes[i] = 0;
      },
      [&](char** errptr) { return Ready(errptr, db, options); },
      [&] {
        Read(db, *options, nullptr, keys, errs,
             [&](size_t i, PinnableSlice* value) {
               copies[i] = CopyBytes(*value);
               sizes[i] = value->size();
             });
      });
}

// Pins the values of one family.
void MultiGetPinned(rocksdb_t* db, const rocksdb_readoptions_t* options,
                    const FamilyHandle* family, const Keys& keys,
                    std::initializer_list<const void*> arrays,
                    rocksdb_pinnableslice_t** values, char** errs) {
  MultiGet(
      keys, arrays, errs, [&](size_t i) { values[i] = nullptr; },
      [&](char** errptr) { return ReadyFamily(errptr, db, options, family); },
      [&] {
        Read(db, *options, family, keys, errs,
             [&](size_t i, PinnableSlice* value) {
               values[i] = new rocksdb_pinnableslice_t;
               values[i]->rep = std::move(*value);
             });
      });
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
