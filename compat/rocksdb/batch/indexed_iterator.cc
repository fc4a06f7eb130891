// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Iterators over a database and an indexed batch. They have the handle of the
// database's iterator, which they take over, as with RocksDB.

#include <rocksdb/c.h>

#include <memory>
#include <utility>

#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/iterator.h"
#include "compat/rocksdb/db/lifetime.h"
#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {
namespace {

using FamilyPtr = std::shared_ptr<ColumnFamilyHandle>;

// `family` is null for the one of the base iterator. `status` is the result of
// checking the further arguments.
rocksdb_iterator_t* AddBatch(rocksdb_writebatch_wi_t* batch,
                             rocksdb_iterator_t* base, const FamilyPtr& family,
                             const ReadOptions* options, Status status) {
  if (status.ok()) {
    status = Check(Given{batch, "wbwi"}, Given{base, "base_iterator"});
  }
  if (!status.ok()) {
    rocksdb_iter_destroy(base);
    return NewInvalid(status);
  }
  ColumnFamilyHandle* rep = family.get();
  if (family != nullptr) {
    base->family = family;
  } else if (base->db != nullptr) {
    rep = base->family != nullptr ? base->family.get()
                                  : base->db->DefaultColumnFamily();
  }
  base->rep =
      batch->rep->NewIteratorWithBase(rep, std::move(base->rep), options);
  base->shows_batch = true;
  base->batch = batch->owned;
  return base;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::AddBatch;
using varve::rocksdb_c::Check;
using varve::rocksdb_c::Given;

extern "C" {

rocksdb_iterator_t* rocksdb_writebatch_wi_create_iterator_with_base(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_iterator_t* base_iterator) {
  return AddBatch(wbwi, base_iterator, nullptr, nullptr, {});
}

rocksdb_iterator_t* rocksdb_writebatch_wi_create_iterator_with_base_readopts(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_iterator_t* base_iterator,
    const rocksdb_readoptions_t* options) {
  const varve::Status status = Check(Given{options, "options"});
  return AddBatch(wbwi, base_iterator, nullptr,
                  status.ok() ? &options->rep : nullptr, status);
}

rocksdb_iterator_t* rocksdb_writebatch_wi_create_iterator_with_base_cf(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_iterator_t* base_iterator,
    rocksdb_column_family_handle_t* cf) {
  const varve::Status status = Check(Given{cf, "cf"});
  return AddBatch(wbwi, base_iterator, status.ok() ? cf->rep : nullptr, nullptr,
                  status);
}

rocksdb_iterator_t* rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
    rocksdb_writebatch_wi_t* wbwi, rocksdb_iterator_t* base_iterator,
    rocksdb_column_family_handle_t* cf, const rocksdb_readoptions_t* options) {
  const varve::Status status =
      Check(Given{cf, "cf"}, Given{options, "options"});
  return status.ok()
             ? AddBatch(wbwi, base_iterator, cf->rep, &options->rep, status)
             : AddBatch(wbwi, base_iterator, nullptr, nullptr, status);
}

}  // extern "C"
