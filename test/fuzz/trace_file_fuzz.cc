// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A trace that `varve trace` is given.

#include <vector>

#include "test/fuzz/fuzz.h"
#include "tools/varve/varve_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  std::vector<TraceSpan> spans;
  static_cast<void>(ParseChromeTrace(fuzz::Bytes(data, size), &spans).ok());
  return 0;
}
