// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The body of a properties block. Accepted properties can be written and read
// again.

#include <string>

#include "table/block/properties.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  PropertiesBlock properties;
  if (!DecodeProperties(Bytes(data, size), "f", &properties).ok()) return 0;
  PropertiesBlock second;
  const Status again =
      DecodeProperties(EncodeProperties(properties), "f", &second);
  Require(again.ok(), "it reads what it writes");
  Require(second.num_entries == properties.num_entries &&
              second.comparator == properties.comparator &&
              second.index_type == properties.index_type,
          "and finds the same");
  return 0;
}
