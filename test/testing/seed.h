// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Random numbers for tests, repeatable by setting TEST_SEED.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace varve::test {

// $TEST_SEED if set, else a new one; printed, so that a failure can be
// repeated.
inline uint64_t TestSeed() {
  const char* given = getenv("TEST_SEED");
  const uint64_t seed =
      given != nullptr ? strtoull(given, nullptr, 0) : std::random_device()();
  printf("TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  fflush(stdout);
  return seed;
}

// The number in the environment variable `name`, or `fallback`.
inline int EnvironmentInt(const char* name, int fallback) {
  const char* given = getenv(name);
  return given != nullptr ? atoi(given) : fallback;
}

// Thread-safety: owned by one thread at a time.
class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  // In [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return engine_() % bound; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }
  // In [low, high].
  int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  template <typename T>
  T Pick(std::initializer_list<T> choices) {
    return choices.begin()[Below(choices.size())];
  }
  // Bytes, half of which repeat, so that compression has something to do.
  std::string Bytes(size_t size) {
    std::string bytes(size, 'x');
    for (size_t i = 0; i < size; i += 2) bytes[i] = static_cast<char>(Next());
    return bytes;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace varve::test
