// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Iterators of transactions.
#include "compat/rocksdb/db/iterator.h"

#include <memory>
#include <utility>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/transaction/handles.h"

namespace varve::rocksdb_c {
namespace {

// `status` is the result of checking the arguments. `family` is null for the
// default one.
rocksdb_iterator_t* Create(rocksdb_transaction_t* txn,
                           const rocksdb_readoptions_t* options,
                           const rocksdb_column_family_handle_t* family,
                           const Status& status) {
  if (!status.ok()) return NewInvalid(status);
  if (options->refused != nullptr) return NewInvalid(Missing(options->refused));
  const IteratorParts parts(*options, /*opt_in=*/false);
  if (parts.options.tailing) {
    return NewInvalid(Missing("tailing iterators of transactions"));
  }
  const TransactionSupport& support = *txn->owned->support;
  auto iterator = parts.NewHandle(support.db.get(), family);
  iterator->rep =
      txn->rep->GetIterator(iterator->options, iterator->family.get());
  iterator->shows_batch = true;
  iterator->batch = txn->owned;
  return iterator.release();
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Check;
using varve::rocksdb_c::Create;
using varve::rocksdb_c::FamilyOfTransaction;
using varve::rocksdb_c::Given;

extern "C" {

rocksdb_iterator_t* rocksdb_transaction_create_iterator(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options) {
  return Create(txn, options, nullptr,
                Check(Given{txn, "txn"}, Given{options, "options"}));
}

rocksdb_iterator_t* rocksdb_transaction_create_iterator_cf(
    rocksdb_transaction_t* txn, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family) {
  return Create(txn, options, column_family,
                Check(Given{txn, "txn"}, Given{options, "options"},
                      FamilyOfTransaction{column_family, txn}));
}

}  // extern "C"
