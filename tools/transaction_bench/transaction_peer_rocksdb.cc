// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of RocksDB's snapshots, which transaction_bench compares with
// Varve's.

#include <benchmark/benchmark.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include "tools/db_bench/peer_rocksdb_version.h"
#include "tools/transaction_bench/transaction_bench.h"

namespace varve::bench {
namespace {

class RocksDb {
 public:
  RocksDb() : path_(NewDirectory()) {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    if (!rocksdb::DB::Open(options, path_, &db).ok()) abort();
    db_.reset(db);
    for (int i = 0; i < 1000; ++i) {
      if (!db->Put({}, "key" + std::to_string(i), "value").ok()) abort();
    }
  }
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;
  ~RocksDb() {
    db_.reset();
    RemoveDirectory(path_);
  }
  rocksdb::DB* db() const { return db_.get(); }

 private:
  const std::string path_;
  std::unique_ptr<rocksdb::DB> db_;
};

void RocksDbGetSnapshot(benchmark::State& state) {
  static const RocksDb database;
  rocksdb::DB* const db = database.db();
  for (auto _ : state) db->ReleaseSnapshot(db->GetSnapshot());
  state.SetLabel("RocksDB " + DescribeRocksDb());
}
BENCHMARK(RocksDbGetSnapshot)
    ->Name("GetSnapshot/rocksdb")
    ->Threads(1)
    ->Threads(2)
    ->Threads(8)
    ->Threads(32)
    ->UseRealTime();

}  // namespace
}  // namespace varve::bench
