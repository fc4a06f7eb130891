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
  kDistinct,      // Random among WorkloadConfig::distinct_keys.
  kPowerOfTwo,    // Random below the next power of two: some are missing.
};

// State shared by the threads of a benchmark.
struct LoopContext {
  const WorkloadConfig& config;
  KeyOrder order;
  // Operations of each thread. The timed loops ignore it if there is a
  // duration.
  uint64_t operations;
  int threads;  // Threads that run the same loop.
  bool writes = false;
  // For the loops that do more than a session can.
  Engine* engine = nullptr;
  const EngineConfig* engine_config = nullptr;
  // The keys to take in place of the numbered ones, if not empty.
  const std::vector<std::string>* keys = nullptr;
  // Set when a thread has failed, so that the others end early.
  std::atomic<bool> stop{false};
  // Threads that the background writer waits for.
  std::atomic<int> foreground{0};
};

// State of one thread. It has cache lines of its own, since the thread writes
// `done` after each operation.
struct alignas(64) LoopThread {
  LoopThread(const LoopContext& context, int index, uint64_t seed, Slice values,
             std::unique_ptr<EngineSession> session);

  // From 0.
  const int index;
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
  // Of randomwithverify and randomtransaction, what went wrong or was repeated.
  uint64_t failures = 0;
  // Bytes that compress made.
  uint64_t output_bytes = 0;
  // Gets, puts and seeks of mixgraph.
  uint64_t mix[3] = {};
  std::unique_ptr<Histogram> latency_ns;
  // Of openloop only.
  std::unique_ptr<OpenLoopLatency> open_loop;
  // To be printed with the figures.
  std::string message;
  // Its operations are not part of the figures, as if it ran beside the others.
  bool is_beside = false;

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

// The next ones are in loops/unique_loops.cc. Writes each key once, or as
// WorkloadConfig::overwrites or `disposable` say.
void FillUniqueLoop(LoopContext* context, LoopThread* thread);
// Deletes a key and writes its next version, which is another key. Each thread
// has keys of its own.
void ReplaceKeysLoop(LoopContext* context, LoopThread* thread);
// Writes tables, and ingests them.
void IngestLoop(LoopContext* context, LoopThread* thread);
// Merges many operands into a key, gets it, and gets its operands.
void GetOperandsLoop(LoopContext* context, LoopThread* thread);
// Compares all entries with the ones of another database.
void CompareLoop(LoopContext* context, LoopThread* thread);

// The next ones are in loops/series_loops.cc. The first thread writes entries
// of random series, and the others read a series each time, or delete what is
// too old.
void TimeSeriesLoop(LoopContext* context, LoopThread* thread);
// Whether an entry of TimeSeriesLoop is older than `time_range`.
bool IsExpired(const Slice& key, uint64_t time_range);
// Begins with time 0.
void ResetSeriesTime();

// The next ones are in loops/update_loops.cc. Each reads a key, and writes it
// with another value: a new one, its exclusive or with a new one, or the old
// one and a new one.
void UpdateLoop(LoopContext* context, LoopThread* thread);
void XorUpdateLoop(LoopContext* context, LoopThread* thread);
void AppendLoop(LoopContext* context, LoopThread* thread);
// Of each 100 operations, WorkloadConfig::read_percent are reads, and come
// first.
void ReadOrWriteLoop(LoopContext* context, LoopThread* thread);
// The same with deletions. Writes three keys with one value and reads them as
// of one moment: LoopThread::failures counts those that differ.
void VerifyLoop(LoopContext* context, LoopThread* thread);
// Adds a random number to a random key of each of transaction_sets sets, in a
// transaction. LoopThread::failures counts those that others made fail.
void TransactionLoop(LoopContext* context, LoopThread* thread);
// Returns Corruption if the sums of the sets differ.
Status CheckTransactions(const WorkloadConfig& config, EngineSession* session);

// Puts and gets of random keys that are due at WorkloadConfig::rate, in
// loops/open_loop.cc.
void OpenLoop(LoopContext* context, LoopThread* thread);

// The next ones are in loops/read_loops.cc.
void NewIteratorLoop(LoopContext* context, LoopThread* thread);
void ApproximateSizeLoop(LoopContext* context, LoopThread* thread);
void OperandsLoop(LoopContext* context, LoopThread* thread);
// Writes the keys in order, which is not measured, and seeks each.
void FillSeekSeqLoop(LoopContext* context, LoopThread* thread);
// Gets, puts and scans in MixConfig's ratios. A random number in [0, 1) decides
// on the hot range, the key in it, and the sizes.
void MixGraphLoop(LoopContext* context, LoopThread* thread);

// The next ones are in loops/kernel_loops.cc, and use no database. They go over
// blocks of WorkloadConfig::block_bytes.
void Crc32cLoop(LoopContext* context, LoopThread* thread);
void XxHash32Loop(LoopContext* context, LoopThread* thread);
void XxHash64Loop(LoopContext* context, LoopThread* thread);
void Xxh3Loop(LoopContext* context, LoopThread* thread);
void CompressLoop(LoopContext* context, LoopThread* thread);
// Compresses blocks that do not shrink.
void CompressRejectLoop(LoopContext* context, LoopThread* thread);
void UncompressLoop(LoopContext* context, LoopThread* thread);
// Each operation is 1,000 loads of an atomic.
void AcquireLoadLoop(LoopContext* context, LoopThread* thread);

// The databases that CatalogLookupLoop looks up, in lower case.
std::vector<std::string> CatalogNames();

// Write or merge random entries, or read all, again and again, until
// LoopContext::foreground is zero.
void BackgroundWriteLoop(LoopContext* context, LoopThread* thread);
void BackgroundMergeLoop(LoopContext* context, LoopThread* thread);
void BackgroundScanLoop(LoopContext* context, LoopThread* thread);

}  // namespace varve
