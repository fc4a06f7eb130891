// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env whose monotonic clock stands still until the test moves it.

#include <atomic>
#include <cstdint>

#include "varve/env.h"

namespace varve::test {

// Thread-safety: thread-safe.
class SetClock final : public EnvWrapper {
 public:
  SetClock() : EnvWrapper(Env::Default()) {}
  uint64_t NowNanos() override { return now_us_ * 1000; }
  void Advance(uint64_t us) { now_us_ += us; }

 private:
  std::atomic<uint64_t> now_us_{1000000};
};

}  // namespace varve::test
