// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A compression library behind one interface. Each library has a source file of
// its own (codec_<name>.cc), so that a build can leave it out.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "varve/compression_type.h"
#include "varve/slice.h"

namespace varve {

// Larger blocks are neither written nor read.
inline constexpr size_t kMaxRawBytes = size_t{1} << 30;

// Compresses block after block and keeps the library's working memory.
// Thread-safety: thread-compatible.
class BlockEncoder {
 public:
  virtual ~BlockEncoder() = default;

  // Returns how many bytes Encode needs at `out` for a result of up to
  // `max_bytes`.
  virtual size_t SpaceFor(size_t raw_bytes, size_t max_bytes) const;

  // Writes the compressed form of `raw`, which has 1 byte to 1 GiB. Returns its
  // size. Returns 0 if it is over `max_bytes`, or if there is no memory.
  virtual size_t Encode(const Slice& raw, char* out, size_t max_bytes) = 0;
};

enum class DecodeResult : uint8_t { kDone, kDamaged, kNoMemory };

// Where a body states the size of its raw bytes.
enum class RawSizeForm : uint8_t {
  kVarint32,  // In front of the library's bytes.
  kFixed64,   // The same, in 8 bytes, little-endian.
  kMeasured,  // Only inside the library's bytes.
};

// Bodies are bytes from a file and may be damaged: all functions stay inside
// the memory that they are given. Thread-safety: the functions are safe from
// any thread.
struct Codec {
  RawSizeForm form;      // In tables of format version 2 and later.
  RawSizeForm old_form;  // In tables of format version 0 and 1.

  // Returns true if `packed`, the body after its stated size, can hold
  // `raw_bytes`, which is at most kMaxRawBytes. Reads at most a header, or
  // decodes without an output.
  bool (*is_plausible)(const Slice& packed, uint64_t raw_bytes);

  // Sets *raw_bytes to the size of the raw bytes. kDamaged if it is over
  // kMaxRawBytes. Null if both forms are stored ones.
  DecodeResult (*measure)(const Slice& packed, uint64_t* raw_bytes);

  // Fills out[0, length). kDamaged if `packed` holds more or less.
  DecodeResult (*decode)(const Slice& packed, const Slice& dictionary,
                         char* out, size_t length);

  // `level` may be any number. kDefaultCompressionLevel is the library's own.
  // Returns null if there is no memory.
  std::unique_ptr<BlockEncoder> (*new_encoder)(CompressionType type, int level);
};

// Null if the build left the library out.
const Codec* SnappyCodec();
const Codec* Lz4Codec();  // LZ4 and LZ4HC.
const Codec* ZstdCodec();
const Codec* ZlibCodec();
const Codec* Bzip2Codec();

// Returns true if `raw_bytes` is at most `max_ratio` times the packed bytes, or
// small enough that any body may claim it.
inline bool IsPlausibleRatio(const Slice& packed, uint64_t raw_bytes,
                             size_t max_ratio) {
  constexpr size_t kAlwaysAllowedBytes = size_t{64} << 10;
  return raw_bytes <= kAlwaysAllowedBytes ||
         raw_bytes / max_ratio <= packed.size();
}

}  // namespace varve
