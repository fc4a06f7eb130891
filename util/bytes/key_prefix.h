// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Key prefixes as numbers: eight bytes of a key, read so that the numbers
// compare as the bytes do. Keys with equal prefixes must be compared in full. A
// key that ends early is padded with zeroes, which no longer key sorts before.

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
  if (size >= sizeof(bytes)) {
    memcpy(&bytes, key.data() + skip, sizeof(bytes));
  } else if (size > 0) {  // The data of an empty slice may be null.
    memcpy(&bytes, key.data() + skip, size);
  }
  return __builtin_bswap64(bytes);  // Varve runs on little-endian machines.
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
