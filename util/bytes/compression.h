// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Compresses the bodies of blocks for files and takes them apart again.
//
// A body of LZ4 or ZSTD begins with the raw size as a varint32 (in tables of
// format version 0 and 1, LZ4 has 8 bytes, little-endian); Snappy brings its
// own. Varve writes the newer form only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "varve/compression_type.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Whether blocks of this type can be both written and read.
bool CompressionSupported(CompressionType type);

// The name as table properties spell it: "NoCompression", "Snappy", "ZSTD".
// "unknown" for a value that has none. The string is static.
const char* CompressionName(CompressionType type);

// Compresses block after block with one setting. It keeps the algorithm's
// working memory (16 KiB for LZ4, 256 KiB for LZ4HC, more for ZSTD), so that
// a block costs no allocation once the output has grown.
// Thread-safety: thread-compatible; one per table builder.
class Compressor {
 public:
  // `level`: for LZ4HC and ZSTD higher is smaller and slower; for LZ4 a
  // negative level -n is the acceleration n; Snappy has none. Levels out of
  // bounds are brought into them.
  explicit Compressor(CompressionType type,
                      int level = kDefaultCompressionLevel);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Puts the compressed body of `raw` into *body. False, and *body holds
  // nothing of use, if the block should be stored raw: it does not shrink by
  // more than an eighth, is over 1 GiB, or the type cannot be written.
  [[nodiscard]] bool Compress(const Slice& raw, std::string* body);

 private:
  struct State;

  // The compressed bytes go behind `prefix_bytes` bytes left free; 0 if they
  // do not fit `max_bytes`.
  size_t CompressBehind(size_t prefix_bytes, size_t max_bytes, const Slice& raw,
                        std::string* body);

  const CompressionType type_;
  const int level_;
  std::unique_ptr<State> state_;
};

// Reading takes two steps, so that the caller decides where the raw bytes go.
// `format_version` is the one in the table's footer. `type` may be any byte.
// Errors of both: NotSupported names a type that Varve cannot read; Corruption
// says what is wrong with the body, and leaves it to the caller to say where.

// How many bytes `body` says it holds. What it says is checked against what a
// body of its length can hold at most, and against 1 GiB, so that a damaged
// body does not make the caller allocate without bounds.
Status UncompressedLength(CompressionType type, uint32_t format_version,
                          const Slice& body, size_t* length);

// Fills out[0, length). `length` must be what UncompressedLength said; another
// is Corruption, as is a body that holds more or less. `dictionary` is that of
// the table, if it has one: for data blocks only, and Snappy ignores it.
// Safe from any thread; for ZSTD each thread keeps a decoder (about 100 KiB),
// and IOError says that there is no memory for it.
Status UncompressInto(CompressionType type, uint32_t format_version,
                      const Slice& body, char* out, size_t length,
                      const Slice& dictionary = Slice());

}  // namespace varve
