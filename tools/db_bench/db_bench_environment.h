// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where and how a benchmark ran: what a figure means nothing without.

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

struct BenchEnvironment {
  // Such as "2024-05-17 12:00:00".
  std::string date;
  std::string cpu_model;
  int cores = 0;
  // The kernel's, such as "tsc".
  std::string clock_source;
  std::string kernel;
  std::string compiler;
  // What makes figures worse than they are, or less steady.
  std::vector<std::string> warnings;
};

BenchEnvironment ReadEnvironment();

// The most memory the process held since it started or since ResetPeakRss,
// where the kernel allows that. Zero if unknown.
uint64_t PeakRssBytes();
void ResetPeakRss();

}  // namespace varve
