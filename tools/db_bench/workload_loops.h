// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The loops that db_bench measures, and what one thread of them owns.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "monitoring/histogram.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/workload.h"
#include "tools/db_bench/workload_data.h"
#include "util/base/random.h"

namespace varve {

using Clock = std::chrono::steady_clock;

// Which keys a loop takes, one after the other.
enum class KeyOrder : uint8_t {
  kSequential,
  kRandom,        // Any, again and again.
  kUniqueRandom,  // Each once.
  kMissing,       // Random, but one byte longer than any that is stored.
  kHot,           // Random among the first hundredth.
};

// What the threads of a benchmark share.
struct LoopContext {
  const WorkloadConfig& config;
  KeyOrder order;
  // Operations of each thread; ignored by the timed loops when there is a
  // duration.
  uint64_t operations;
  int threads;  // That run the same loop.
  // Set when a thread has failed: the others end early.
  std::atomic<bool> stop{false};
  // Threads whose end the background writer waits for.
  std::atomic<int> foreground{0};
};

// What one thread owns. A cache line of its own for each, as `done` is
// written all the time.
struct alignas(64) LoopThread {
  LoopThread(const LoopContext& context, uint64_t seed, Slice values,
             std::unique_ptr<EngineSession> session);

  Random random;
  ValueSource values;
  std::string key;
  std::unique_ptr<EngineSession> session;
  uint64_t permutation_seed;

  // What comes of it.
  Status status;
  Clock::time_point start;
  Clock::time_point end;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t found = 0;
  uint64_t lookups = 0;
  std::unique_ptr<Histogram> latency_ns;

  // Operations so far, for whoever watches.
  std::atomic<uint64_t> done{0};
};

// Each runs until its operations are done, its time is up, the data ends or
// something fails, which is in thread->status then.
using Loop = void (*)(LoopContext* context, LoopThread* thread);

void WriteLoop(LoopContext* context, LoopThread* thread);
void DeleteLoop(LoopContext* context, LoopThread* thread);
void ReadSequentialLoop(LoopContext* context, LoopThread* thread);
void ReadReverseLoop(LoopContext* context, LoopThread* thread);
void ReadRandomLoop(LoopContext* context, LoopThread* thread);
void MultiReadLoop(LoopContext* context, LoopThread* thread);
void SeekLoop(LoopContext* context, LoopThread* thread);
void CatalogLookupLoop(LoopContext* context, LoopThread* thread);

// The databases that CatalogLookupLoop looks up, in lower case.
std::vector<std::string> CatalogNames();

// Writes random entries until LoopContext::foreground is zero.
void BackgroundWriteLoop(LoopContext* context, LoopThread* thread);

}  // namespace varve
