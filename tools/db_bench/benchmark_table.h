// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How each benchmark is run. benchmark_table.cc has the table of them.

#include <cstddef>
#include <cstdint>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/workload_loops.h"

namespace varve {

// A benchmark runs a loop in each thread, or an action of the engine once.
struct Benchmark {
  const char* name;
  const char* what;
  // For "Microseconds per ...".
  const char* operation;
  Loop loop = nullptr;
  KeyOrder order = KeyOrder::kRandom;
  Status (Engine::*action)() = nullptr;
  // The engine's property to print.
  const char* property = nullptr;
  // Starts with an empty database.
  bool fresh = false;
  // Makes no sense without entries.
  bool needs_data = false;
  bool writes = false;
  bool sync = false;
  // In place of num, value_size and batch_size, if not zero.
  uint64_t part = 0;  // 1 / part of num.
  size_t value_bytes = 0;
  uint64_t write_batch = 0;
  // Runs in one more thread, until the others have ended.
  Loop background = nullptr;
  // Needs the engine's catalog.
  bool catalog = false;
  // Needs a merge operator.
  bool merges = false;
  // Reads and writes: WorkloadConfig::mixed operations.
  bool mixed = false;
  // Operations that delete: WorkloadConfig::deletes.
  bool deletes = false;
  // Runs in one thread, whatever the number of threads.
  bool single = false;
  // The operations are over blocks, of so many bytes together. If both are not
  // zero: so many operations.
  uint64_t block_bytes = 0;
  uint64_t fixed = 0;
  // Reads all entries, not WorkloadConfig::reads.
  bool all = false;
  // Needs transactions.
  bool transactions = false;
  // Opens its database with the compaction filter of SeriesConfig::expiry.
  bool expires = false;
};

}  // namespace varve
