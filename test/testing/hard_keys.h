// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// User keys that are hard to tell apart.

#include <string>

#include "test/testing/seed.h"

namespace varve::test {

// Returns bytes of those values that most often expose errors in comparisons.
inline std::string FewBytes(Rng* random, size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    c = random->Pick({'\0', '\x01', 'k', '\xFE', '\xFF'});
  }
  return bytes;
}

// Keys of one style differ early, late, in length only, or hardly at all.
constexpr int kHardKeyStyles = 6;
inline std::string HardKey(Rng* random, int style) {
  switch (style) {
    case 0:
      return FewBytes(random, random->Below(4));
    case 1:
      return FewBytes(random, random->Below(12));
    case 2:
      return "a long beginning that all have " +
             FewBytes(random, random->Below(10));
    case 3:
      // Two groups, each equal in its first eight bytes and more.
      return random->Pick({"x", "y"}) + std::string(10, 'e') +
             FewBytes(random, 3);
    case 4:
      return std::string(random->Below(40), random->Pick({'\0', '\xFF'}));
    default:
      return random->Bytes(16);
  }
}

}  // namespace varve::test
