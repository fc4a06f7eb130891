// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batched reads by io_uring: one system call submits many reads. Each thread
// that uses it gets a ring of its own, which is closed when the thread ends.
//
// No support is assumed. At the first use the process tests once whether it may
// set up a ring and enter it, and whether the kernel knows the operation.
// Containers, sandboxes and old kernels refuse in several ways. A refusal, even
// a later one, is permanent for the process, and its reason is kept. A thread
// that gets no ring for lack of memory or descriptors tries again later. The
// caller does the reads that the ring did not do by plain system calls.
//
// A child created by fork() does not see its parent's rings. It creates its
// own.
//
// Thread-safety: thread-safe.

#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct io_uring;

namespace varve {

// A pread.
struct RingRead {
  static constexpr size_t kMaxBytes = size_t{1} << 30;
  static constexpr int kNotDone = INT_MIN;

  int descriptor = -1;
  uint64_t offset = 0;
  size_t length = 0;  // Up to kMaxBytes.
  char* memory = nullptr;

  // Output: the result of a pread, which may be less than `length`, or the
  // negative errno of an error. kNotDone if the read was not done.
  int result = kNotDone;
};

// Returns true if rings are available, as far as is known.
bool IoRingUsable();

// Returns "io_uring", or "pread (io_uring: <reason>)".
std::string IoRingPath();

// Does the reads, in any order and at most 64 at a time, and waits for all of
// them: none writes to memory after this returns. Calls `done`, if it is not
// null, with the index of each finished read, while others are still under way.
// If `done` calls this function, that call gets a ring of its own.
void ReadInRing(RingRead* reads, size_t count,
                const std::function<void(size_t)>& done);

// Replaces io_uring_submit_and_wait; null restores it. Returns the previous
// replacement. It is called for rings of any thread.
using RingSubmit = int (*)(io_uring* ring, unsigned wait_count);
RingSubmit TEST_SetRingSubmit(RingSubmit submit);

}  // namespace varve
