// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A kernel that does not do all that a ring asks for: interrupted and refused
// calls, short reads, operations that it does not know, and with them partial
// submission, since it takes nothing more after such a one in one call.

#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "env/io_ring.h"

namespace varve::test {

// How often each kind of fault occurred.
struct RingFaults {
  std::atomic<uint64_t> calls = 0;
  std::atomic<uint64_t> submissions = 0;  // Calls with something to submit.
  std::atomic<uint64_t> operations = 0;
  std::atomic<uint64_t> interrupted = 0;
  std::atomic<uint64_t> refused = 0;
  std::atomic<uint64_t> short_reads = 0;
  std::atomic<uint64_t> unknown = 0;
};
inline RingFaults ring_faults;

// Entries that wait to be submitted: the i-th of them.
inline io_uring_sqe* QueuedEntry(io_uring* ring, unsigned i) {
  const unsigned mask = ring->sq.ring_entries - 1;
  return &ring->sq.sqes[(*ring->sq.khead + i) & mask];
}

// A RingSubmit that only counts.
inline int CountingSubmit(io_uring* ring, unsigned wait_count) {
  ++ring_faults.calls;
  ring_faults.submissions += io_uring_sq_ready(ring) > 0 ? 1 : 0;
  ring_faults.operations += io_uring_sq_ready(ring);
  return io_uring_submit_and_wait(ring, wait_count);
}

// A RingSubmit that fails in all these ways in turn.
inline int FaultySubmit(io_uring* ring, unsigned wait_count) {
  const uint64_t call = ring_faults.calls++;
  const unsigned queued = io_uring_sq_ready(ring);
  ring_faults.operations += queued;
  if (call % 5 == 1) {
    ++ring_faults.interrupted;
    return -EINTR;
  }
  if (call % 7 == 2) {
    ++ring_faults.refused;
    return call % 2 == 0 ? -EAGAIN : -EBUSY;
  }
  for (unsigned i = 0; i < queued; ++i) {
    io_uring_sqe* const entry = QueuedEntry(ring, i);
    if (entry->opcode == IORING_OP_READ && (call + i) % 4 == 3) {
      ++ring_faults.short_reads;
      entry->len /= 2;
    } else if ((call + i) % 11 == 5) {
      ++ring_faults.unknown;
      entry->opcode = 0xFF;
    }
  }
  // Interrupted while it waited: the caller learns what was submitted.
  if (call % 3 == 0) return io_uring_submit(ring);
  return io_uring_submit_and_wait(ring, wait_count);
}

}  // namespace varve::test
