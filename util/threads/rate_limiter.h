// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The token bucket behind NewGenericRateLimiter.
//
// Who finds the bucket too empty joins the queue of its priority. Of all that
// wait, one at a time is the timekeeper: it sleeps until the bucket holds what
// the next in turn wants, hands out tokens, and gives its office on when it
// has got its own. The others sleep until they are granted theirs, so each
// refill wakes one thread, not all.

#include <cstdint>
#include <deque>
#include <memory>

#include "util/base/mutex.h"
#include "varve/rate_limiter.h"

namespace varve {

// Time as the limiter sees it; tests have another.
// Thread-safety: thread-safe.
class RateLimiterClock {
 public:
  virtual ~RateLimiterClock() = default;
  virtual uint64_t NowMicros() = 0;
  // Waits for a signal or for the time to pass; may return early.
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
  // Requests that wait.
  size_t TEST_WaitingCount() const VARVE_EXCLUDES(mutex_);

 private:
  struct Waiter {
    explicit Waiter(uint64_t wanted_bytes) : bytes(wanted_bytes) {}
    const uint64_t bytes;
    bool granted = false;
    CondVar wake;
  };

  void RequestPiece(uint64_t bytes, Priority priority) VARVE_REQUIRES(mutex_);
  // Microseconds until the bucket would hold so many bytes.
  uint64_t MicrosUntil(double bytes) const VARVE_REQUIRES(mutex_);
  double Wanted(const Waiter& waiter) const VARVE_REQUIRES(mutex_);
  void Refill() VARVE_REQUIRES(mutex_);
  // Whose turn it is, or null.
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
