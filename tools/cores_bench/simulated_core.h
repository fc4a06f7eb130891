// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Threads that believe that they run on processors which this machine does not
// have.

#include <cstddef>
#include <functional>
#include <vector>

#include "tools/cores_bench/memory_trace.h"
#include "tools/cores_bench/step_tracer.h"

namespace varve::cores {

// Makes the calling thread read `number` as the processor that it runs on and
// as its concurrency id. The thread is no longer registered for restartable
// sequences, so the kernel changes neither: the thread must not share a
// number with another thread that runs at the same time. Returns false if the C
// library did not register the thread, or if there is no memory for counters of
// such a processor (PossibleCpus).
bool PretendToRunOn(size_t number);

// The work of a core. Made, used and destroyed on the core's thread.
class Worker {
 public:
  virtual ~Worker() = default;
  // One operation. `round` counts them.
  virtual void Run(size_t round) = 0;
  // Called before a round that is recorded. Is not recorded itself.
  virtual void BeforeRecording(size_t /*round*/) {}
  // Returns whether the model may repeat what was recorded. If not, because a
  // rare event was in it, the round is run and recorded again, a few times.
  virtual bool IsTypical(const OperationTrace& /*trace*/) { return true; }
};

struct RecordingPlan {
  size_t cores = 1;
  size_t warm_rounds = 3;  // Not recorded.
  size_t rounds = 4;       // Recorded.
  // After so many cores, one round is recorded of each: an instruction takes
  // microseconds, and that many cores have enough different operations.
  size_t thorough_cores = 8;
};

// Runs a worker on each of the plan's cores, all alive at the same time, one
// operation after the other, and records their operations. new_worker(core) is
// called on the core's thread.
std::vector<std::vector<OperationTrace>> RecordWorkers(
    const RecordingPlan& plan, StepTracer* tracer,
    const std::function<Worker*(size_t)>& new_worker);

}  // namespace varve::cores
