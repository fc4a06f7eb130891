// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A trace that `varve trace` is given.

#include <vector>

#include "test/fuzz/fuzz.h"
#include "tools/varve/varve_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  TraceFile file;
  static_cast<void>(ParseTrace(fuzz::Bytes(data, size), &file).ok());
  const auto trees = BuildTraceTrees(file.spans);
  static_cast<void>(FormatTraces(file, trees, 10));
  static_cast<void>(FormatTracePage(file, trees, 10));
  return 0;
}
