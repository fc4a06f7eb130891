// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Limits the bytes per second that background work writes, to keep the device
// free for reads and the log. Set it in Options::rate_limiter. DBs may share
// one.

#include <cstdint>
#include <memory>

#include "varve/export.h"

namespace varve {

// Thread-safety: thread-safe.
class VARVE_EXPORT RateLimiter {
 public:
  // Flushes use kHigh, since writers wait for them. Compactions use kLow.
  enum class Priority : uint8_t { kLow = 0, kHigh = 1 };

  virtual ~RateLimiter() = default;

  // Waits until `bytes` more may be written. Any amount is allowed; a large one
  // is granted in pieces.
  virtual void Request(uint64_t bytes, Priority priority) = 0;

  // Sets the rate, which takes effect at the next refill. REQUIRES: > 0.
  virtual void SetBytesPerSecond(uint64_t bytes_per_second) = 0;
  virtual uint64_t GetBytesPerSecond() const = 0;

  // Return the bytes granted so far, and the number of requests.
  virtual uint64_t GetTotalBytesThrough(Priority priority) const = 0;
  virtual uint64_t GetTotalRequests(Priority priority) const = 0;
};

// Creates a token bucket that is filled at a constant rate. It holds the tokens
// of `refill_period_us` microseconds, which is the largest burst. Requests of
// one priority are served in order. High priority is served first, except in
// one of `fairness` turns, in which a waiting low request is served first.
// REQUIRES: all three > 0.
VARVE_EXPORT std::shared_ptr<RateLimiter> NewGenericRateLimiter(
    uint64_t bytes_per_second, uint64_t refill_period_us = 100000,
    uint32_t fairness = 10);

}  // namespace varve
