// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {

// Calls run(seed) for as many seeds as the variable VARVE_FAULT_SEEDS says, or
// `usual`, until one fails; a failure names it. Returns how many.
template <typename Run>
int ForFaultSeeds(int usual, Run run) {
  const int seeds = EnvironmentInt("VARVE_FAULT_SEEDS", usual);
  const uint64_t first = TestSeed();
  for (int i = 0; i < seeds && !::testing::Test::HasFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
    run(seed);
  }
  return seeds;
}

}  // namespace varve::test
