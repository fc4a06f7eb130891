// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of several keys in transactions.
#include "compat/rocksdb/db/multi_get.h"

#include <string>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/transaction/handles.h"

namespace varve::rocksdb_c {
namespace {

// The values that a call returns.
struct Copies {
  char** values;
  size_t* sizes;
  char** errs;
};

// Reads keys that have no error yet. So a wrong key, which the engine would
// lock, is left out.
void Read(rocksdb_transaction_t* txn, const ReadOptions& options,
          const Keys& keys, bool for_update, const Copies& copies) {
  const EngineKeys engine(keys, txn->owned->support->handle, copies.errs);
  std::vector<size_t> places;
  std::vector<ColumnFamilyHandle*> families;
  std::vector<Slice> slices;
  for (size_t i = 0; i < keys.count; ++i) {
    if (copies.errs[i] != nullptr) continue;
    places.push_back(i);
    slices.push_back(engine.slices[i]);
    families.push_back(keys.families != nullptr ? engine.families[i] : nullptr);
  }
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      for_update
          ? txn->rep->MultiGetForUpdate(options, families, slices, &values)
          : txn->rep->MultiGet(options, families, slices, &values);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t place = places[i];
    if (statuses[i].ok()) {
      copies.values[place] = CopyBytes(values[i]);
      copies.sizes[place] = values[i].size();
    } else if (!statuses[i].IsNotFound()) {
      TransactionFailed(&copies.errs[place], statuses[i]);
    }
  }
}

// `arrays` must not be null.
void ReadAll(rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
             const Keys& keys, std::initializer_list<const void*> arrays,
             bool for_update, const Copies& copies) {
  MultiGet(
      keys, arrays, copies.errs,
      [&](size_t i) {
        copies.values[i] = nullptr;
        copies.sizes[i] = 0;
      },
      [&](char** errptr) {
        return Usable(errptr, Given{txn, "txn"}, Given{options, "options"}) &&
               Supported(errptr, *options);
      },
      [&] { Read(txn, options->rep, keys, for_update, copies); });
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::ReadAll;

extern "C" {

void rocksdb_transaction_multi_get(rocksdb_transaction_t* txn,
                                   const rocksdb_readoptions_t* options,
                                   size_t num_keys,
                                   const char* const* keys_list,
                                   const size_t* keys_list_sizes,
                                   char** values_list,
                                   size_t* values_list_sizes, char** errs) {
  ReadAll(txn, options,
          {.count = num_keys, .data = keys_list, .sizes = keys_list_sizes},
          {keys_list, keys_list_sizes, values_list, values_list_sizes}, false,
          {values_list, values_list_sizes, errs});
}

void rocksdb_transaction_multi_get_for_update(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  ReadAll(txn, options,
          {.count = num_keys, .data = keys_list, .sizes = keys_list_sizes},
          {keys_list, keys_list_sizes, values_list, values_list_sizes}, true,
          {values_list, values_list_sizes, errs});
}

void rocksdb_transaction_multi_get_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    const rocksdb_column_family_handle_t* const* column_families,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  ReadAll(txn, options,
          {.count = num_keys,
           .data = keys_list,
           .sizes = keys_list_sizes,
           .families = column_families},
          {column_families, keys_list, keys_list_sizes, values_list,
           values_list_sizes},
          false, {values_list, values_list_sizes, errs});
}

void rocksdb_transaction_multi_get_for_update_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    const rocksdb_column_family_handle_t* const* column_families,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  ReadAll(txn, options,
          {.count = num_keys,
           .data = keys_list,
           .sizes = keys_list_sizes,
           .families = column_families},
          {column_families, keys_list, keys_list_sizes, values_list,
           values_list_sizes},
          true, {values_list, values_list_sizes, errs});
}

}  // extern "C"
