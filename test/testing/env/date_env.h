// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>

#include "varve/env.h"

namespace varve::test {

// An Env in which it is as late as the test says. Thread-safe.
class DateEnv final : public EnvWrapper {
 public:
  explicit DateEnv(uint64_t begin_s, Env* target = Env::Default())
      : EnvWrapper(target), now_s(begin_s) {}
  uint64_t NowMicros() override { return now_s * 1000000; }

  std::atomic<uint64_t> now_s;
};

}  // namespace varve::test
