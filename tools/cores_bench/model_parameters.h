// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// All that the simulated machine is assumed to be, with the source of each
// figure. It is a server with one or two sockets of Intel's Haswell and
// Broadwell EP, which are the best documented. Newer ones have other figures
// and the same order of them.
//
// [M] D. Molka, D. Hackenberg, R. Schoene, W. Nagel: Cache Coherence Protocol
//     and Memory Performance of the Intel Haswell-EP Architecture, ICPP 2015.
//     At 2.5 GHz: 1.6 ns from L1, 4.8 from L2, 21.2 from L3, 49 from L3 if the
//     line is modified in another core's L2.
// [V] N. Viennot and others: core-to-core-latency. A pair of E5-2695 v4: 35 ns
//     at least, 161 at most, 90 in the mean over pairs of both kinds.
// [A] AnandTech, Intel Skylake-EP vs AMD EPYC 7000 (2017): 95 ns from memory
//     for an E5-2699 v4.
// [B] E. Bendersky: Measuring context switching and memory overheads for Linux
//     threads (2018): 2.2 us for a switch between threads that are not bound
//     to one processor.
// [D] T. Downs: A Concurrency Cost Hierarchy (2020), and the results in its
//     repository. A loop around a compare-and-swap takes 3.4 times as long as
//     an addition with 4 cores of Graviton 2, and 4.2 to 4.4 times with 8 to
//     16; 3.6 times with 4 cores of Skylake.

#include <cstddef>
#include <cstdint>

namespace varve::cores {

struct ModelParameters {
  // ---- Core -----------------------------------------------------------------
  double gigahertz = 2.5;  // [M]
  // Of instructions whose data is in L1. An assumption: 2.5 instructions in a
  // cycle. It shifts all curves of one chart alike.
  double cycles_per_instruction = 0.4;
  // A locked instruction waits for the stores before it, and nothing overlaps
  // with it. uops.info measures 18 to 20 for LOCK CMPXCHG and LOCK XADD.
  double atomic_cycles = 20;
  size_t store_buffer = 42;  // Entries, of Haswell.

  // ---- Private caches -------------------------------------------------------
  size_t l1_bytes = 32 << 10;
  size_t l1_ways = 8;
  size_t l2_bytes = 256 << 10;
  size_t l2_ways = 8;
  double l2_ns = 3.2;  // More than from L1: 4.8 less 1.6. [M]

  // ---- The rest of the machine ----------------------------------------------
  size_t l3_bytes = 45 << 20;  // Of a socket, shared.
  double l3_ns = 21.2;         // [M]
  double other_core_ns = 49;   // A line from a core of the same socket. [M]
  // A line from a core of the other socket, and the invalidation of its copies.
  // The mean of [V] is half 45 and half this.
  double other_socket_ns = 130;
  double memory_ns = 95;          // [A]
  double remote_memory_ns = 145;  // [M]: 50 more than local.

  // The shared cache gives a line to one core after the other. An assumption:
  // 32 bytes in a cycle, as wide as the ring between cores and slices is.
  double shared_line_cycles = 2;

  // A core whose compare-and-swap failed has the line. It keeps it for a time
  // from 0 to so many cycles, each as likely, and no core comes between if its
  // next attempt begins within that time. 0: all cores get the line in turn. An
  // assumption: with 27, a loop around a compare-and-swap is about four
  // times as slow as an addition if there are many cores, as [D] has measured.
  double hold_cycles = 27;

  // ---- Waiting --------------------------------------------------------------
  // A core that spins sees a change at any time of its loop: PAUSE, a load and
  // a branch. PAUSE takes 10 cycles before Skylake, by Intel's manual.
  double spin_cycles = 12;

  // ---- Mutexes --------------------------------------------------------------
  // A thread that finds a mutex taken sleeps at once, as glibc's do.
  double sleep_ns = 1100;  // The system call that gives up the processor: half.
  double wake_ns = 2200;   // From the wake-up to running. [B]
  double waker_ns = 1100;  // The system call of who wakes it: half of it.
};

}  // namespace varve::cores
