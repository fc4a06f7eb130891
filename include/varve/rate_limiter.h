// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bounds how many bytes a second background work writes, so that it leaves the
// device to reads and to the log. Give one to Options::rate_limiter; DBs may
// share it.

#include <cstdint>
#include <memory>

#include "varve/export.h"

namespace varve {

// Thread-safety: thread-safe.
class VARVE_EXPORT RateLimiter {
 public:
  // Flushes, which writers wait for, are high; compactions are low.
  enum class Priority : uint8_t { kLow = 0, kHigh = 1 };

  virtual ~RateLimiter() = default;

  // Waits until `bytes` more may be written. Any amount; a large one is taken
  // in pieces.
  virtual void Request(uint64_t bytes, Priority priority) = 0;

  // The new rate holds from the next refill on. REQUIRES: > 0.
  virtual void SetBytesPerSecond(uint64_t bytes_per_second) = 0;
  virtual uint64_t GetBytesPerSecond() const = 0;

  // What was granted so far, and in how many requests.
  virtual uint64_t GetTotalBytesThrough(Priority priority) const = 0;
  virtual uint64_t GetTotalRequests(Priority priority) const = 0;
};

// A bucket of tokens, filled evenly, that holds what `refill_period_us`
// microseconds bring: so much is let through at once. Requests of the same
// priority are served in their order. High goes before low, but for one in
// `fairness` turns, in which low goes first where it waits.
// REQUIRES: all three > 0.
VARVE_EXPORT std::shared_ptr<RateLimiter> NewGenericRateLimiter(
    uint64_t bytes_per_second, uint64_t refill_period_us = 100000,
    uint32_t fairness = 10);

}  // namespace varve
