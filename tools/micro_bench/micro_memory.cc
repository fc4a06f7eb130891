// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of memory accounting: an allocation and its release by the same
// thread, without accounting, with per-thread counters, and with one counter
// that all threads share.
//
//   micro_bench --benchmark_filter=Memory --benchmark_repetitions=9
//       --benchmark_enable_random_interleaving=true
//       --benchmark_report_aggregates_only=true

#include <benchmark/benchmark.h>

#include <new>

#include "util/threads/memory_account.h"

namespace varve {
namespace {

constexpr size_t kBytes = 512;

enum Accounting : int { kNone, kOwner, kAtomic };

template <Accounting kAccounting>
void MemoryPair(benchmark::State& state) {
  if (kAccounting == kAtomic && state.thread_index() == 0) {
    SetMemoryAccountingAtomic(true);
  }
  for (auto _ : state) {
    void* const memory = ::operator new(kBytes);
    MemoryAccount* account = nullptr;
    if constexpr (kAccounting != kNone) {
      account = NoteAllocated(MemoryKind::kBlock, kBytes);
    }
    benchmark::DoNotOptimize(memory);
    benchmark::DoNotOptimize(account);
    if constexpr (kAccounting != kNone) {
      NoteFreed(account, MemoryKind::kBlock, kBytes);
    }
    ::operator delete(memory);
  }
  if (kAccounting == kAtomic && state.thread_index() == 0) {
    SetMemoryAccountingAtomic(false);
  }
}
BENCHMARK_TEMPLATE(MemoryPair, kNone)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK_TEMPLATE(MemoryPair, kOwner)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK_TEMPLATE(MemoryPair, kAtomic)->ThreadRange(1, 2)->UseRealTime();

}  // namespace
}  // namespace varve
