// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The body of a compressed block: a byte for its type, a byte for the table's
// format version, the body. It must be refused, or decode to as many bytes as
// its length says. Both steps must agree, and neither may leave its memory.

#include <algorithm>
#include <memory>

#include "test/fuzz/fuzz.h"
#include "util/bytes/compression.h"

namespace varve::fuzz {
namespace {

// No input of the fuzzer's size needs more.
constexpr size_t kMostBytes = size_t{16} << 20;
constexpr char kDictionary[] = "a dictionary: key1 value key2 value";

void Decode(CompressionType type, uint32_t format_version, const Slice& body,
            size_t length, const Slice& dictionary) {
  // Exactly as long, for the sanitizer.
  const auto out = std::make_unique_for_overwrite<char[]>(length);
  const Status status =
      UncompressInto(type, format_version, body, out.get(), length, dictionary);
  Require(status.ok() || status.IsCorruption(), "decoded or damaged");
  if (!status.ok()) return;
  size_t again = 0;
  Require(UncompressedLength(type, format_version, body, &again).ok() &&
              again == length,
          "what decodes has that length");
}

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  Choices choices(Bytes(data, size));
  const auto type = static_cast<CompressionType>(choices.Byte());
  const uint32_t format_version = choices.Byte() % 6;
  // Exactly as long, for the sanitizer.
  const Slice rest = choices.rest();
  const auto copy = std::make_unique_for_overwrite<char[]>(rest.size());
  std::copy(rest.data(), rest.data() + rest.size(), copy.get());
  const Slice body(copy.get(), rest.size());
  size_t length = 0;
  const Status status = UncompressedLength(type, format_version, body, &length);
  Require(status.ok() || status.IsCorruption() || status.IsNotSupported(),
          "a length, damage, or a type that is not there");
  if (status.IsNotSupported()) return 0;
  if (!status.ok()) length = 100;
  if (length > kMostBytes) return 0;
  Decode(type, format_version, body, length, Slice());
  Decode(type, format_version, body, length, kDictionary);
  Decode(type, format_version, body, length / 2, Slice());
  return 0;
}
