// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The token bucket of NewGenericRateLimiter.
//
// A request that finds too few tokens joins the queue of its priority. One
// waiter at a time is the timekeeper. It sleeps until the bucket holds enough
// for the next request, grants tokens, and passes its role on when its own
// request is granted. The others sleep until theirs is granted, so each refill
// wakes one thread and not all.

#include <cstdint>
#include <deque>
#include <memory>

#include "util/base/mutex.h"
#include "varve/rate_limiter.h"

namespace varve {

// The limiter's clock. Tests replace it.
// Thread-safety: thread-safe.
class RateLimiterClock {
 public:
  virtual ~RateLimiterClock() = default;
  virtual uint64_t NowMicros() = 0;
  // Waits for a signal or until the time has passed. May return early.
  virtual void WaitFor(CondVar* wake, Mutex* mutex, uint64_t time_us)
      VARVE_REQUIRES(mutex) = 0;
};

class TokenBucket final : public RateLimiter {
 public:
  TokenBucket(uint64_t bytes_per_second, uint64_t refill_period_us,
              uint32_t fairness, std::unique_ptr<RateLimiterClock> clock);
  TokenBucket(const TokenBucket&) = delete;
  TokenBucket& operator=(const TokenBucket&) = delete;

  void Request(uint64_t bytes, Priority priority) override
      VARVE_EXCLUDES(mutex_);
  void SetBytesPerSecond(uint64_t bytes_per_second) override
      VARVE_EXCLUDES(mutex_);
  uint64_t GetBytesPerSecond() const override VARVE_EXCLUDES(mutex_);
  uint64_t GetTotalBytesThrough(Priority priority) const override
      VARVE_EXCLUDES(mutex_);
  uint64_t GetTotalRequests(Priority priority) const override
      VARVE_EXCLUDES(mutex_);
  // Returns the number of waiting requests.
  size_t TEST_WaitingCount() const VARVE_EXCLUDES(mutex_);

 private:
  struct Waiter {
    explicit Waiter(uint64_t wanted_bytes) : bytes(wanted_bytes) {}
    const uint64_t bytes;
    bool granted = false;
    CondVar wake;
  };

  void RequestPiece(uint64_t bytes, Priority priority) VARVE_REQUIRES(mutex_);
  // Returns the microseconds until the bucket holds `bytes` bytes.
  uint64_t MicrosUntil(double bytes) const VARVE_REQUIRES(mutex_);
  double Wanted(const Waiter& waiter) const VARVE_REQUIRES(mutex_);
  void Refill() VARVE_REQUIRES(mutex_);
  // Returns the queue to serve next, or null.
  std::deque<Waiter*>* NextQueue() VARVE_REQUIRES(mutex_);
  void Grant() VARVE_REQUIRES(mutex_);

  // Immutable after construction.
  const uint64_t refill_period_us_;
  const uint32_t fairness_;
  const std::unique_ptr<RateLimiterClock> clock_;

  mutable Mutex mutex_;
  uint64_t bytes_per_second_ VARVE_GUARDED_BY(mutex_);
  uint64_t capacity_bytes_ VARVE_GUARDED_BY(mutex_);
  double available_bytes_ VARVE_GUARDED_BY(mutex_);
  uint64_t refilled_us_ VARVE_GUARDED_BY(mutex_);
  std::deque<Waiter*> queues_[2] VARVE_GUARDED_BY(mutex_);  // By priority.
  bool has_timekeeper_ VARVE_GUARDED_BY(mutex_) = false;
  uint32_t turn_ VARVE_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_through_[2] VARVE_GUARDED_BY(mutex_) = {};
  uint64_t requests_[2] VARVE_GUARDED_BY(mutex_) = {};
};

}  // namespace varve
