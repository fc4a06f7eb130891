// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The output of db_bench: text and JSON.

#include <string>
#include <utility>
#include <vector>

#include "tools/db_bench/db_bench_environment.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/json_writer.h"
#include "tools/db_bench/workload.h"
#include "varve/status.h"

namespace varve {

// Properties that all benchmarks of a run share.
struct BenchRun {
  BenchEnvironment environment;
  std::string engine;
  std::string engine_version;
  std::string engine_remarks;
  std::string io_path;      // Empty if each benchmark opens its own database.
  std::string trace_clock;  // Empty if the engine has none.
  WorkloadConfig workload;
  EngineConfig engine_config;
  bool seed_from_clock = false;
  // Name and value of each flag.
  std::vector<std::pair<std::string, std::string>> flags;
};

std::string FormatHeader(const BenchRun& run);

// Returns the line that RocksDB's db_bench prints, and the output of
// --histogram.
std::string FormatResult(const BenchmarkResult& result);

// Returns the lines of the mean, with the bounds that it is within in 95 of 100
// cases, and of the median. With `bounds_only`, returns a line of the bounds.
// REQUIRES: count > 1.
std::string FormatRuns(const BenchmarkResult* results, int count,
                       bool bounds_only = false);

// Returns the line that --cpu_time prints.
std::string FormatCpuTime(const CpuTime& used);

// BeginJson begins an object with environment, flags, and the list of results,
// and FinishJson ends it. FormatJson does both, around the results that have
// figures.
void BeginJson(const BenchRun& run, JsonWriter* json);
std::string FinishJson(JsonWriter* json);
std::string FormatJson(const BenchRun& run,
                       const std::vector<BenchmarkResult>& results);

}  // namespace varve
