// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of starting to read: see docs/snapshots.md. Time is the wall time of
// one operation of one thread, divided by the number of threads.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "db/snapshot/snapshot_registry.h"
#include "tools/micro_bench/micro_bench.h"
#include "varve/read_transaction.h"

namespace varve::bench {

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

// ---- Begin and end ----------------------------------------------------------

void Transaction(benchmark::State& state, SnapshotMode mode) {
  DB* const db = Database(mode);
  for (auto _ : state) {
    ReadTransaction read(db);
    benchmark::DoNotOptimize(read);
  }
}

void GetSnapshot(benchmark::State& state, SnapshotMode mode) {
  DB* const db = Database(mode);
  for (auto _ : state) db->ReleaseSnapshot(db->GetSnapshot());
}

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

// ---- Scans ------------------------------------------------------------------

// kOldest reads only the smallest number. kOldestCold writes 4 MiB in between,
// twice the private cache of a core.
enum class Scan { kOldest, kOldestCold, kAll };

void ScanSnapshots(benchmark::State& state, Scan scan) {
  const BenchDb database{AblationOptions()};
  const size_t count = static_cast<size_t>(state.range(0));
  const ThreadsThatStay holders(count, [&](const auto& stay) {
    const ReadTransaction read(database.db());
    stay();
  });
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
  SetQueryCounters(std::move(micros), &state);
}

}  // namespace

void AddSnapshots() {
  const auto add = [](const char* name, auto function, auto... arguments) {
    return benchmark::RegisterBenchmark(name, function, arguments...);
  };
  const auto production = SnapshotMode::kPerThread;
  const auto mutex = SnapshotMode::kMutex;
  for (const auto& [form, mode] :
       {std::pair("per_thread", production), std::pair("mutex", mutex)}) {
    const auto name = [form](const char* what) {
      return std::string(what) + "/" + form;
    };
    add(name("Transaction").c_str(), Transaction, mode)
        ->Apply(ForThreads)
        ->UseRealTime();
    add(name("GetSnapshot").c_str(), GetSnapshot, mode)
        ->Apply(ForThreads)
        ->UseRealTime();
    add(name("TransactionAmongOthers").c_str(), TransactionAmongOthers, mode);
  }
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbSnapshots();
#endif
  add("SnapshotOfNewNumber", SnapshotOfNewNumber);
  for (const auto& [name, scan] :
       {std::pair("ScanSnapshots/oldest", Scan::kOldest),
        std::pair("ScanSnapshots/oldest_cold", Scan::kOldestCold),
        std::pair("ScanSnapshots/all", Scan::kAll)}) {
    add(name, ScanSnapshots, scan)->Apply(ForThreadsThatStay)->UseManualTime();
  }
}

}  // namespace varve::bench
