// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Many reads at once by one system call: each thread that asks for it gets an
// io_uring of its own, which goes with the thread.
//
// Nothing is taken for granted. At the first need the process tries once
// whether it may set up a ring and enter it, and whether the kernel knows the
// operation; containers, sandboxes and old kernels say no in several ways.
// A no, also one that comes later, is for good, and its reason is kept. A
// thread that gets no ring for want of memory or descriptors asks again some
// time later. Whatever the ring did not do is left to the caller, who has the
// plain system calls.
//
// A child made by fork() does not see its parent's rings: it makes its own.
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

  // Output: what pread would return, which may be less than `length`, but the
  // negative errno for an error; or kNotDone.
  int result = kNotDone;
};

// Whether rings can be had, as far as is known.
bool IoRingUsable();

// "io_uring", or "pread (io_uring: <reason>)".
std::string IoRingPath();

// Does the reads, in any order and at most 64 at a time, and waits for all of
// them: none touches memory any more when this returns. Calls `done`, if it is
// not null, with the index of each that it has done, while others are still
// under way; if that comes here, it gets a ring for itself.
void ReadInRing(RingRead* reads, size_t count,
                const std::function<void(size_t)>& done);

// What takes the place of io_uring_submit_and_wait, or null; returns what did
// so before. It is called for rings of any thread.
using RingSubmit = int (*)(io_uring* ring, unsigned wait_count);
RingSubmit TEST_SetRingSubmit(RingSubmit submit);

}  // namespace varve
