// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// From RocksDB's options of transactions to the engine's.

#include <fields.h>
#include <rocksdb/c.h>

#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::rocksdb_c {

TransactionDBOptions ToVarve(const rocksdb_transactiondb_options_t& options);
TransactionOptions ToVarve(const rocksdb_transaction_options_t& options);
OptimisticTransactionOptions ToVarve(
    const rocksdb_optimistictransaction_options_t& options);

}  // namespace varve::rocksdb_c
