// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// RocksDB in the topics snapshots, families, locks and indexed_batch.

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tools/db_bench/peer_rocksdb_open.h"
#include "tools/db_bench/peer_rocksdb_version.h"
#include "tools/micro_bench/micro_bench.h"
#include "tools/micro_bench/micro_indexed_batch.h"

namespace varve::bench {
namespace {

void Must(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "micro_bench: %s\n", status.ToString().c_str());
  exit(1);
}

class RocksDb {
 public:
  RocksDb() {
    rocksdb::Options options;
    options.create_if_missing = true;
    Must(OpenRocks(&db_, options, directory_.path()));
    for (int i = 0; i < 1000; ++i) {
      Must(db_->Put({}, "key" + std::to_string(i), "value"));
    }
  }
  rocksdb::DB* db() const { return db_.get(); }

 private:
  const TempDirectory directory_;
  std::unique_ptr<rocksdb::DB> db_;
};

void GetSnapshot(benchmark::State& state) {
  static const RocksDb database;
  rocksdb::DB* const db = database.db();
  for (auto _ : state) db->ReleaseSnapshot(db->GetSnapshot());
  state.SetLabel("RocksDB " + DescribeRocksDb());
}

rocksdb::TransactionDB* LockingDb() {
  static const TempDirectory directory;
  static const std::unique_ptr<rocksdb::TransactionDB> db([] {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::TransactionDB* opened = nullptr;
    Must(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(),
                                      directory.path(), &opened));
    return opened;
  }());
  return db.get();
}

std::unique_ptr<rocksdb::Transaction> BeginLocking() {
  rocksdb::TransactionOptions options;
  options.deadlock_detect = true;
  options.lock_timeout = 100000;  // Milliseconds.
  return std::unique_ptr<rocksdb::Transaction>(
      LockingDb()->BeginTransaction(rocksdb::WriteOptions(), options));
}

void LockKey(rocksdb::Transaction* transaction, const std::string& key) {
  Must(transaction->GetForUpdate(rocksdb::ReadOptions(), key,
                                 static_cast<std::string*>(nullptr)));
}

void Locks(benchmark::State& state, LockKeysUsed keys) {
  const auto transaction = BeginLocking();
  LockKeyWalk walk(keys, state.thread_index());
  for (auto _ : state) {
    const std::string& key = walk.Next();
    LockKey(transaction.get(), key);
    transaction->UndoGetForUpdate(key);
  }
  state.SetLabel("RocksDB " + DescribeRocksDb());
}

void LocksOfTransaction(benchmark::State& state) {
  const auto transaction = BeginLocking();
  LockKeyWalk walk(LockKeysUsed::kCold, state.thread_index());
  for (auto _ : state) {
    for (int i = 0; i < 10; ++i) LockKey(transaction.get(), walk.Next());
    Must(transaction->Rollback());
  }
  state.SetLabel("RocksDB " + DescribeRocksDb());
}

void Fill(const IndexedBatchKeys& keys, rocksdb::WriteBatchWithIndex* batch) {
  for (const std::string& key : keys.inserted) {
    Must(batch->Put(key, keys.value));
  }
}

void PutIndexed(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  rocksdb::WriteBatchWithIndex batch;
  for (auto _ : state) {
    batch.Clear();
    Fill(keys, &batch);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void GetFromBatch(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  rocksdb::WriteBatchWithIndex batch;
  Fill(keys, &batch);
  const rocksdb::DBOptions options;
  std::string value;
  for (auto _ : state) {
    for (const std::string& key : keys.read) {
      Must(batch.GetFromBatch(options, key, &value));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Step(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  rocksdb::WriteBatchWithIndex batch;
  Fill(keys, &batch);
  const std::unique_ptr<rocksdb::WBWIIterator> it(batch.NewIterator());
  for (auto _ : state) {
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      benchmark::DoNotOptimize(it->Entry());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace

void AddRocksDbLocks() { RegisterLocks("rocksdb", Locks, LocksOfTransaction); }

void AddRocksDbIndexedBatch() {
  const auto add = [](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, function)->Apply(ForIndexedBatchSizes);
  };
  add("Put/rocksdb", PutIndexed);
  add("Get/rocksdb", GetFromBatch);
  add("Step/rocksdb", Step);
}

void AddRocksDbSnapshots() {
  benchmark::RegisterBenchmark("GetSnapshot/rocksdb", GetSnapshot)
      ->Apply(ForThreads)
      ->UseRealTime();
}

uint64_t RocksDbBesideIdleFamily(const std::string& directory,
                                 uint64_t total_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (int i = 0; i < kIdleFamilies; ++i) {
    descriptors.emplace_back(i == 0 ? "default" : "family" + std::to_string(i),
                             rocksdb::ColumnFamilyOptions());
  }
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  Must(OpenRocks(&db, options, directory, descriptors, &families));
  Must(db->Put({}, families.back(), "once", "value"));
  rocksdb::WriteBatch batch;
  const uint64_t peak = WriteBesideIdleFamily(
      directory, total_bytes,
      [&](int family, const std::string& key, const std::string& value) {
        Must(batch.Put(families[static_cast<size_t>(family)], key, value));
      },
      [&] {
        Must(db->Write({}, &batch));
        batch.Clear();
      });
  for (rocksdb::ColumnFamilyHandle* const family : families) {
    Must(db->DestroyColumnFamilyHandle(family));
  }
  return peak;
}

}  // namespace varve::bench
