// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The last bytes of a table. An accepted footer names blocks within the file.

#include <string>

#include "table/block/format.h"
#include "test/fuzz/fuzz.h"
#include "util/bytes/coding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  if (size < 4) return 0;
  const Slice bytes = Bytes(data, size);
  const uint64_t file_size = DecodeFixed32(bytes.data());
  const Slice tail(bytes.data() + 4, size - 4);
  Footer footer;
  if (!footer.DecodeFrom(tail, "f", file_size).ok()) return 0;
  Require(footer.index.FitsIn(file_size), "the index lies in the file");
  Require(footer.metaindex.FitsIn(file_size), "the metaindex lies in the file");
  if (footer.size != Footer::kSize || !footer.has_index()) return 0;
  std::string again;
  footer.EncodeTo(&again);
  Footer second;
  Require(second.DecodeFrom(again, "f", file_size).ok(),
          "it reads what it says");
  Require(second.index.offset == footer.index.offset &&
              second.index.size == footer.index.size,
          "and says the same");
  return 0;
}
