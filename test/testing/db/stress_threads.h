// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Threads that use a database for VARVE_STRESS_SECONDS, and values by which
// they judge what they see.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"

namespace varve::test {

// "<key>:<count>:" and as many x as the count says.
inline std::string Value(const std::string& key, int count) {
  return key + ":" + std::to_string(count) + ":" +
         std::string(static_cast<size_t>(count % 100), 'x');
}
// Returns the count, or -1 if the value is none that Value(key, count) returns.
inline int CountIn(const std::string& key, const Slice& value) {
  const std::string text = value.ToString();
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return -1;
  const int count = atoi(text.c_str() + colon + 1);
  return text == Value(key, count) ? count : -1;
}

class StressTestBase : public DbTestBase {
 protected:
  void SetUp() override {
    seed_ = TestSeed();
    end_ = std::chrono::steady_clock::now() +
           std::chrono::milliseconds(1000 *
                                     EnvironmentInt("VARVE_STRESS_SECONDS", 2));
  }

  // Until time is up or a test has failed.
  bool GoesOn() const {
    return std::chrono::steady_clock::now() < end_ && !HasFailure();
  }
  void Start(std::function<void(Rng*)> body) {
    const uint64_t seed = seed_ + threads_.size() + 1;
    threads_.emplace_back([this, body = std::move(body), seed] {
      Rng rng(seed);
      while (GoesOn()) body(&rng);
    });
  }
  void JoinAll() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  uint64_t seed_ = 0;
  std::chrono::steady_clock::time_point end_;
  std::vector<std::thread> threads_;
};

}  // namespace varve::test
