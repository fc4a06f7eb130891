// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstring>

#include "varve/slice.h"

namespace varve {

// Copies as memcpy does, fast for the sizes of most keys. 8 to 32 bytes take
// two loads and two stores that may overlap, and no call.
inline void ShortCopy(char* to, const char* from, size_t size) {
  struct Half {
    char bytes[16];
  };
  if (size >= 16 && size <= 32) {
    Half first;
    Half last;
    memcpy(&first, from, sizeof(first));
    memcpy(&last, from + size - sizeof(last), sizeof(last));
    memcpy(to, &first, sizeof(first));
    memcpy(to + size - sizeof(last), &last, sizeof(last));
  } else if (size >= 8 && size < 16) {
    char first[8];
    char last[8];
    memcpy(first, from, sizeof(first));
    memcpy(last, from + size - sizeof(last), sizeof(last));
    memcpy(to, first, sizeof(first));
    memcpy(to + size - sizeof(last), last, sizeof(last));
  } else if (size > 0) {
    memcpy(to, from, size);
  }
}

// Returns true if two short byte strings are equal. Keys in order differ first
// at their ends, so these are compared first, without a call.
inline bool ShortEqual(const char* a, const char* b, size_t size) {
  // Two words that may overlap make up 4 to 16 bytes.
  if (size >= 8) {
    if (memcmp(a + size - 8, b + size - 8, 8) != 0) return false;
    if (size <= 16) return memcmp(a, b, 8) == 0;
    return memcmp(a, b, size - 8) == 0;
  }
  if (size >= 4) {
    return memcmp(a + size - 4, b + size - 4, 4) == 0 && memcmp(a, b, 4) == 0;
  }
  return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] &&
                       a[size - 1] == b[size - 1]);
}

inline bool ShortEqual(const Slice& a, const Slice& b) {
  return a.size() == b.size() && ShortEqual(a.data(), b.data(), a.size());
}

// Returns whether the bytes begin with a short prefix.
inline bool StartsWithShort(const Slice& bytes, const Slice& prefix) {
  return bytes.size() >= prefix.size() &&
         ShortEqual(bytes.data(), prefix.data(), prefix.size());
}

}  // namespace varve
