// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Measures 1 and 2 threads on this machine, which others may use as well.

#include <optional>

#include "tools/cores_bench/topics.h"

namespace varve::cores {

// Operations a second of all threads together, in the rounds that count.
struct Rates {
  double median = 0;
  double least = 0;
  double most = 0;
  double processors = 0;  // That the threads got in all, in the worst of them.
};

// Of rounds of so many seconds, those in which the threads got most of the
// processors: threads that take turns do not contend. Threads that wait for a
// mutex use less, but equally in all rounds. Runs no more rounds once enough
// were undisturbed, or the best ones agree.
Rates LeastDisturbedRates(Fixture* fixture, int threads, double seconds);

// How many times as much two threads do as one. Nothing if the measurements are
// noise: two cannot do more than twice as much, the rounds have to agree within
// a factor of two, and a thread alone has to get most of a processor.
std::optional<double> GainOfTwoThreads(const Rates& one, const Rates& two);

}  // namespace varve::cores
