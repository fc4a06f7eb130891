// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A key of a case-insensitive database. Both ways of folding agree, and to fold
// twice is to fold once.

#include <string>

#include "test/fuzz/fuzz.h"
#include "util/bytes/key_fold.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  const Slice key = Bytes(data, size);
  std::string fast, full;
  const bool fast_ok = FoldText(key, KeyFolding::kAsciiFirst, &fast);
  const bool full_ok = FoldText(key, KeyFolding::kUnicode, &full);
  Require(fast_ok == full_ok, "both take it, or none");
  const FoldedKey folded(key, KeyFolding::kAsciiFirst);
  Require(folded.ok() == fast_ok, "and so does FoldedKey");
  if (!fast_ok) return 0;
  Require(fast == full, "both find the same");
  Require(folded.slice() == fast, "and so does FoldedKey");
  std::string twice;
  Require(FoldText(fast, KeyFolding::kAsciiFirst, &twice), "it can be folded");
  Require(twice == fast, "which changes nothing");
  return 0;
}
