// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/measurement.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace varve::cores {

namespace {

struct Round {
  double operations_a_second = 0;  // Of all threads together.
  double processors = 0;           // That the threads got, on average.
};

// The rounds that count, and the most that are run to get as many in which each
// thread had a processor, or which agree.
constexpr size_t kRounds = 3;
constexpr size_t kMostRounds = 6;
constexpr double kWholeProcessor = .98;
constexpr double kAgreement = 1.05;

// Two threads do at most twice as much as one; more is an error of measurement,
// which has to be small.
constexpr double kMostGain = 2.1;
// Of the gain, from the least to the most that the rounds allow.
constexpr double kMostSpread = 2;
constexpr double kMostOfAProcessor = .75;

double CpuSeconds() {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

Round Measure(Fixture* fixture, int threads, double seconds) {
  std::atomic<bool> stop = false;
  std::atomic<int> ready = 0;
  std::vector<uint64_t> counts(static_cast<size_t>(threads));
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const std::unique_ptr<Worker> worker(
          fixture->NewWorker(static_cast<size_t>(i)));
      for (size_t round = 0; round < 8; ++round) worker->Run(round);
      ++ready;
      while (ready < threads) sched_yield();
      uint64_t count = 0;
      // relaxed: a flag alone.
      while (!stop.load(std::memory_order_relaxed)) {
        for (size_t round = 0; round < 64; ++round) worker->Run(round);
        count += 64;
      }
      counts[static_cast<size_t>(i)] = count;
    });
  }
  while (ready < threads) sched_yield();
  const double cpu_seconds = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  const double used_seconds = CpuSeconds() - cpu_seconds;
  for (std::thread& thread : all) thread.join();
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return {static_cast<double>(sum) / took.count(), used_seconds / took.count()};
}

// Whether the best kRounds rounds say the same, so that another one would not
// say more.
bool Agree(const std::vector<Round>& rounds) {
  const auto [least, most] = std::minmax_element(
      rounds.begin(), rounds.begin() + kRounds,
      [](const Round& a, const Round& b) {
        return a.operations_a_second < b.operations_a_second;
      });
  return most->operations_a_second < kAgreement * least->operations_a_second;
}

}  // namespace

Rates LeastDisturbedRates(Fixture* fixture, int threads, double seconds) {
  std::vector<Round> rounds;
  while (rounds.size() < kMostRounds) {
    rounds.push_back(Measure(fixture, threads, seconds));
    std::stable_sort(rounds.begin(), rounds.end(),
                     [](const Round& a, const Round& b) {
                       return a.processors > b.processors;
                     });
    if (rounds.size() < kRounds) continue;
    const bool undisturbed =
        rounds[kRounds - 1].processors >= kWholeProcessor * threads;
    if (undisturbed || Agree(rounds)) break;
  }
  std::vector<double> rates;
  for (size_t i = 0; i < kRounds; ++i) {
    rates.push_back(rounds[i].operations_a_second);
  }
  std::sort(rates.begin(), rates.end());
  return {rates[kRounds / 2], rates.front(), rates.back(),
          rounds[kRounds - 1].processors};
}

std::optional<double> GainOfTwoThreads(const Rates& one, const Rates& two) {
  if (one.least <= 0 || two.least <= 0) return std::nullopt;
  const double gain = two.median / one.median;
  const double spread = (two.most / one.least) / (two.least / one.most);
  if (gain > kMostGain || spread > kMostSpread ||
      one.processors < kMostOfAProcessor) {
    return std::nullopt;
  }
  return gain;
}

}  // namespace varve::cores
