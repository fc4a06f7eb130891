// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds a byte in a short array, sixteen at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace varve {

// Returns a mask whose bit i is set if bytes[i] is the byte. Reads 16 bytes.
inline uint32_t MatchByte16(const char* bytes, uint8_t byte) {
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
  const __m128i group =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return static_cast<uint32_t>(
      _mm_movemask_epi8(_mm_cmpeq_epi8(group, wanted)));
#else
  uint32_t mask = 0;
  for (uint32_t i = 0; i < 16; ++i) {
    mask |= uint32_t{static_cast<uint8_t>(bytes[i]) == byte} << i;
  }
  return mask;
#endif
}

}  // namespace varve
