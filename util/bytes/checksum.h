// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checksums of stored bytes: CRC-32C for logs, and the kinds that a table may
// name in its footer. Pure functions, safe from any thread, no allocation.

#include <cstddef>
#include <cstdint>

namespace varve {

// Returns the CRC-32C (Castagnoli) of `size` bytes; 0 if `size` is 0.
uint32_t Crc32c(const char* data, size_t size);
// Returns the CRC of A followed by `data`, where `crc` is the CRC of A.
uint32_t Crc32cExtend(uint32_t crc, const char* data, size_t size);

// Returns the CRC-32C of one byte.
constexpr uint32_t Crc32cOfByte(uint8_t byte) {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  uint32_t state = 0xFFFFFFFFu ^ byte;
  for (int bit = 0; bit < 8; ++bit) {
    state = (state >> 1) ^ ((state & 1) != 0 ? kReversedPolynomial : 0);
  }
  return ~state;
}

// Stored CRCs are masked: the CRC of bytes that hold their own CRC would
// otherwise be the same whatever the bytes are.
inline constexpr uint32_t kCrcMaskDelta = 0xA282EAD8;
constexpr uint32_t MaskCrc(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta;
}
constexpr uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

// The checksum byte of a table's footer. On disk: never renumber.
enum class ChecksumType : uint8_t {
  kNone = 0,
  kCrc32c = 1,
  kXxHash32 = 2,
  kXxHash64 = 3,
  kXxh3 = 4,
};

// Returns true if a byte read from a footer is one of the values above.
constexpr bool IsChecksumType(uint8_t value) { return value <= 4; }

// Returns the 32-bit checksum that follows a block. It covers the block's body
// and its compression type byte. kNone gives 0, which readers must not compare.
// The type byte is body[body_size], as in a file. REQUIRES: `type` is one of
// the enumerators.
uint32_t BlockChecksum(ChecksumType type, const char* body, size_t body_size);

}  // namespace varve
