// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The benchmarks of seeks over deleted and overwritten entries, and of the
// files that these leave. Each run makes its own databases and removes them.
// Each seek has an iterator of its own, and its result is verified. Each
// workload also runs on an equal database that never had the deleted keys.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/json_writer.h"
#include "tools/db_bench/seek_workloads.h"
#include "varve/status.h"

namespace varve {

struct SeekConfig {
  // Multiplies the number of seeks, the times, and the keys of `space`.
  void Scale(double part);

  std::string engine;
  // Where Pebble is loaded from.
  std::string pebble_library;
  EngineConfig engine_config;
  WorkloadSize size;
  // Seeks of a phase, and the time after which it ends earlier.
  uint64_t seeks = 500;
  double phase_seconds = 1;
  double quiet_seconds = 1;
  // Operations under load before the seeks of the last phase, and the puts a
  // second of the other thread that makes the load.
  uint64_t load_operations = 1000;
  uint64_t load_rate = 10000;
  // The time after which a queue is not emptied any further.
  double queue_seconds = 10;
  // Keys of the databases whose space is watched, and for how long.
  uint64_t space_num = 1000000;
  double space_seconds = 60;
  double worst_seconds = 10;
  uint64_t seed = 1;
};

// A run writes the members of one JSON object, and lines for a reader.
struct SeekRun {
  std::string name;
  std::string what;
  Status (*run)(const SeekConfig& config, const std::string& name,
                JsonWriter* json);
};

// Returns null if no run has this name.
const SeekRun* FindSeekRun(const std::string& name);
// Returns all names with their descriptions, one per line.
std::string DescribeSeekRuns();

// Creates an engine of db_bench, or Pebble.
Status NewSeekEngine(const SeekConfig& config, std::unique_ptr<Engine>* engine);

// Each takes the name of one of its workloads.
Status RunSeeks(const SeekConfig& config, const std::string& name,
                JsonWriter* json);
Status RunQueue(const SeekConfig& config, const std::string& name,
                JsonWriter* json);
Status RunSpace(const SeekConfig& config, const std::string& name,
                JsonWriter* json);
Status RunWorst(const SeekConfig& config, const std::string& name,
                JsonWriter* json);

// ---- What the runs share ----------------------------------------------------

// Times of operations in nanoseconds. Requires memory for each.
class Times {
 public:
  void Add(uint64_t ns) { ns_.push_back(ns); }
  uint64_t count() const { return ns_.size(); }
  // REQUIRES: count() > 0.
  uint64_t last_ns() const { return ns_.back(); }
  // The CPU time of the thread for all of them, with what measures them.
  void SetCpuSeconds(double seconds) { cpu_seconds_ = seconds; }
  // The time of all of them, and of the last tenth.
  double Seconds() const;
  double LastTenthRate() const;
  // Writes count, first, p50, p99, max and the mean CPU time, if it is known,
  // as an object.
  void Write(const char* name, JsonWriter* json) const;
  // Returns the median, P99 and the mean CPU time as text.
  std::string Summary() const;

 private:
  uint64_t Percentile(double part) const;
  double CpuMeanNs() const;

  std::vector<uint64_t> ns_;
  double cpu_seconds_ = 0;
};

// Return the CPU time of the process and of the calling thread so far.
double CpuSeconds();
double ThreadCpuSeconds();
double SecondsNow();

}  // namespace varve
