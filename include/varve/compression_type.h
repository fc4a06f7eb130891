// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How the blocks of a table are compressed.

#include <cstdint>

namespace varve {

// The byte stored with each block. On disk: never renumber. Varve writes and
// reads kNone, kSnappy, kLZ4, kLZ4HC and kZSTD; it reads kZSTDNotFinal. A
// block of another type gives NotSupported.
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

// Leaves the level to the algorithm: 9 for LZ4HC, 3 for ZSTD.
inline constexpr int kDefaultCompressionLevel = 32767;

}  // namespace varve
