// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Durations, by the Env's monotonic clock. The wall clock (Env::NowMicros)
// jumps when an operator or a time server corrects it, so it is for dates only.

#include <cstdint>

#include "varve/env.h"

namespace varve {

// Returns microseconds since some fixed point. They never run backwards.
inline uint64_t MonotonicMicros(Env* env) { return env->NowNanos() / 1000; }

// Measures the time since its construction.
// Thread-safety: thread-safe.
class Stopwatch {
 public:
  // `env` must outlive the object.
  explicit Stopwatch(Env* env) : env_(env), start_us_(MonotonicMicros(env)) {}

  uint64_t start_us() const { return start_us_; }

  // Returns 0 if a user's Env violates its contract and runs backwards.
  uint64_t ElapsedMicros() const {
    const uint64_t now_us = MonotonicMicros(env_);
    return now_us > start_us_ ? now_us - start_us_ : 0;
  }

 private:
  Env* const env_;
  const uint64_t start_us_;
};

}  // namespace varve
