// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What was written to some keys of a database by batches that are numbered, and
// which of them a reader may find.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace varve::test {

// Thread-safe; batches are written by one thread at a time.
class Lane {
 public:
  static constexpr int kKeys = 24;
  // The number of the batch that set each key; 0 if none did since a deletion.
  using State = std::array<uint32_t, kKeys>;

  // What the newest batch that was acknowledged has left.
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
  // False: it was refused, and yet seen.
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
  // An opening must find this number, or a later one.
  void RaiseMinimum(size_t number) {
    const std::lock_guard<std::mutex> lock(mu_);
    minimum_ = std::max(minimum_, number);
  }

  // Whether readers may find this number: it will not be refused then.
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
  // Whether an opening may: of those that were refused the last one, if none
  // was acknowledged since and it may be in the log.
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
  // How many that were acknowledged are gone.
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
  // By number; 0 is before the first.
  std::vector<Batch> history_{Batch()};
  size_t acknowledged_ = 0;  // The newest that was.
  size_t minimum_ = 0;
  size_t seen_ = 0;
};

}  // namespace varve::test
