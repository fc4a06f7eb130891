// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of the reads of transactions.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/lifetime.h"
#include "capi/requests.h"
#include "capi/transaction/transactions.h"

using varve::ColumnFamilyHandle;
using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::Bytes;
using varve::capi::CanUse;
using varve::capi::Check;
using varve::capi::FamilyOfTransaction;
using varve::capi::Given;
using varve::capi::ManyReads;
using varve::capi::SaveError;
using varve::capi::Usable;

namespace {

// How a key is read.
enum class Purpose : uint8_t { kRead, kSharedUpdate, kExclusiveUpdate };

Purpose ForUpdate(uint8_t exclusive) {
  return exclusive != 0 ? Purpose::kExclusiveUpdate : Purpose::kSharedUpdate;
}

// A read of one key.
struct Read {
  varve_transaction_t* transaction;
  const varve_readoptions_t* options;
  bool has_family;  // Otherwise it is of the default one.
  const varve_column_family_handle_t* family;
  Bytes key;
  Purpose purpose = Purpose::kRead;

  bool CanRead(char** errptr) const {
    return CanUse(errptr, transaction, Given{options, "options"}, key) &&
           (!has_family ||
            Usable(errptr, FamilyOfTransaction{family, transaction}));
  }
  Status To(PinnableSlice* value) const {
    ColumnFamilyHandle* const rep = has_family ? family->rep.get() : nullptr;
    const Slice bytes = varve::capi::ToSlice(key.data, key.size);
    if (purpose == Purpose::kRead) {
      return transaction->rep->Get(options->rep, rep, bytes, value);
    }
    return transaction->rep->GetForUpdate(options->rep, rep, bytes, value,
                                          purpose == Purpose::kExclusiveUpdate);
  }
};

char* GetCopy(const Read& read, size_t* vlen, char** errptr) {
  if (vlen != nullptr) *vlen = 0;
  if (!read.CanRead(errptr) || !Usable(errptr, Given{vlen, "vlen"})) {
    return nullptr;
  }
  PinnableSlice value;
  const Status status = read.To(&value);
  return varve::capi::TakeValue(status, value, vlen, errptr);
}

varve_pinnableslice_t* GetPinned(const Read& read, char** errptr) {
  if (!read.CanRead(errptr)) return nullptr;
  auto value = std::make_unique<varve_pinnableslice_t>();
  const Status status = read.To(&value->rep);
  if (status.ok()) return value.release();
  if (!status.IsNotFound()) SaveError(errptr, status);
  return nullptr;
}

// The families of the keys of a multi-get.
struct Families {
  bool given;  // Otherwise all keys are of the default one.
  const varve_column_family_handle_t* const* handles;
};

// Reads the keys of a multi-get that have no error yet. So a wrong key, which
// the engine would lock, is left out.
void GetMany(varve_transaction_t* transaction, const ManyReads& reads,
             const Families& families, bool for_update) {
  std::vector<Slice> keys;
  if (!reads.Prepare(&keys)) return;
  std::vector<size_t> places;
  std::vector<ColumnFamilyHandle*> handles;
  std::vector<Slice> slices;
  for (size_t i = 0; i < reads.count; ++i) {
    char** const error = &reads.errs[i];
    if (*error != nullptr || !CanUse(error, transaction)) continue;
    if (families.given &&
        (!Usable(error, Given{families.handles, "column_families"}) ||
         !Usable(error,
                 FamilyOfTransaction{families.handles[i], transaction}))) {
      continue;
    }
    places.push_back(i);
    slices.push_back(keys[i]);
    handles.push_back(families.given ? families.handles[i]->rep.get()
                                     : nullptr);
  }
  if (places.empty()) return;
  std::vector<std::string> values;
  varve::Transaction* const rep = transaction->rep.get();
  const std::vector<Status> statuses =
      for_update
          ? rep->MultiGetForUpdate(reads.options->rep, handles, slices, &values)
          : rep->MultiGet(reads.options->rep, handles, slices, &values);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t place = places[i];
    reads.values[place] = varve::capi::TakeValue(
        statuses[i], values[i], &reads.value_sizes[place], &reads.errs[place]);
  }
}

// Returns an iterator of a transaction. A null family is the default one.
// `status` is the result of checking the arguments.
varve_iterator_t* NewIterator(varve_transaction_t* transaction,
                              const varve_readoptions_t* options,
                              const varve_column_family_handle_t* family,
                              Status status) {
  if (status.ok() && transaction->rep == nullptr) {
    status = Status::ShutdownInProgress("the database was closed");
  }
  auto* const iterator = new varve_iterator_t;
  varve::ReadOptions read;
  if (status.ok()) {
    status = varve::capi::KeepBounds(*options, &iterator->bounds, &read);
  }
  if (!status.ok()) {
    iterator->rep = varve::NewErrorIterator(status);
    return iterator;
  }
  iterator->rep = transaction->rep->GetIterator(
      read, family != nullptr ? family->rep.get() : nullptr);
  iterator->owner = varve::capi::OwnerOf(transaction->handle);
  iterator->updates = transaction->rep;
  return iterator;
}

}  // namespace

extern "C" {

// ---- One key ----------------------------------------------------------------

char* varve_transaction_get(varve_transaction_t* transaction,
                            const varve_readoptions_t* options, const char* key,
                            size_t klen, size_t* vlen, char** errptr) {
  return GetCopy({transaction, options, false, nullptr, {key, klen, "key"}},
                 vlen, errptr);
}

char* varve_transaction_get_cf(varve_transaction_t* transaction,
                               const varve_readoptions_t* options,
                               varve_column_family_handle_t* column_family,
                               const char* key, size_t klen, size_t* vlen,
                               char** errptr) {
  return GetCopy(
      {transaction, options, true, column_family, {key, klen, "key"}}, vlen,
      errptr);
}

varve_pinnableslice_t* varve_transaction_get_pinned(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    const char* key, size_t klen, char** errptr) {
  return GetPinned({transaction, options, false, nullptr, {key, klen, "key"}},
                   errptr);
}

varve_pinnableslice_t* varve_transaction_get_pinned_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    char** errptr) {
  return GetPinned(
      {transaction, options, true, column_family, {key, klen, "key"}}, errptr);
}

char* varve_transaction_get_for_update(varve_transaction_t* transaction,
                                       const varve_readoptions_t* options,
                                       const char* key, size_t klen,
                                       size_t* vlen, uint8_t exclusive,
                                       char** errptr) {
  return GetCopy({transaction,
                  options,
                  false,
                  nullptr,
                  {key, klen, "key"},
                  ForUpdate(exclusive)},
                 vlen, errptr);
}

char* varve_transaction_get_for_update_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    size_t* vlen, uint8_t exclusive, char** errptr) {
  return GetCopy({transaction,
                  options,
                  true,
                  column_family,
                  {key, klen, "key"},
                  ForUpdate(exclusive)},
                 vlen, errptr);
}

varve_pinnableslice_t* varve_transaction_get_pinned_for_update(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    const char* key, size_t klen, uint8_t exclusive, char** errptr) {
  return GetPinned({transaction,
                    options,
                    false,
                    nullptr,
                    {key, klen, "key"},
                    ForUpdate(exclusive)},
                   errptr);
}

varve_pinnableslice_t* varve_transaction_get_pinned_for_update_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    uint8_t exclusive, char** errptr) {
  return GetPinned({transaction,
                    options,
                    true,
                    column_family,
                    {key, klen, "key"},
                    ForUpdate(exclusive)},
                   errptr);
}

// ---- Several keys -----------------------------------------------------------

void varve_transaction_multi_get(varve_transaction_t* transaction,
                                 const varve_readoptions_t* options,
                                 size_t num_keys, const char* const* keys_list,
                                 const size_t* keys_list_sizes,
                                 char** values_list, size_t* values_list_sizes,
                                 char** errs) {
  GetMany(transaction,
          {Given{transaction, "transaction"}, options, num_keys, keys_list,
           keys_list_sizes, values_list, values_list_sizes, errs},
          {false, nullptr}, false);
}

void varve_transaction_multi_get_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs) {
  GetMany(transaction,
          {Given{transaction, "transaction"}, options, num_keys, keys_list,
           keys_list_sizes, values_list, values_list_sizes, errs},
          {true, column_families}, false);
}

void varve_transaction_multi_get_for_update(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    size_t num_keys, const char* const* keys_list,
    const size_t* keys_list_sizes, char** values_list,
    size_t* values_list_sizes, char** errs) {
  GetMany(transaction,
          {Given{transaction, "transaction"}, options, num_keys, keys_list,
           keys_list_sizes, values_list, values_list_sizes, errs},
          {false, nullptr}, true);
}

void varve_transaction_multi_get_for_update_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs) {
  GetMany(transaction,
          {Given{transaction, "transaction"}, options, num_keys, keys_list,
           keys_list_sizes, values_list, values_list_sizes, errs},
          {true, column_families}, true);
}

// ---- Iterators --------------------------------------------------------------

varve_iterator_t* varve_transaction_create_iterator(
    varve_transaction_t* transaction, const varve_readoptions_t* options) {
  return NewIterator(
      transaction, options, nullptr,
      Check(Given{transaction, "transaction"}, Given{options, "options"}));
}

varve_iterator_t* varve_transaction_create_iterator_cf(
    varve_transaction_t* transaction, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family) {
  Status status =
      Check(Given{transaction, "transaction"}, Given{options, "options"});
  if (status.ok())
    status = Check(FamilyOfTransaction{column_family, transaction});
  return NewIterator(transaction, options, column_family, std::move(status));
}

}  // extern "C"
