// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How the blocks of a table are compressed.

#include <cstdint>

#include "varve/export.h"

namespace varve {

// The byte stored with each block. On disk: never renumber. Varve writes and
// reads all types but two: it only reads kZSTDNotFinal, and it neither writes
// nor reads kXpress. A build may leave types out (docs/building.md). Reading a
// block of a type that is not supported returns NotSupported with its name.
enum class CompressionType : uint8_t {
  kNone = 0,
  kSnappy = 1,
  kZlib = 2,
  kBZip2 = 3,
  kLZ4 = 4,
  kLZ4HC = 5,  // Slower to write; read exactly as kLZ4.
  kXpress = 6,
  kZSTD = 7,
  kZSTDNotFinal = 0x40,  // Files from before ZSTD had its number.
};

// Returns true if blocks of this type can be both written and read. `type` may
// be any byte. Thread-safe.
VARVE_EXPORT bool CompressionSupported(CompressionType type);

// Returns the first of kSnappy, kLZ4 and kZSTD that is supported, otherwise
// kNone. Thread-safe.
VARVE_EXPORT CompressionType DefaultCompression();

// Leaves the level to the algorithm: 9 for LZ4HC, 3 for ZSTD, 6 for Zlib.
inline constexpr int kDefaultCompressionLevel = 32767;

}  // namespace varve
