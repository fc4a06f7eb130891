// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Key prefixes as numbers: eight bytes of a key, read so that the numbers
// compare as the bytes do. Keys with equal prefixes must be compared in full. A
// key that ends early is padded with zeroes, which no longer key sorts before.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "varve/slice.h"

namespace varve {

// Returns the eight bytes from `skip` on. REQUIRES: skip <= key.size().
inline uint64_t KeyPrefix(const Slice& key, size_t skip) {
  const size_t size = key.size() - skip;
  uint64_t bytes = 0;
  // Varve runs on little-endian machines.
  if (size >= sizeof(bytes)) {
    memcpy(&bytes, key.data() + skip, sizeof(bytes));
    return __builtin_bswap64(bytes);
  }
  if (size == 0) return 0;  // The data of an empty slice may be null.
  if (key.size() >= sizeof(bytes)) {
    // The key's last bytes, without a call of memcpy().
    memcpy(&bytes, key.data() + key.size() - sizeof(bytes), sizeof(bytes));
    return __builtin_bswap64(bytes) << (8 * (sizeof(bytes) - size));
  }
  memcpy(&bytes, key.data() + skip, size);
  return __builtin_bswap64(bytes);
}

// Returns the number of bytes, up to `limit`, that both keys begin with.
inline size_t CommonPrefixSize(const Slice& a, const Slice& b,
                               size_t limit = SIZE_MAX) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t size = std::min({a.size(), b.size(), limit});
  size_t at = 0;
  if (size < kWord) {
    while (at < size && a[at] == b[at]) ++at;
    return at;
  }
  for (;;) {
    uint64_t of_a;
    uint64_t of_b;
    memcpy(&of_a, a.data() + at, kWord);
    memcpy(&of_b, b.data() + at, kWord);
    const uint64_t bits = of_a ^ of_b;
    if (bits != 0) return at + static_cast<size_t>(std::countr_zero(bits)) / 8;
    if (at + kWord == size) return size;
    at = std::min(at + kWord, size - kWord);  // The last words may overlap.
  }
}

// A key's position relative to a fixed reference key, as a number. Different
// numbers of one reference compare as their keys do. KeyPrefix(key, 0) says
// nothing about keys that all begin with the same eight bytes. This number has
// the size of the prefix that the key shares with the reference, and the key's
// next seven bytes:
//
//   bit 63              62..56                                 55..0
//   key >= reference    the size; inverted if bit 63 is set    seven bytes
//
// Among keys above the reference, those that share less of it are larger, so
// the size is inverted. Among keys below it, those that share less are smaller.
// A size above kMaxRelativeCommon counts as kMaxRelativeCommon, with bit 63
// set.
inline constexpr size_t kMaxRelativeCommon = 127;

// Returns the key's position relative to the reference.
inline uint64_t RelativePrefix(const Slice& key, const Slice& reference) {
  const size_t common = CommonPrefixSize(key, reference, kMaxRelativeCommon);
  const bool below = common < std::min(reference.size(), kMaxRelativeCommon) &&
                     (common == key.size() ||
                      static_cast<unsigned char>(key[common]) <
                          static_cast<unsigned char>(reference[common]));
  // Without a branch, which would be as random as the keys.
  const uint64_t top = (common ^ (static_cast<uint64_t>(below) - 1)) & 0xFF;
  return top << 56 | KeyPrefix(key, common) >> 8;
}

// Returns how many of a key's first bytes this number of it determines. A key
// that is shorter counts as padded with zeroes.
inline size_t RelativePrefixEnd(uint64_t prefix) {
  const uint64_t top = prefix >> 56;
  return ((top & 0x80) != 0 ? top ^ 0xFF : top) + 7;
}

// Returns the index of the first of the ascending numbers that is not below
// `prefix`, or `count` if there is none. Branchless: it costs cache misses but
// no mispredicted branches.
inline size_t LowerBoundPrefix(const uint64_t* prefixes, size_t count,
                               uint64_t prefix) {
  if (count == 0) return 0;
  const uint64_t* base = prefixes;
  size_t left = count;
  while (left > 1) {
    const size_t half = left / 2;
    // A mask, since compilers turn a conditional expression into a branch.
    base += half & (0 - static_cast<size_t>(base[half - 1] < prefix));
    left -= half;
  }
  return static_cast<size_t>(base - prefixes) + (*base < prefix ? 1 : 0);
}

// LowerBoundPrefix for a fixed number of prefixes, a power of two. Without the
// loop it executes a third fewer instructions.
template <size_t kCount>
inline size_t LowerBoundPrefixOf(const uint64_t* prefixes, uint64_t prefix) {
  static_assert(kCount > 0 && (kCount & (kCount - 1)) == 0);
  if constexpr (kCount == 1) {
    return *prefixes < prefix ? 1 : 0;
  } else {
    constexpr size_t kHalf = kCount / 2;
    // A mask, as above.
    const size_t skip =
        kHalf & (0 - static_cast<size_t>(prefixes[kHalf - 1] < prefix));
    return skip + LowerBoundPrefixOf<kHalf>(prefixes + skip, prefix);
  }
}

}  // namespace varve
