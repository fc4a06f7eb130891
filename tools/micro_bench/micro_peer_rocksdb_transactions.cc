// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// RocksDB in the topic transactions.

#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tools/db_bench/peer_rocksdb_version.h"
#include "tools/micro_bench/micro_bench.h"
#include "tools/micro_bench/micro_transactions.h"

namespace varve::bench {
namespace {

struct RocksDb {
  static constexpr const char* kName = "rocksdb";
  using Transaction = rocksdb::Transaction;
  using TransactionOptions = rocksdb::TransactionOptions;
  using TransactionDB = rocksdb::TransactionDB;
  using OptimisticTransactionDB = rocksdb::OptimisticTransactionDB;
  using ReadOptions = rocksdb::ReadOptions;
  using WriteOptions = rocksdb::WriteOptions;
  using WriteBatch = rocksdb::WriteBatch;

  static void Check(const rocksdb::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "micro_bench: %s\n", status.ToString().c_str());
    exit(1);
  }
  static std::string Label() { return "RocksDB " + DescribeRocksDb(); }
  static std::unique_ptr<OptimisticTransactionDB> OpenOptimistic(
      const std::string& path) {
    OptimisticTransactionDB* db = nullptr;
    Check(OptimisticTransactionDB::Open(MakeOptions(), path, &db));
    return std::unique_ptr<OptimisticTransactionDB>(db);
  }
  static std::unique_ptr<TransactionDB> OpenLocking(const std::string& path) {
    TransactionDB* db = nullptr;
    Check(TransactionDB::Open(MakeOptions(), rocksdb::TransactionDBOptions(),
                              path, &db));
    return std::unique_ptr<TransactionDB>(db);
  }
  static rocksdb::Options MakeOptions() {
    rocksdb::Options options;
    options.create_if_missing = true;
    return options;
  }
};

}  // namespace

void AddRocksDbTransactions() { TransactionBench<RocksDb>::Register(); }

}  // namespace varve::bench
