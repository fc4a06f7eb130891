// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A model of a few keys that numbered batches write. It tells which of the
// batches a reader may find.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace varve::test {

// Thread-safe. One thread at a time writes batches.
class BatchStream {
 public:
  static constexpr int kKeys = 24;
  // The number of the batch that set each key. It is 0 if no batch has set the
  // key since its last deletion.
  using State = std::array<uint32_t, kKeys>;

  // Returns the state after the newest acknowledged batch.
  State Newest() {
    const std::lock_guard<std::mutex> lock(mu_);
    return history_[acknowledged_].state;
  }
  uint32_t NextNumber() {
    const std::lock_guard<std::mutex> lock(mu_);
    return static_cast<uint32_t>(history_.size());
  }
  void Begin(const State& state) {
    const std::lock_guard<std::mutex> lock(mu_);
    history_.push_back({state, Outcome::kNone});
  }
  // Returns false if the batch was refused and a reader has seen it.
  bool End(bool acknowledged) {
    const std::lock_guard<std::mutex> lock(mu_);
    const size_t number = history_.size() - 1;
    history_[number].outcome =
        acknowledged ? Outcome::kAcknowledged : Outcome::kRefused;
    if (acknowledged) acknowledged_ = number;
    return acknowledged || seen_ < number;
  }

  size_t acknowledged() {
    const std::lock_guard<std::mutex> lock(mu_);
    return acknowledged_;
  }
  // Requires that an open finds this number or a later one.
  void RaiseMinimum(size_t number) {
    const std::lock_guard<std::mutex> lock(mu_);
    minimum_ = std::max(minimum_, number);
  }

  // Returns whether readers may find this number. The batch must not be refused
  // later.
  bool See(size_t number, State* state) {
    const std::lock_guard<std::mutex> lock(mu_);
    if (number >= history_.size() ||
        history_[number].outcome == Outcome::kRefused) {
      return false;
    }
    seen_ = std::max(seen_, number);
    *state = history_[number].state;
    return true;
  }
  // Returns whether an open may find this number. A refused batch may be found
  // only if the log may contain it and no later batch was acknowledged.
  bool MayOpenAt(size_t number, bool logged, State* state) {
    const std::lock_guard<std::mutex> lock(mu_);
    if (number >= history_.size() || number < minimum_ ||
        (history_[number].outcome == Outcome::kRefused &&
         (!logged || number < acknowledged_))) {
      return false;
    }
    *state = history_[number].state;
    return true;
  }
  // Returns the number of acknowledged batches that are lost.
  uint64_t ResetTo(size_t number) {
    const std::lock_guard<std::mutex> lock(mu_);
    uint64_t lost = 0;
    for (size_t i = number + 1; i < history_.size(); ++i) {
      lost += history_[i].outcome == Outcome::kAcknowledged ? 1 : 0;
    }
    history_.resize(number + 1);
    history_[number].outcome = Outcome::kAcknowledged;
    acknowledged_ = minimum_ = seen_ = number;
    return lost;
  }
  std::string Describe() {
    const std::lock_guard<std::mutex> lock(mu_);
    return std::to_string(history_.size() - 1) + " begun, " +
           std::to_string(acknowledged_) + " acknowledged, " +
           std::to_string(minimum_) + " safe";
  }

 private:
  enum class Outcome : uint8_t { kNone, kAcknowledged, kRefused };
  struct Batch {
    State state = {};
    Outcome outcome = Outcome::kAcknowledged;
  };

  std::mutex mu_;
  // Indexed by number; 0 is the state before the first batch.
  std::vector<Batch> history_{Batch()};
  size_t acknowledged_ = 0;  // The newest acknowledged.
  size_t minimum_ = 0;
  size_t seen_ = 0;
};

}  // namespace varve::test
