// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Measures the cost of starting to read: see docs/snapshots.md. Each
// transaction_bench_<topic>.cc registers its own benchmarks. This file has the
// ones of snapshots. Time is the wall time of one operation of one thread,
// divided by the number of threads.

#include "tools/transaction_bench/transaction_bench.h"

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <vector>

#include "db/snapshot/snapshot_registry.h"
#include "experimental/ablation.h"
#include "varve/read_transaction.h"

namespace varve::bench {

std::string NewDirectory() {
  std::string path =
      (std::filesystem::temp_directory_path() / "varve-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) abort();
  return path;
}

void RemoveDirectory(const std::string& path) {
  std::error_code error;  // A leftover is harmless.
  std::filesystem::remove_all(path, error);
}

void Must(const Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  abort();
}

BenchDb::BenchDb(const AblationOptions& ablation) : path_(NewDirectory()) {
  Options options;
  options.create_if_missing = true;
  options.experiment = NewExperiment(ablation);
  Must(DB::Open(options, path_, &db_));
  for (int i = 0; i < 1000; ++i) {
    Must(db_->Put({}, "key" + std::to_string(i), "value"));
  }
}

BenchDb::~BenchDb() {
  db_.reset();
  RemoveDirectory(path_);
}

namespace {

// Each form has a database that lives as long as the program.
DB* Database(SnapshotMode mode) {
  static BenchDb production{AblationOptions()};
  static BenchDb ablated([] {
    AblationOptions ablation;
    ablation.snapshots = SnapshotMode::kMutex;
    return ablation;
  }());
  return mode == SnapshotMode::kMutex ? ablated.db() : production.db();
}

void ForThreads(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 2, 8, 32}) benchmark->Threads(threads);
  benchmark->UseRealTime();
}

// ---- Begin and end ----------------------------------------------------------

void Transaction(benchmark::State& state, SnapshotMode mode) {
  DB* const db = Database(mode);
  for (auto _ : state) {
    ReadTransaction read(db);
    benchmark::DoNotOptimize(read);
  }
}
BENCHMARK_CAPTURE(Transaction, per_thread, SnapshotMode::kPerThread)
    ->Apply(ForThreads);
BENCHMARK_CAPTURE(Transaction, mutex, SnapshotMode::kMutex)->Apply(ForThreads);

void GetSnapshot(benchmark::State& state, SnapshotMode mode) {
  DB* const db = Database(mode);
  for (auto _ : state) db->ReleaseSnapshot(db->GetSnapshot());
}
BENCHMARK_CAPTURE(GetSnapshot, per_thread, SnapshotMode::kPerThread)
    ->Apply(ForThreads);
BENCHMARK_CAPTURE(GetSnapshot, mutex, SnapshotMode::kMutex)->Apply(ForThreads);

// After a write each, when the clock is looked at.
void SnapshotOfNewNumber(benchmark::State& state) {
  Mutex mutex;
  std::atomic<SequenceNumber> last_sequence{0};
  auto* const registry = new SnapshotRegistry(false, &mutex, nullptr);
  registry->SetLastSequence(&last_sequence);
  SequenceNumber sequence = 0;
  for (auto _ : state) {
    // release: as the writers do.
    last_sequence.store(++sequence, std::memory_order_release);
    registry->Release(registry->Take(false));
  }
  registry->Close();
}
BENCHMARK(SnapshotOfNewNumber);

// With a hundred others of the thread that stay.
void TransactionAmongOthers(benchmark::State& state, SnapshotMode mode) {
  DB* const db = Database(mode);
  std::vector<ReadTransaction> others;
  for (int i = 0; i < 100; ++i) others.emplace_back(db);
  for (auto _ : state) {
    ReadTransaction read(db);
    benchmark::DoNotOptimize(read);
  }
}
BENCHMARK_CAPTURE(TransactionAmongOthers, per_thread, SnapshotMode::kPerThread);
BENCHMARK_CAPTURE(TransactionAmongOthers, mutex, SnapshotMode::kMutex);

// ---- Scans ------------------------------------------------------------------

// Threads that have a snapshot each until this goes.
class Holders {
 public:
  Holders(DB* db, size_t count) : db_(db) {
    end_.lock();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (size_t i = 0; i < count; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, &attributes, &Holders::Run, this) != 0) break;
      threads_.push_back(thread);
    }
    pthread_attr_destroy(&attributes);
    while (holding_ < threads_.size()) sched_yield();
  }
  Holders(const Holders&) = delete;
  Holders& operator=(const Holders&) = delete;
  ~Holders() {
    end_.unlock();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }
  size_t count() const { return threads_.size(); }

 private:
  static void* Run(void* argument) {
    auto* const self = static_cast<Holders*>(argument);
    const ReadTransaction read(self->db_);
    ++self->holding_;
    const std::lock_guard wait(self->end_);
    return nullptr;
  }

  DB* const db_;
  std::mutex end_;
  std::atomic<size_t> holding_ = 0;
  std::vector<pthread_t> threads_;
};

// kOldest reads only the smallest number. kOldestCold writes 4 MiB in between,
// twice the private cache of a core.
enum class Scan { kOldest, kOldestCold, kAll };

void ScanSnapshots(benchmark::State& state, Scan scan) {
  const BenchDb database{AblationOptions()};
  const size_t count = static_cast<size_t>(state.range(0));
  const Holders holders(database.db(), count);
  if (holders.count() != count) {
    state.SkipWithError("not so many threads can be had");
    return;
  }
  const Snapshot* const own = database.db()->GetSnapshot();
  SnapshotRegistry* const registry =
      static_cast<const SnapshotImpl*>(own)->registry();
  database.db()->ReleaseSnapshot(own);
  using Clock = std::chrono::steady_clock;
  std::vector<double> micros;
  std::vector<char> other(4 << 20);
  for (auto _ : state) {
    if (scan == Scan::kOldestCold) std::fill(other.begin(), other.end(), 'x');
    benchmark::ClobberMemory();
    const auto start = Clock::now();
    if (scan == Scan::kAll) {
      benchmark::DoNotOptimize(registry->Scan());
    } else {
      benchmark::DoNotOptimize(registry->ScanOldest());
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    state.SetIterationTime(took.count() / 1e6);
    micros.push_back(took.count());
  }
  std::sort(micros.begin(), micros.end());
  state.counters["median"] = micros[micros.size() / 2];
  state.counters["min"] = micros.front();
  state.counters["max"] = micros.back();
}

void ScanArguments(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 100, 1000, 4000}) benchmark->Arg(threads);
  benchmark->Iterations(200)->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(ScanSnapshots, oldest, Scan::kOldest)->Apply(ScanArguments);
BENCHMARK_CAPTURE(ScanSnapshots, oldest_cold, Scan::kOldestCold)
    ->Apply(ScanArguments);
BENCHMARK_CAPTURE(ScanSnapshots, all, Scan::kAll)->Apply(ScanArguments);

}  // namespace
}  // namespace varve::bench

BENCHMARK_MAIN();
