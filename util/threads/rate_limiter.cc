// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/rate_limiter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "util/base/check.h"

namespace varve {

namespace {

constexpr double kMicrosPerSecond = 1e6;

class SteadyClock final : public RateLimiterClock {
 public:
  uint64_t NowMicros() override {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now().time_since_epoch())
            .count());
  }
  void WaitFor(CondVar* wake, Mutex* mutex, uint64_t time_us) override
      VARVE_REQUIRES(mutex) {
    static_cast<void>(wake->WaitFor(mutex, time_us));
  }
};

size_t IndexOf(RateLimiter::Priority priority) {
  return static_cast<size_t>(priority);
}

double BytesIn(uint64_t bytes_per_second, uint64_t time_us) {
  return static_cast<double>(bytes_per_second) * static_cast<double>(time_us) /
         kMicrosPerSecond;
}

// At least one, so that every request completes.
uint64_t Capacity(uint64_t bytes_per_second, uint64_t period_us) {
  constexpr double kMaxBytes = 1e18;
  const double bytes = BytesIn(bytes_per_second, period_us);
  return static_cast<uint64_t>(std::clamp(bytes, 1.0, kMaxBytes));
}

}  // namespace

TokenBucket::TokenBucket(uint64_t bytes_per_second, uint64_t refill_period_us,
                         uint32_t fairness,
                         std::unique_ptr<RateLimiterClock> clock)
    : refill_period_us_(std::max<uint64_t>(refill_period_us, 1)),
      fairness_(std::max<uint32_t>(fairness, 1)),
      clock_(std::move(clock)) {
  MutexLock lock(&mutex_);
  bytes_per_second_ = std::max<uint64_t>(bytes_per_second, 1);
  capacity_bytes_ = Capacity(bytes_per_second_, refill_period_us_);
  available_bytes_ = static_cast<double>(capacity_bytes_);
  refilled_us_ = clock_->NowMicros();
}

void TokenBucket::SetBytesPerSecond(uint64_t bytes_per_second) {
  VARVE_DCHECK(bytes_per_second > 0);
  MutexLock lock(&mutex_);
  Refill();
  bytes_per_second_ = std::max<uint64_t>(bytes_per_second, 1);
  capacity_bytes_ = Capacity(bytes_per_second_, refill_period_us_);
  available_bytes_ =
      std::min(available_bytes_, static_cast<double>(capacity_bytes_));
}

uint64_t TokenBucket::GetBytesPerSecond() const {
  MutexLock lock(&mutex_);
  return bytes_per_second_;
}

uint64_t TokenBucket::GetTotalBytesThrough(Priority priority) const {
  MutexLock lock(&mutex_);
  return bytes_through_[IndexOf(priority)];
}

uint64_t TokenBucket::GetTotalRequests(Priority priority) const {
  MutexLock lock(&mutex_);
  return requests_[IndexOf(priority)];
}

size_t TokenBucket::TEST_WaitingCount() const {
  MutexLock lock(&mutex_);
  return queues_[0].size() + queues_[1].size();
}

void TokenBucket::Request(uint64_t bytes, Priority priority) {
  MutexLock lock(&mutex_);
  ++requests_[IndexOf(priority)];
  while (bytes > 0) {
    // The bucket never holds more than its capacity.
    const uint64_t piece = std::min(bytes, capacity_bytes_);
    RequestPiece(piece, priority);
    bytes_through_[IndexOf(priority)] += piece;
    bytes -= piece;
  }
}

void TokenBucket::RequestPiece(uint64_t bytes, Priority priority) {
  Refill();
  const auto wanted = static_cast<double>(bytes);
  if (queues_[0].empty() && queues_[1].empty() && wanted <= available_bytes_) {
    available_bytes_ -= wanted;
    return;
  }
  Waiter waiter(bytes);
  queues_[IndexOf(priority)].push_back(&waiter);
  while (!waiter.granted) {
    if (has_timekeeper_) {
      waiter.wake.Wait(&mutex_);
      continue;
    }
    has_timekeeper_ = true;
    const uint64_t wait_us = MicrosUntil(Wanted(*NextQueue()->front()));
    if (wait_us > 0) clock_->WaitFor(&waiter.wake, &mutex_, wait_us);
    has_timekeeper_ = false;
    Refill();
    Grant();
  }
  // One waiter must be the timekeeper.
  if (!has_timekeeper_) {
    std::deque<Waiter*>* const queue = NextQueue();
    if (queue != nullptr) queue->front()->wake.Signal();
  }
}

double TokenBucket::Wanted(const Waiter& waiter) const {
  // The rate may have been lowered since the piece was cut.
  return static_cast<double>(std::min(waiter.bytes, capacity_bytes_));
}

uint64_t TokenBucket::MicrosUntil(double bytes) const {
  if (bytes <= available_bytes_) return 0;
  return 1 +
         static_cast<uint64_t>((bytes - available_bytes_) * kMicrosPerSecond /
                               static_cast<double>(bytes_per_second_));
}

void TokenBucket::Refill() {
  const uint64_t now_us = clock_->NowMicros();
  const uint64_t passed_us = now_us - std::min(now_us, refilled_us_);
  refilled_us_ = now_us;
  available_bytes_ =
      std::min(available_bytes_ + BytesIn(bytes_per_second_, passed_us),
               static_cast<double>(capacity_bytes_));
}

std::deque<TokenBucket::Waiter*>* TokenBucket::NextQueue() {
  auto* const low = &queues_[IndexOf(Priority::kLow)];
  auto* const high = &queues_[IndexOf(Priority::kHigh)];
  if (low->empty()) return high->empty() ? nullptr : high;
  return high->empty() || turn_ % fairness_ == fairness_ - 1 ? low : high;
}

void TokenBucket::Grant() {
  while (std::deque<Waiter*>* const queue = NextQueue()) {
    Waiter* const waiter = queue->front();
    const double bytes = Wanted(*waiter);
    if (bytes > available_bytes_) return;
    available_bytes_ -= bytes;
    queue->pop_front();
    ++turn_;
    waiter->granted = true;
    waiter->wake.Signal();
  }
}

std::shared_ptr<RateLimiter> NewGenericRateLimiter(uint64_t bytes_per_second,
                                                   uint64_t refill_period_us,
                                                   uint32_t fairness) {
  return std::make_shared<TokenBucket>(bytes_per_second, refill_period_us,
                                       fairness,
                                       std::make_unique<SteadyClock>());
}

}  // namespace varve
