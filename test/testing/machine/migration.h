// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Threads that are moved from processor to processor while they work.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "test/testing/seed.h"

namespace varve::test {

// The processors that this thread may run on.
inline std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  }
  return cpus;
}

inline bool BindThread(pid_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(thread, sizeof(set), &set) == 0;
}

// Runs work(i, round) in `count` threads, round by round. At the same time,
// binds random ones of the threads to random processors, at least kMoves times
// before each round but the first. Returns the number of moves.
template <typename Work>
uint64_t RunMigrating(int count, int rounds, uint64_t seed, const Work& work) {
  constexpr uint64_t kMoves = 100;
  const std::vector<int> cpus = AllowedCpus();
  std::vector<std::atomic<pid_t>> ids(static_cast<size_t>(count));
  std::atomic<int> running = count;
  std::atomic<uint64_t> moves = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) {
    threads.emplace_back([&, i] {
      ids[static_cast<size_t>(i)] = static_cast<pid_t>(syscall(SYS_gettid));
      for (int round = 0; round < rounds; round++) {
        while (moves < kMoves * static_cast<uint64_t>(round)) sched_yield();
        work(i, round);
      }
      ids[static_cast<size_t>(i)] = 0;
      running--;
    });
  }
  Rng rng(seed);
  while (running > 0) {
    const pid_t id = ids[rng.Below(static_cast<uint64_t>(count))];
    // Binding fails if the thread has ended by then.
    if (id != 0 && BindThread(id, cpus[rng.Below(cpus.size())])) moves++;
  }
  for (std::thread& thread : threads) thread.join();
  return moves;
}

}  // namespace varve::test
