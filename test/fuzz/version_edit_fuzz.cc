// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A record of the MANIFEST. An accepted record is written back without loss.

#include <string>

#include "db/version/version_edit.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  VersionEdit edit;
  if (!edit.DecodeFrom(Bytes(data, size)).ok()) return 0;
  std::string first;
  edit.EncodeTo(&first);
  VersionEdit second;
  Require(second.DecodeFrom(first).ok(), "it reads what it writes");
  std::string again;
  second.EncodeTo(&again);
  Require(first == again, "and writes the same");
  return 0;
}
