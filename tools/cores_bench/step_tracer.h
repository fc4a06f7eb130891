// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Records the memory accesses of the calling thread, instruction by
// instruction, with the processor's trap flag. Linux on x86-64 only.
//
// A thread that is traced must not be registered for restartable sequences
// (SimulatedCore takes care of that), since each trap would abort a sequence.
// The work of the kernel in a system call is not recorded. Clocks of the C
// library stand still in a trace, at the time when the tracer was created.

#include <cstddef>
#include <cstdint>

#include "tools/cores_bench/memory_trace.h"

namespace varve::cores {

class StepTracer {
 public:
  // Installs the handler of SIGTRAP for the process. `most` bounds the accesses
  // of one operation. One tracer exists at a time.
  explicit StepTracer(size_t most = size_t{1} << 20);
  ~StepTracer();
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  // Runs operation(argument) on the calling thread and returns its trace. One
  // thread at a time. Ends the program if the trace does not fit or an
  // instruction cannot be decoded.
  OperationTrace Trace(void (*operation)(void*), void* argument);
};

}  // namespace varve::cores
