// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The loops that db_bench measures, and the state of their threads.

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

// The order in which a loop takes keys.
enum class KeyOrder : uint8_t {
  kSequential,
  kRandom,        // With repetitions.
  kUniqueRandom,  // Each once.
  kMissing,       // One byte longer than any stored key.
  kHot,           // Random among the first hundredth.
  kMerge,         // Random among WorkloadConfig::merge_keys.
};

// State shared by the threads of a benchmark.
struct LoopContext {
  const WorkloadConfig& config;
  KeyOrder order;
  // Operations of each thread. The timed loops ignore it if there is a
  // duration.
  uint64_t operations;
  int threads;  // Threads that run the same loop.
  // Set when a thread has failed, so that the others end early.
  std::atomic<bool> stop{false};
  // Threads that the background writer waits for.
  std::atomic<int> foreground{0};
};

// State of one thread. It has cache lines of its own, since the thread writes
// `done` after each operation.
struct alignas(64) LoopThread {
  LoopThread(const LoopContext& context, uint64_t seed, Slice values,
             std::unique_ptr<EngineSession> session);

  Random random;
  ValueSource values;
  std::string key;
  std::unique_ptr<EngineSession> session;
  uint64_t permutation_seed;

  // The results.
  Status status;
  Clock::time_point start;
  Clock::time_point end;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t found = 0;
  uint64_t lookups = 0;
  std::unique_ptr<Histogram> latency_ns;

  // Operations so far, for the reporting thread.
  std::atomic<uint64_t> done{0};
};

// Runs until its operations are done, its time is up, the data ends, or an
// operation fails. Then thread->status has the error.
using Loop = void (*)(LoopContext* context, LoopThread* thread);

void WriteLoop(LoopContext* context, LoopThread* thread);
void MergeLoop(LoopContext* context, LoopThread* thread);
void ReadOrMergeLoop(LoopContext* context, LoopThread* thread);
void DeleteLoop(LoopContext* context, LoopThread* thread);
void ReadSequentialLoop(LoopContext* context, LoopThread* thread);
void ReadReverseLoop(LoopContext* context, LoopThread* thread);
void ReadRandomLoop(LoopContext* context, LoopThread* thread);
void MultiReadLoop(LoopContext* context, LoopThread* thread);
void SeekLoop(LoopContext* context, LoopThread* thread);
void SeekFirstLoop(LoopContext* context, LoopThread* thread);
// Ends early when the database is empty.
void PopFirstLoop(LoopContext* context, LoopThread* thread);
void CatalogLookupLoop(LoopContext* context, LoopThread* thread);

// The databases that CatalogLookupLoop looks up, in lower case.
std::vector<std::string> CatalogNames();

// Writes random entries until LoopContext::foreground is zero.
void BackgroundWriteLoop(LoopContext* context, LoopThread* thread);

}  // namespace varve
