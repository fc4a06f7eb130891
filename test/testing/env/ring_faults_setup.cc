// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Part of test programs that, with VARVE_TEST_RING_FAULTS set, run with a
// kernel that serves rings badly.

#include <cstdlib>

#include "test/testing/env/ring_faults.h"

namespace varve::test {
namespace {

[[gnu::constructor]] void SetUpRingFaults() {
  if (getenv("VARVE_TEST_RING_FAULTS") != nullptr) {
    TEST_SetRingSubmit(&FaultySubmit);
  }
}

}  // namespace
}  // namespace varve::test
