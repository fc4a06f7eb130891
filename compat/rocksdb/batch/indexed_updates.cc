// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The updates of indexed batches. These calls report no errors: an update with
// a wrong argument, or for which the batch has no room, is left out.

#include <rocksdb/c.h>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/batch/parts.h"
#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/handles.h"

using varve::ColumnFamilyHandle;
using varve::Slice;
using varve::Status;
using varve::WriteBatchWithIndex;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Parts;
using varve::rocksdb_c::Usable;
using varve::rocksdb_c::Whole;

namespace {

// Methods that add an update of a key, and of a key and a value or the end of a
// range.
using OfKey = Status (WriteBatchWithIndex::*)(ColumnFamilyHandle*,
                                              const Slice&);
using OfTwo = Status (WriteBatchWithIndex::*)(ColumnFamilyHandle*, const Slice&,
                                              const Slice&);

// Adds an update. The arguments are Bytes or Parts.
template <typename Method, typename... Arguments>
void Add(rocksdb_writebatch_wi_t* batch, ColumnFamilyHandle* family,
         Method method, const Arguments&... arguments) {
  if (!Usable(nullptr, Given{batch, "b"}, arguments...)) return;
  (batch->rep->*method)(family, Whole(arguments)...).IgnoreError();
}

template <typename Argument>
void AddTwo(rocksdb_writebatch_wi_t* batch, OfTwo method, const Argument& a,
            const Argument& b) {
  Add(batch, nullptr, method, a, b);
}

template <typename Argument>
void AddTwoTo(rocksdb_writebatch_wi_t* batch,
              const rocksdb_column_family_handle_t* family, OfTwo method,
              const Argument& a, const Argument& b) {
  if (family != nullptr) Add(batch, family->rep.get(), method, a, b);
}

template <typename Argument>
void AddKey(rocksdb_writebatch_wi_t* batch, OfKey method, const Argument& key) {
  Add(batch, nullptr, method, key);
}

template <typename Argument>
void AddKeyTo(rocksdb_writebatch_wi_t* batch,
              const rocksdb_column_family_handle_t* family, OfKey method,
              const Argument& key) {
  if (family != nullptr) Add(batch, family->rep.get(), method, key);
}

constexpr OfTwo kPut = &WriteBatchWithIndex::Put;
constexpr OfTwo kMerge = &WriteBatchWithIndex::Merge;
constexpr OfTwo kDeleteRange = &WriteBatchWithIndex::DeleteRange;
constexpr OfKey kDelete = &WriteBatchWithIndex::Delete;
constexpr OfKey kSingleDelete = &WriteBatchWithIndex::SingleDelete;

}  // namespace

extern "C" {

// ---- Put ----

void rocksdb_writebatch_wi_put(rocksdb_writebatch_wi_t* b, const char* key,
                               size_t klen, const char* val, size_t vlen) {
  AddTwo(b, kPut, Bytes{key, klen, "key"}, Bytes{val, vlen, "val"});
}

void rocksdb_writebatch_wi_put_cf(rocksdb_writebatch_wi_t* b,
                                  rocksdb_column_family_handle_t* column_family,
                                  const char* key, size_t klen, const char* val,
                                  size_t vlen) {
  AddTwoTo(b, column_family, kPut, Bytes{key, klen, "key"},
           Bytes{val, vlen, "val"});
}

void rocksdb_writebatch_wi_putv(rocksdb_writebatch_wi_t* b, int num_keys,
                                const char* const* keys_list,
                                const size_t* keys_list_sizes, int num_values,
                                const char* const* values_list,
                                const size_t* values_list_sizes) {
  AddTwo(b, kPut, Parts{num_keys, keys_list, keys_list_sizes, "keys_list"},
         Parts{num_values, values_list, values_list_sizes, "values_list"});
}

void rocksdb_writebatch_wi_putv_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* keys_list, const size_t* keys_list_sizes,
    int num_values, const char* const* values_list,
    const size_t* values_list_sizes) {
  AddTwoTo(b, column_family, kPut,
           Parts{num_keys, keys_list, keys_list_sizes, "keys_list"},
           Parts{num_values, values_list, values_list_sizes, "values_list"});
}

// ---- Merge ----

void rocksdb_writebatch_wi_merge(rocksdb_writebatch_wi_t* b, const char* key,
                                 size_t klen, const char* val, size_t vlen) {
  AddTwo(b, kMerge, Bytes{key, klen, "key"}, Bytes{val, vlen, "val"});
}

void rocksdb_writebatch_wi_merge_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen) {
  AddTwoTo(b, column_family, kMerge, Bytes{key, klen, "key"},
           Bytes{val, vlen, "val"});
}

void rocksdb_writebatch_wi_mergev(rocksdb_writebatch_wi_t* b, int num_keys,
                                  const char* const* keys_list,
                                  const size_t* keys_list_sizes, int num_values,
                                  const char* const* values_list,
                                  const size_t* values_list_sizes) {
  AddTwo(b, kMerge, Parts{num_keys, keys_list, keys_list_sizes, "keys_list"},
         Parts{num_values, values_list, values_list_sizes, "values_list"});
}

void rocksdb_writebatch_wi_mergev_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* keys_list, const size_t* keys_list_sizes,
    int num_values, const char* const* values_list,
    const size_t* values_list_sizes) {
  AddTwoTo(b, column_family, kMerge,
           Parts{num_keys, keys_list, keys_list_sizes, "keys_list"},
           Parts{num_values, values_list, values_list_sizes, "values_list"});
}

// ---- Delete ----

void rocksdb_writebatch_wi_delete(rocksdb_writebatch_wi_t* b, const char* key,
                                  size_t klen) {
  AddKey(b, kDelete, Bytes{key, klen, "key"});
}

void rocksdb_writebatch_wi_delete_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    const char* key, size_t klen) {
  AddKeyTo(b, column_family, kDelete, Bytes{key, klen, "key"});
}

void rocksdb_writebatch_wi_deletev(rocksdb_writebatch_wi_t* b, int num_keys,
                                   const char* const* keys_list,
                                   const size_t* keys_list_sizes) {
  AddKey(b, kDelete, Parts{num_keys, keys_list, keys_list_sizes, "keys_list"});
}

void rocksdb_writebatch_wi_deletev_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* keys_list, const size_t* keys_list_sizes) {
  AddKeyTo(b, column_family, kDelete,
           Parts{num_keys, keys_list, keys_list_sizes, "keys_list"});
}

void rocksdb_writebatch_wi_singledelete(rocksdb_writebatch_wi_t* b,
                                        const char* key, size_t klen) {
  AddKey(b, kSingleDelete, Bytes{key, klen, "key"});
}

void rocksdb_writebatch_wi_singledelete_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    const char* key, size_t klen) {
  AddKeyTo(b, column_family, kSingleDelete, Bytes{key, klen, "key"});
}

// ---- DeleteRange ----

void rocksdb_writebatch_wi_delete_range(rocksdb_writebatch_wi_t* b,
                                        const char* start_key,
                                        size_t start_key_len,
                                        const char* end_key,
                                        size_t end_key_len) {
  AddTwo(b, kDeleteRange, Bytes{start_key, start_key_len, "start_key"},
         Bytes{end_key, end_key_len, "end_key"});
}

void rocksdb_writebatch_wi_delete_range_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len) {
  AddTwoTo(b, column_family, kDeleteRange,
           Bytes{start_key, start_key_len, "start_key"},
           Bytes{end_key, end_key_len, "end_key"});
}

void rocksdb_writebatch_wi_delete_rangev(rocksdb_writebatch_wi_t* b,
                                         int num_keys,
                                         const char* const* start_keys_list,
                                         const size_t* start_keys_list_sizes,
                                         const char* const* end_keys_list,
                                         const size_t* end_keys_list_sizes) {
  AddTwo(b, kDeleteRange,
         Parts{num_keys, start_keys_list, start_keys_list_sizes,
               "start_keys_list"},
         Parts{num_keys, end_keys_list, end_keys_list_sizes, "end_keys_list"});
}

void rocksdb_writebatch_wi_delete_rangev_cf(
    rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* start_keys_list,
    const size_t* start_keys_list_sizes, const char* const* end_keys_list,
    const size_t* end_keys_list_sizes) {
  AddTwoTo(
      b, column_family, kDeleteRange,
      Parts{num_keys, start_keys_list, start_keys_list_sizes,
            "start_keys_list"},
      Parts{num_keys, end_keys_list, end_keys_list_sizes, "end_keys_list"});
}

// ---- Log data ----

void rocksdb_writebatch_wi_put_log_data(rocksdb_writebatch_wi_t* b,
                                        const char* blob, size_t len) {
  const Bytes bytes{blob, len, "blob"};
  if (!Usable(nullptr, Given{b, "b"}, bytes)) return;
  b->rep->PutLogData(bytes.slice()).IgnoreError();
}

}  // extern "C"
