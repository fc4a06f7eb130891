// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A small, fast generator of pseudo-random numbers (SplitMix64: a counter put
// through a mixing function; period 2^64). The same seed gives the same
// numbers on every machine. Not for secrets.
//
// Thread-safety: thread-compatible; give each thread its own.

#include <cstdint>

namespace varve {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Returns any 64-bit value.
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  // Returns a value in [0, n), uniform to within n / 2^64. REQUIRES: n > 0.
  uint64_t Uniform(uint64_t n) {
    __extension__ using Uint128 = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Uint128>(Next()) * n) >> 64);
  }

  // Returns true once in n calls on average. REQUIRES: n > 0.
  bool OneIn(uint64_t n) { return Uniform(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace varve
