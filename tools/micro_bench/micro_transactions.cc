// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of transactions beside a plain batch, and beside RocksDB: of three
// puts and a commit, of reading and changing one key, of a transaction that
// does nothing, of 8 threads on 100 keys and on a million; the memory of
// 100,000 that do nothing; and the memory while one is open beside writes.

#include "tools/micro_bench/micro_transactions.h"

#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::bench {
namespace {

struct Varve {
  static constexpr const char* kName = "varve";
  using Transaction = varve::Transaction;
  using TransactionOptions = varve::TransactionOptions;
  using TransactionDB = varve::TransactionDB;
  using OptimisticTransactionDB = varve::OptimisticTransactionDB;
  using ReadOptions = varve::ReadOptions;
  using WriteOptions = varve::WriteOptions;
  // With a Put that returns a status, as RocksDB's.
  class WriteBatch : public varve::WriteBatch {
   public:
    Status Put(const Slice& key, const Slice& value) {
      varve::WriteBatch::Put(key, value);
      return Status::OK();
    }
  };

  static void Check(const Status& status) { Must(status); }
  static const char* Label() { return ""; }
  static std::unique_ptr<OptimisticTransactionDB> OpenOptimistic(
      const std::string& path) {
    std::unique_ptr<OptimisticTransactionDB> db;
    Must(OptimisticTransactionDB::Open(MakeOptions(), path, &db));
    return db;
  }
  static std::unique_ptr<TransactionDB> OpenLocking(const std::string& path) {
    std::unique_ptr<TransactionDB> db;
    Must(TransactionDB::Open(MakeOptions(), {}, path, &db));
    return db;
  }
  static Options MakeOptions() {
    Options options;
    options.create_if_missing = true;
    return options;
  }
};

}  // namespace

void AddTransactions() {
  TransactionBench<Varve>::Register();
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbTransactions();
#endif
}

}  // namespace varve::bench
