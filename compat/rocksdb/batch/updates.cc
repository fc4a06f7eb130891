// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The updates of write batches. These calls report no errors: an update with a
// wrong argument is left out.

#include <rocksdb/c.h>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/batch/parts.h"
#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/handles.h"

using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Parts;
using varve::rocksdb_c::Usable;
using varve::rocksdb_c::Whole;

namespace {

// Adds an update, and removes it again if the batch is then too long.
template <typename Function>
[[gnu::noinline, gnu::cold]] void AddBounded(rocksdb_writebatch_t* batch,
                                             Function add) {
  varve::WriteBatch& rep = batch->rep;
  rep.SetSavePoint();
  add(&rep);
  const varve::Status status = rep.ApproximateSize() > batch->max_bytes
                                   ? rep.RollbackToSavePoint()
                                   : rep.PopSavePoint();
  status.IgnoreError();  // There is a save point.
}

// Calls add(WriteBatch*) if the arguments are valid.
template <typename Function, typename... Arguments>
inline void Add(rocksdb_writebatch_t* batch, Function add,
                const Arguments&... arguments) {
  if (!Usable(nullptr, Given{batch, "batch"}, arguments...)) return;
  if (batch->max_bytes != 0) [[unlikely]] {
    return AddBounded(batch, add);
  }
  add(&batch->rep);
}

// Adds an update of a column family. add(WriteBatch*, ColumnFamilyHandle*).
template <typename Function, typename... Arguments>
inline void AddToFamily(rocksdb_writebatch_t* batch,
                        rocksdb_column_family_handle_t* family, Function add,
                        const Arguments&... arguments) {
  Add(
      batch,
      [family, &add](varve::WriteBatch* rep) { add(rep, family->rep.get()); },
      Given{family, "column_family"}, arguments...);
}

}  // namespace

extern "C" {

// ---- Put ----

void rocksdb_writebatch_put(rocksdb_writebatch_t* batch, const char* key,
                            size_t klen, const char* val, size_t vlen) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Put(k.slice(), v.slice()); }, k,
      v);
}

void rocksdb_writebatch_put_cf(rocksdb_writebatch_t* batch,
                               rocksdb_column_family_handle_t* column_family,
                               const char* key, size_t klen, const char* val,
                               size_t vlen) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Put(family, k.slice(), v.slice());
      },
      k, v);
}

void rocksdb_writebatch_putv(rocksdb_writebatch_t* batch, int num_keys,
                             const char* const* keys_list,
                             const size_t* keys_list_sizes, int num_values,
                             const char* const* values_list,
                             const size_t* values_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  const Parts v{num_values, values_list, values_list_sizes, "values_list"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Put(Whole(k), Whole(v)); }, k,
      v);
}

void rocksdb_writebatch_putv_cf(rocksdb_writebatch_t* batch,
                                rocksdb_column_family_handle_t* column_family,
                                int num_keys, const char* const* keys_list,
                                const size_t* keys_list_sizes, int num_values,
                                const char* const* values_list,
                                const size_t* values_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  const Parts v{num_values, values_list, values_list_sizes, "values_list"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Put(family, Whole(k), Whole(v));
      },
      k, v);
}

// ---- Merge ----

void rocksdb_writebatch_merge(rocksdb_writebatch_t* batch, const char* key,
                              size_t klen, const char* val, size_t vlen) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Merge(k.slice(), v.slice()); },
      k, v);
}

void rocksdb_writebatch_merge_cf(rocksdb_writebatch_t* batch,
                                 rocksdb_column_family_handle_t* column_family,
                                 const char* key, size_t klen, const char* val,
                                 size_t vlen) {
  const Bytes k{key, klen, "key"};
  const Bytes v{val, vlen, "val"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Merge(family, k.slice(), v.slice());
      },
      k, v);
}

void rocksdb_writebatch_mergev(rocksdb_writebatch_t* batch, int num_keys,
                               const char* const* keys_list,
                               const size_t* keys_list_sizes, int num_values,
                               const char* const* values_list,
                               const size_t* values_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  const Parts v{num_values, values_list, values_list_sizes, "values_list"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Merge(Whole(k), Whole(v)); }, k,
      v);
}

void rocksdb_writebatch_mergev_cf(rocksdb_writebatch_t* batch,
                                  rocksdb_column_family_handle_t* column_family,
                                  int num_keys, const char* const* keys_list,
                                  const size_t* keys_list_sizes, int num_values,
                                  const char* const* values_list,
                                  const size_t* values_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  const Parts v{num_values, values_list, values_list_sizes, "values_list"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Merge(family, Whole(k), Whole(v));
      },
      k, v);
}

// ---- Delete ----

void rocksdb_writebatch_delete(rocksdb_writebatch_t* batch, const char* key,
                               size_t klen) {
  const Bytes k{key, klen, "key"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Delete(k.slice()); }, k);
}

void rocksdb_writebatch_delete_cf(rocksdb_writebatch_t* batch,
                                  rocksdb_column_family_handle_t* column_family,
                                  const char* key, size_t klen) {
  const Bytes k{key, klen, "key"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Delete(family, k.slice());
      },
      k);
}

void rocksdb_writebatch_deletev(rocksdb_writebatch_t* batch, int num_keys,
                                const char* const* keys_list,
                                const size_t* keys_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->Delete(Whole(k)); }, k);
}

void rocksdb_writebatch_deletev_cf(
    rocksdb_writebatch_t* batch, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* keys_list, const size_t* keys_list_sizes) {
  const Parts k{num_keys, keys_list, keys_list_sizes, "keys_list"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->Delete(family, Whole(k));
      },
      k);
}

void rocksdb_writebatch_singledelete(rocksdb_writebatch_t* batch,
                                     const char* key, size_t klen) {
  const Bytes k{key, klen, "key"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->SingleDelete(k.slice()); }, k);
}

void rocksdb_writebatch_singledelete_cf(
    rocksdb_writebatch_t* batch, rocksdb_column_family_handle_t* column_family,
    const char* key, size_t klen) {
  const Bytes k{key, klen, "key"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->SingleDelete(family, k.slice());
      },
      k);
}

// ---- DeleteRange ----

void rocksdb_writebatch_delete_range(rocksdb_writebatch_t* batch,
                                     const char* start_key,
                                     size_t start_key_len, const char* end_key,
                                     size_t end_key_len) {
  const Bytes begin{start_key, start_key_len, "start_key"};
  const Bytes end{end_key, end_key_len, "end_key"};
  Add(
      batch,
      [&](varve::WriteBatch* rep) {
        rep->DeleteRange(begin.slice(), end.slice());
      },
      begin, end);
}

void rocksdb_writebatch_delete_range_cf(
    rocksdb_writebatch_t* batch, rocksdb_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len) {
  const Bytes begin{start_key, start_key_len, "start_key"};
  const Bytes end{end_key, end_key_len, "end_key"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->DeleteRange(family, begin.slice(), end.slice());
      },
      begin, end);
}

void rocksdb_writebatch_delete_rangev(rocksdb_writebatch_t* batch, int num_keys,
                                      const char* const* start_keys_list,
                                      const size_t* start_keys_list_sizes,
                                      const char* const* end_keys_list,
                                      const size_t* end_keys_list_sizes) {
  const Parts begin{num_keys, start_keys_list, start_keys_list_sizes,
                    "start_keys_list"};
  const Parts end{num_keys, end_keys_list, end_keys_list_sizes,
                  "end_keys_list"};
  Add(
      batch,
      [&](varve::WriteBatch* rep) {
        rep->DeleteRange(Whole(begin), Whole(end));
      },
      begin, end);
}

void rocksdb_writebatch_delete_rangev_cf(
    rocksdb_writebatch_t* batch, rocksdb_column_family_handle_t* column_family,
    int num_keys, const char* const* start_keys_list,
    const size_t* start_keys_list_sizes, const char* const* end_keys_list,
    const size_t* end_keys_list_sizes) {
  const Parts begin{num_keys, start_keys_list, start_keys_list_sizes,
                    "start_keys_list"};
  const Parts end{num_keys, end_keys_list, end_keys_list_sizes,
                  "end_keys_list"};
  AddToFamily(
      batch, column_family,
      [&](varve::WriteBatch* rep, varve::ColumnFamilyHandle* family) {
        rep->DeleteRange(family, Whole(begin), Whole(end));
      },
      begin, end);
}

// ---- Log data ----

void rocksdb_writebatch_put_log_data(rocksdb_writebatch_t* batch,
                                     const char* blob, size_t len) {
  const Bytes bytes{blob, len, "blob"};
  Add(
      batch, [&](varve::WriteBatch* rep) { rep->PutLogData(bytes.slice()); },
      bytes);
}

}  // extern "C"
