// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A machine of many cores that executes recordings or kernels, with private
// caches kept coherent by MESI, a shared cache in each socket, and a time for
// each access.
//
// A core executes its recorded operations again and again, each operation in
// the order of its instructions. Loads wait for their line. Stores wait in the
// store buffer, unless it is full. Atomic instructions wait for both. A line
// serves one transfer at a time, so that cores that want the same line wait for
// each other. A mutex that is taken puts a core to sleep until it is woken. Two
// mutexes in one line are treated as one.
//
// A recorded compare-and-swap fails if another core wrote the word since the
// load before it, and is executed again from after that load. The core may keep
// the line until then (ModelParameters::hold_cycles). Recordings have no
// values, so that a spin lock in one excludes nobody: that takes a kernel,
// whose accesses find the values that other cores stored.
//
// It leaves out the overlap of misses, prefetching by hardware, the
// instruction cache, the TLB, bandwidth of links, what the operating system
// touches, and that a core which waits for a mutex would take another path
// through the code.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/cores_bench/cores_kernel.h"
#include "tools/cores_bench/memory_trace.h"
#include "tools/cores_bench/model_parameters.h"

namespace varve::cores {

struct LineReport {
  struct Mover {
    uint64_t code = 0;     // An instruction.
    double transfers = 0;  // An operation.
  };

  uint64_t line = 0;
  uint64_t code = 0;     // An instruction that made it move.
  double transfers = 0;  // An operation.
  // With transfers, or as a mutex that is held, whichever is more; an
  // operation.
  double busy_ns = 0;
  std::vector<Mover> movers = {};  // Most transfers first.
};

// Averages of an operation, after warming up.
struct ModelReport {
  size_t cores = 0;
  double operations_a_second = 0;  // Of all cores.
  double nanoseconds = 0;          // Mean time of an operation.
  double p99_ns = 0;
  // Lines that came from another core's cache.
  double transfers = 0;
  // Copies in other cores' caches that a write put an end to.
  double invalidations = 0;
  // Lines that were read or written and not in the core's caches, since it
  // never had them, since others took them, and since it ran out of space.
  double cold_misses = 0;
  double coherence_misses = 0;
  double capacity_misses = 0;
  double sleeps = 0;  // Waits for mutexes.
  double atomics = 0;
  double failures = 0;  // Of compare-and-swaps, which are atomics too.
  double instructions = 0;
  // Operations a second that the line allows which is busy longest. 0: no
  // bound.
  double serial_bound = 0;
  std::vector<LineReport> hottest;  // The busiest first.
  // Of a kernel: all cores wait, or one operation does not end. There are no
  // other figures then.
  bool is_stuck = false;
  size_t ended = 0;  // Operations of all cores, also before counting.
  // Of a kernel: each word that it has accessed, at the end.
  std::unordered_map<uint64_t, uint64_t> memory;
};

struct Schedule {
  size_t cores = 1;
  size_t sockets = 1;  // 1 or 2, of equal size.
  uint64_t seed = 1;   // Of when each core begins and which operation is next.
  // Times the number of cores: operations before counting begins, at least, and
  // those that are counted, whichever cores get to do them.
  size_t warm_operations = 20;
  size_t operations = 60;
  size_t lines = 5;  // The most that are reported.
};

// REQUIRES: schedule.cores is at most recording.threads.size() and kMaxCores.
ModelReport Simulate(const ModelParameters& parameters,
                     const Recording& recording, const Schedule& schedule);

// The same of operations that are executed during the simulation.
// REQUIRES: schedule.cores is at most kMaxCores.
ModelReport Simulate(const ModelParameters& parameters,
                     const varve_kernel& kernel, const Schedule& schedule);

}  // namespace varve::cores
