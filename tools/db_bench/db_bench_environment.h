// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The environment of a benchmark. A figure means nothing without it.

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
  // Conditions that make figures worse than usual, or less steady.
  std::vector<std::string> warnings;
};

BenchEnvironment ReadEnvironment();

// Returns the largest resident size since the process started or since
// ResetPeakRss, where the kernel supports the reset. Returns zero if unknown.
uint64_t PeakRssBytes();
void ResetPeakRss();

}  // namespace varve
