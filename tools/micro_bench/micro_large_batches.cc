// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// How long a Put waits beside another thread's large batches: see
// docs/write_path.md. An iteration is a batch. The counters are of the Puts
// that the other thread makes meanwhile.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tools/micro_bench/micro_bench.h"
#include "varve/write_batch.h"

namespace varve::bench {

namespace {

constexpr benchmark::IterationCount kBatches = 5;

uint64_t NowNanos() {
  return static_cast<uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string RandomKey(Random* random) {
  const uint64_t key[2] = {random->Next(), random->Next()};
  return std::string(reinterpret_cast<const char*>(key), sizeof(key));
}

void PutBeside(benchmark::State& state, int updates) {
  const TempDirectory directory;
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  Must(DB::Open(options, directory.path(), &db));
  std::atomic<bool> stop{false};
  std::vector<uint64_t> puts_ns;
  std::thread other([&] {
    Random random(kSeed + 1);
    while (!stop) {
      const uint64_t begin_ns = NowNanos();
      Must(db->Put(WriteOptions(), RandomKey(&random), "value"));
      puts_ns.push_back(NowNanos() - begin_ns);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  Random random(kSeed);
  const std::string value = RandomValue(&random, 100);
  for (auto _ : state) {
    state.PauseTiming();
    WriteBatch batch;
    for (int i = 0; i < updates; ++i) batch.Put(RandomKey(&random), value);
    state.ResumeTiming();
    Must(db->Write(WriteOptions(), &batch));
  }
  stop = true;
  other.join();
  std::sort(puts_ns.begin(), puts_ns.end());
  state.counters["puts"] = static_cast<double>(puts_ns.size());
  state.counters["p99_us"] =
      static_cast<double>(puts_ns[puts_ns.size() * 99 / 100]) / 1000;
  state.counters["longest_ms"] = static_cast<double>(puts_ns.back()) / 1e6;
}

}  // namespace

void AddLargeBatches() {
  for (const int updates : {10000, 100000, 400000}) {
    benchmark::RegisterBenchmark("Put/beside_batches", PutBeside, updates)
        ->Arg(updates)
        ->Iterations(kBatches);
  }
}

}  // namespace varve::bench
