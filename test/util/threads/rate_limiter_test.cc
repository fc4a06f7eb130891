// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the token bucket lets through exactly its rate, serves requests in
// order, high priority before low, and starves none. Method: a clock that
// advances only when the limiter waits; a few threads with the real one.

#include "util/threads/rate_limiter.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using Priority = RateLimiter::Priority;

// Waiting is what makes time pass.
class SteppedClock final : public RateLimiterClock {
 public:
  uint64_t NowMicros() override { return now_us; }
  void WaitFor(CondVar* /*wake*/, Mutex* /*mutex*/, uint64_t us) override {
    now_us += us;
  }

  uint64_t now_us = 1000;
};

class RateLimiterTest : public ::testing::Test {
 protected:
  void Make(uint64_t bytes_per_second, uint64_t period_us = 100000) {
    auto clock = std::make_unique<SteppedClock>();
    clock_ = clock.get();
    bucket_ = std::make_unique<TokenBucket>(bytes_per_second, period_us, 10,
                                            std::move(clock));
  }

  SteppedClock* clock_ = nullptr;
  std::unique_ptr<TokenBucket> bucket_;
};

TEST_F(RateLimiterTest, FullBucketIsFree) {
  Make(1000000);
  const uint64_t start_us = clock_->now_us;
  bucket_->Request(60000, Priority::kLow);
  bucket_->Request(40000, Priority::kHigh);
  EXPECT_EQ(clock_->now_us, start_us);
  EXPECT_EQ(bucket_->GetTotalBytesThrough(Priority::kLow), 60000u);
  EXPECT_EQ(bucket_->GetTotalBytesThrough(Priority::kHigh), 40000u);
  EXPECT_EQ(bucket_->GetTotalRequests(Priority::kLow), 1u);
}

TEST_F(RateLimiterTest, RateHoldsForAnySizeOfRequests) {
  for (const uint64_t size : {1u, 7u, 4096u, 99999u, 100000u, 5000000u}) {
    for (const uint64_t rate : {10000u, 999983u, 1u << 30}) {
      Make(rate);
      const uint64_t start_us = clock_->now_us;
      const uint64_t total = std::max<uint64_t>(2 * rate, size);
      uint64_t requests = 0;
      for (uint64_t done = 0; done < total && requests < 100000; done += size) {
        bucket_->Request(size, Priority::kLow);
        ++requests;
      }
      // Less what the bucket held at first.
      const double bytes =
          static_cast<double>(requests * size) - static_cast<double>(rate) / 10;
      const double expected_us = bytes * 1e6 / static_cast<double>(rate);
      const double took_us = static_cast<double>(clock_->now_us - start_us);
      if (expected_us < 0) {
        EXPECT_EQ(took_us, 0) << size << " at " << rate;
        continue;
      }
      EXPECT_NEAR(took_us, expected_us, expected_us * 0.02 + 1000)
          << size << " at " << rate;
    }
  }
}

TEST_F(RateLimiterTest, IdleTimeFillsTheBucketButOnce) {
  Make(1000000);
  bucket_->Request(100000, Priority::kLow);
  clock_->now_us += 3600000000;
  const uint64_t start_us = clock_->now_us;
  bucket_->Request(100000, Priority::kLow);
  EXPECT_EQ(clock_->now_us, start_us);
  bucket_->Request(100000, Priority::kLow);
  EXPECT_NEAR(static_cast<double>(clock_->now_us - start_us), 100000, 100);
}

TEST_F(RateLimiterTest, NewRateHoldsAtOnce) {
  Make(1000000);
  bucket_->Request(100000, Priority::kLow);
  bucket_->SetBytesPerSecond(100000);
  EXPECT_EQ(bucket_->GetBytesPerSecond(), 100000u);
  const uint64_t start_us = clock_->now_us;
  bucket_->Request(100000, Priority::kLow);
  EXPECT_NEAR(static_cast<double>(clock_->now_us - start_us), 1000000, 1000);
}

TEST_F(RateLimiterTest, TinyRatesAndClocksThatStepBackAreHarmless) {
  Make(1, 1);
  bucket_->Request(3, Priority::kHigh);
  clock_->now_us = 0;
  bucket_->Request(1, Priority::kHigh);
  EXPECT_EQ(bucket_->GetTotalBytesThrough(Priority::kHigh), 4u);
}

// The clock for threads: time passes when the test says so.
class PausedClock final : public RateLimiterClock {
 public:
  uint64_t NowMicros() override {
    // relaxed: only the number counts.
    return now_us.load(std::memory_order_relaxed);
  }
  void WaitFor(CondVar* wake, Mutex* mutex, uint64_t /*time_us*/) override
      VARVE_REQUIRES(mutex) {
    static_cast<void>(wake->WaitFor(mutex, 200));
  }

  std::atomic<uint64_t> now_us{1000};
};

TEST_F(RateLimiterTest, HighGoesFirstAndLowIsNotStarved) {
  auto owned = std::make_unique<PausedClock>();
  PausedClock* const clock = owned.get();
  // The bucket holds one request.
  TokenBucket bucket(1000, 100000, 5, std::move(owned));
  bucket.Request(100, Priority::kLow);
  std::mutex mutex;
  std::string order;
  std::vector<std::thread> threads;
  size_t waiting = 0;
  const auto start = [&](Priority priority, char name) {
    threads.emplace_back([&, priority, name] {
      bucket.Request(100, priority);
      std::lock_guard<std::mutex> lock(mutex);
      order += name;
    });
    ++waiting;
    while (bucket.TEST_WaitingCount() < waiting) std::this_thread::yield();
  };
  for (int i = 0; i < 3; ++i) start(Priority::kLow, 'l');
  for (int i = 0; i < 12; ++i) start(Priority::kHigh, 'h');
  for (size_t granted = 1; granted <= 15; ++granted) {
    clock->now_us += 100000;
    while (bucket.TEST_WaitingCount() > 15 - granted) std::this_thread::yield();
    for (size_t seen = 0; seen < granted;) {
      std::lock_guard<std::mutex> lock(mutex);
      seen = order.size();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, "hhhhlhhhhlhhhhl");
}

TEST_F(RateLimiterTest, ThreadsShareTheRealClock) {
  const auto limiter = NewGenericRateLimiter(10 << 20, 10000);
  const auto start = std::chrono::steady_clock::now();
  test::RunThreads(4, [&](int i) {
    for (int n = 0; n < 64; ++n) {
      limiter->Request(8 << 10, i % 2 == 0 ? Priority::kHigh : Priority::kLow);
    }
  });
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  // 2 MiB less the 0.1 MiB that the bucket held.
  EXPECT_GE(took.count(), 0.18);
  EXPECT_EQ(limiter->GetTotalBytesThrough(Priority::kHigh) +
                limiter->GetTotalBytesThrough(Priority::kLow),
            uint64_t{2} << 20);
}

}  // namespace
}  // namespace varve
