// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Kernels that cores_bench executes on simulated cores. A kernel is a function
// that works on a memory of its own through the functions below, so that each
// access has the value that memory has at that simulated time. It may therefore
// wait, and a compare-and-swap fails if another core was faster. A recorded
// operation cannot do either.
//
// A library for `cores_bench --kernel=FILE.so` needs this header alone. The
// kernels of one simulation share one thread: variables of the library are seen
// by all cores, and cost no simulated time. A kernel has a stack of 64 KiB. At
// the end of a simulation it may be left in the middle of an operation.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A core, as its kernel sees it. An address is any multiple of 8; the words
// there are 0 in the beginning. A line has 64 bytes. All cores see all accesses
// in one order.
typedef struct varve_core varve_core;
struct varve_core {
  size_t number;  // From 0.
  uint64_t (*load)(varve_core* core, uint64_t address);
  // Goes through the store buffer.
  void (*store)(varve_core* core, uint64_t address, uint64_t value);
  // Locked instructions, which return the value before. The last one stores
  // `desired` only if that was `expected`.
  uint64_t (*add)(varve_core* core, uint64_t address, uint64_t value);
  uint64_t (*exchange)(varve_core* core, uint64_t address, uint64_t value);
  uint64_t (*compare_exchange)(varve_core* core, uint64_t address,
                               uint64_t expected, uint64_t desired);
  // Loads until the word is not `value` any more, as a loop with PAUSE does
  // that spins on a copy of the line. Returns what the word is then.
  uint64_t (*wait_while)(varve_core* core, uint64_t address, uint64_t value);
  // Executes as many instructions that need no memory.
  void (*work)(varve_core* core, uint32_t instructions);
};

typedef struct varve_kernel {
  const char* name;
  void (*run)(varve_core* core);  // One operation.
} varve_kernel;

// Exported by the library: kernels, and then one whose name is null. The
// number is raised when the interface changes.
extern const varve_kernel varve_kernels_1[];

#ifdef __cplusplus
}
#endif
