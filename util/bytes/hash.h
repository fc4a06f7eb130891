// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The two hashes that the table format fixes. Neither resists an adversary.
// Both are pure functions, safe from any thread, and allocate nothing.

#include <cstdint>

#include "util/bytes/coding.h"
#include "varve/slice.h"

namespace varve {

namespace hash_internal {

inline constexpr uint64_t kPrime32A = 0x9E3779B1;
inline constexpr uint64_t kPrime64A = 0x9E3779B185EBCA87;
inline constexpr uint64_t kPrime64B = 0xC2B2AE3D27D4EB4F;
// The first two words of the secret; hash.cc has all of it.
inline constexpr uint64_t kSecretWord0 = 0xBE4BA423396CFEB8;
inline constexpr uint64_t kSecretWord1 = 0x1CAD21F72C81017C;

__extension__ using Uint128 = unsigned __int128;

// Both halves of the 128-bit product, xored.
constexpr uint64_t Fold(uint64_t a, uint64_t b) {
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The final mix. The released XXH3 multiplies by another constant here.
constexpr uint64_t Avalanche(uint64_t h) {
  h ^= h >> 37;
  h *= 0x165667B19E3779F9;
  return h ^ (h >> 32);
}

uint64_t PreviewXxh3Long(const char* data, size_t size);

}  // namespace hash_internal

// XXH3 as xxHash 0.7.2 previewed it, 64 bits, seed 0. It is the hash of filter
// blocks, and of in-memory structures that share its value. It is NOT the XXH3
// that xxHash released later: for short keys nearly every value differs, and a
// filter that is probed with the wrong hash loses keys.
//
// Keys of up to 16 bytes are hashed inline.
inline uint64_t PreviewXxh3(const Slice& key) {
  using namespace hash_internal;
  const char* p = key.data();
  const size_t n = key.size();
  if (n > 16) return PreviewXxh3Long(p, n);
  if (n > 8) {
    const uint64_t low = DecodeFixed64(p) ^ kSecretWord0;
    const uint64_t high = DecodeFixed64(p + n - 8) ^ kSecretWord1;
    return Avalanche(n + low + high + Fold(low, high));
  }
  if (n >= 4) {
    const uint64_t tail = DecodeFixed32(p + n - 4);
    const uint64_t keyed = (DecodeFixed32(p) | tail << 32) ^ kSecretWord0;
    const uint64_t mixed = n + (keyed ^ keyed >> 51) * kPrime32A;
    return Avalanche((mixed ^ mixed >> 47) * kPrime64B);
  }
  if (n > 0) {
    const auto byte = [p](size_t i) -> uint64_t {
      return static_cast<unsigned char>(p[i]);
    };
    const uint64_t all =
        byte(0) | byte(n >> 1) << 8 | byte(n - 1) << 16 | n << 24;
    return Avalanche((all ^ (kSecretWord0 & UINT32_MAX)) * kPrime64A);
  }
  return Fold(kSecretWord0, kPrime64B);
}

// How Hash32 widens the one to three bytes after the last whole word. The two
// file families differ for bytes of 0x80 and above.
enum class TailBytes : uint8_t {
  kZeroExtended,  // LevelDB.
  kSignExtended,  // RocksDB.
};

// The 32-bit hash of LevelDB's filters, of RocksDB's filters before table
// format 5, and of the hash index in data blocks.
uint32_t Hash32(const Slice& data, uint32_t seed, TailBytes tail_bytes);

}  // namespace varve
