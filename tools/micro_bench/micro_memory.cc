// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of memory accounting: an allocation and its release by the same
// thread, without accounting, with per-thread counters, and with one counter
// that all threads share.

#include <new>

#include "tools/micro_bench/micro_bench.h"
#include "util/threads/memory_account.h"

namespace varve::bench {
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

}  // namespace

void AddMemory() {
  const auto add = [](const char* name, void (*pair)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, pair)->ThreadRange(1, 2)->UseRealTime();
  };
  add("MemoryPair/kNone", MemoryPair<kNone>);
  add("MemoryPair/kOwner", MemoryPair<kOwner>);
  add("MemoryPair/kAtomic", MemoryPair<kAtomic>);
}

}  // namespace varve::bench
