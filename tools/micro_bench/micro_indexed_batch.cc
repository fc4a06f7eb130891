// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of an indexed batch: an update, a read of a key in it and a step of
// an iterator, among 10 to 100,000 updates of random 16-byte keys with 100-byte
// values. Beside it a plain batch, a Get of the same entries in a memtable, and
// RocksDB's indexed batch.

#include "tools/micro_bench/micro_indexed_batch.h"

#include <string>

#include "tools/micro_bench/micro_bench.h"
#include "varve/write_batch_with_index.h"

namespace varve::bench {
namespace {

void Fill(const IndexedBatchKeys& keys, WriteBatchWithIndex* batch) {
  for (const std::string& key : keys.inserted) {
    Must(batch->Put(key, keys.value));
  }
}

void PutPlain(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  WriteBatch batch;
  for (auto _ : state) {
    batch.Clear();
    for (const std::string& key : keys.inserted) batch.Put(key, keys.value);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void PutIndexed(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  WriteBatchWithIndex batch;
  for (auto _ : state) {
    batch.Clear();
    Fill(keys, &batch);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// With the order of the keys, which an iterator needs.
void PutOrdered(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  WriteBatchWithIndex batch;
  const auto it = batch.NewIterator();
  for (auto _ : state) {
    batch.Clear();
    it->SeekToFirst();
    Fill(keys, &batch);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void GetFromBatch(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  WriteBatchWithIndex batch;
  Fill(keys, &batch);
  const DBOptions options;
  std::string value;
  for (auto _ : state) {
    for (const std::string& key : keys.read) {
      Must(batch.GetFromBatch(options, key, &value));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void GetFromMemTable(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  const TempDirectory directory;
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{256} << 20;
  std::unique_ptr<DB> db;
  Must(DB::Open(options, directory.path(), &db));
  for (const std::string& key : keys.inserted) {
    Must(db->Put({}, key, keys.value));
  }
  std::string value;
  for (auto _ : state) {
    for (const std::string& key : keys.read) Must(db->Get({}, key, &value));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Step(benchmark::State& state) {
  const IndexedBatchKeys keys(state.range(0));
  WriteBatchWithIndex batch;
  Fill(keys, &batch);
  const auto it = batch.NewIterator();
  for (auto _ : state) {
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      benchmark::DoNotOptimize(it->Entry());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace

void ForIndexedBatchSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(10)->Arg(1000)->Arg(100000);
}

void AddIndexedBatch() {
  const auto add = [](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, function)->Apply(ForIndexedBatchSizes);
  };
  add("Put/plain", PutPlain);
  add("Put/indexed", PutIndexed);
  add("Put/ordered", PutOrdered);
  add("Get/batch", GetFromBatch);
  add("Get/memtable", GetFromMemTable);
  add("Step/batch", Step);
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbIndexedBatch();
#endif
}

}  // namespace varve::bench
