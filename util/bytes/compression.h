// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Compresses and uncompresses the bodies of blocks.
//
// A body of LZ4, ZSTD, Zlib or BZip2 begins with the raw size as a varint32. In
// tables of format version 0 and 1, LZ4 has 8 bytes, little-endian, and Zlib
// and BZip2 have none. Snappy stores its own size. Varve writes the newer form
// only. The libraries are in codec_<name>.cc; a build may leave some out.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "varve/compression_type.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class BlockEncoder;

// Returns the name that table properties use: "NoCompression", "Snappy",
// "ZSTD". Returns "unknown" for a value that has none. The string is static.
const char* CompressionName(CompressionType type);

// Returns "ZSTD compression (type 0x07) is not built in" for kZSTD.
std::string NotBuiltInText(CompressionType type);

// Compresses block after block with one setting. It keeps the algorithm's
// working memory (16 KiB for LZ4, 256 KiB for LZ4HC, more for ZSTD), so that
// a block costs no allocation once the output has grown.
// Thread-safety: thread-compatible; one per table builder.
class Compressor {
 public:
  // `level`: for LZ4HC, Zlib and ZSTD, higher is smaller and slower. For LZ4, a
  // negative level -n is the acceleration n. Snappy and BZip2 have none. Levels
  // out of bounds are clamped.
  explicit Compressor(CompressionType type,
                      int level = kDefaultCompressionLevel);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Sets *body to the compressed body of `raw`. Returns false if the block
  // should be stored raw: it does not shrink by more than an eighth, is over 1
  // GiB, or the type cannot be written. *body then has no defined contents.
  [[nodiscard]] bool Compress(const Slice& raw, std::string* body);

 private:
  std::unique_ptr<BlockEncoder> encoder_;  // Null: the type cannot be written.
  bool has_prefix_ = false;
};

// Reading takes two steps, so that the caller chooses the memory for the raw
// bytes.
// `format_version` is the one in the table's footer. `type` may be any byte.
// Errors of both: NotSupported names a type that Varve cannot read. Corruption
// describes the error in the body; the caller adds the place.

// Returns the raw size that `body` states. The size is checked against the
// maximum that a body of its length can hold, and against 1 GiB, so that a
// damaged body does not make the caller allocate without bounds. A body that
// does not store its raw size is decoded for it, and a body of BZip2 also if it
// claims over 300 times its length.
Status UncompressedLength(CompressionType type, uint32_t format_version,
                          const Slice& body, size_t* length);

// Fills out[0, length). `length` must be the result of UncompressedLength. Any
// other length returns Corruption, as does a body that holds more or less.
// `dictionary` is the table's dictionary, if it has one: only for data blocks,
// and Snappy and BZip2 ignore it.
// Safe from any thread. For ZSTD each thread keeps a decoder (about 100 KiB).
// IOError reports that there is no memory for a decoder.
Status UncompressInto(CompressionType type, uint32_t format_version,
                      const Slice& body, char* out, size_t length,
                      const Slice& dictionary = Slice());

}  // namespace varve
