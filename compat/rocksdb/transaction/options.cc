// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/transaction/options.h"

#include <algorithm>

namespace varve::rocksdb_c {

TransactionDBOptions ToVarve(const rocksdb_transactiondb_options_t& options) {
  TransactionDBOptions result;
  result.max_num_locks = options.max_num_locks;
  result.max_num_deadlocks = options.max_num_deadlocks;
  // The engine's default is larger than RocksDB's, and costs little.
  result.num_stripes = std::max(result.num_stripes, options.num_stripes);
  result.transaction_lock_timeout = options.transaction_lock_timeout;
  result.default_lock_timeout = options.default_lock_timeout;
  result.write_policy = static_cast<TxnDBWritePolicy>(options.write_policy);
  result.skip_concurrency_control = options.skip_concurrency_control != 0;
  return result;
}

TransactionOptions ToVarve(const rocksdb_transaction_options_t& options) {
  TransactionOptions result;
  result.set_snapshot = options.set_snapshot != 0;
  result.deadlock_detect = options.deadlock_detect != 0;
  result.lock_timeout = options.lock_timeout;
  result.expiration = options.expiration;
  result.deadlock_detect_depth = options.deadlock_detect_depth;
  result.max_write_batch_size = options.max_write_batch_size;
  result.skip_concurrency_control = options.skip_concurrency_control != 0;
  result.skip_prepare = options.skip_prepare != 0;
  return result;
}

OptimisticTransactionOptions ToVarve(
    const rocksdb_optimistictransaction_options_t& options) {
  OptimisticTransactionOptions result;
  result.set_snapshot = options.set_snapshot != 0;
  return result;
}

}  // namespace varve::rocksdb_c
