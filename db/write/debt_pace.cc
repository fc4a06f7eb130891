// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/debt_pace.h"

#include <algorithm>
#include <cmath>

namespace varve {

namespace {

// The debt changes little in this time.
constexpr uint64_t kSampleUs = 10000;

// The time between two pauses.
constexpr double kStepUs = 500;

// Below this part of the target, the debt is no reason to do anything. The rate
// that the law allows there is far above the drain rate.
constexpr double kLeastPressure = 1.0 / 16;

// From this part of the target on, compactions are urgent.
constexpr double kBindingPressure = 1.0 / 4;

// Without a limit, the debt is looked at when it may have grown by this part of
// the target.
constexpr double kLookPart = 64;

// The write rate is an exponential average over this time.
constexpr double kWriteRateUs = 5e6;

// Bounds that keep all products finite.
constexpr double kLeastRate = 1;

}  // namespace

bool DebtPace::SampleIsDue(uint64_t now_us) const {
  return !has_sample_ || now_us < last_.now_us ||
         now_us - last_.now_us >= kSampleUs;
}

void DebtPace::AddSample(const Sample& sample) {
  // Nothing is known about the time before, or about the time between two
  // moments of a clock that was set back.
  if (has_sample_ && sample.now_us >= last_.now_us) MeasureDrain(sample);
  has_sample_ = true;
  last_ = sample;
  pressure_ = sample.target_bytes > 0
                  ? std::max(sample.debt_bytes, 0.0) / sample.target_bytes
                  : 0;
  const double drain = drain_rate_ > 0 ? drain_rate_ : sample.assumed_rate;
  if (pressure_ < kLeastPressure || drain <= 0) {
    allowed_rate_ = kUnlimited;
    return;
  }
  allowed_rate_ =
      std::max(drain / (pressure_ * pressure_ * pressure_), kLeastRate);
}

void DebtPace::MeasureDrain(const Sample& sample) {
  if (sample.draining_us <= last_.draining_us) return;
  const auto elapsed_us =
      static_cast<double>(sample.draining_us - last_.draining_us);
  // A compaction that failed takes its progress back.
  const double drained =
      std::max(sample.drained_bytes - last_.drained_bytes, 0.0);
  const double rate = drained * 1e6 / elapsed_us;
  measured_us_ += elapsed_us;
  // The time constant: how long the target takes to drain.
  const double constant_us =
      drain_rate_ > 0 ? sample.target_bytes * 1e6 / drain_rate_ : 0;
  // At first, the plain average of what was measured.
  const double weight = std::max(elapsed_us / (elapsed_us + constant_us),
                                 elapsed_us / measured_us_);
  drain_rate_ += weight * (rate - drain_rate_);
}

bool DebtPace::IsBinding() const { return pressure_ >= kBindingPressure; }

bool DebtPace::NeedsPriority(uint64_t now_us) const {
  return WriteRate(now_us) >
         std::max(drain_rate_ * kLowPriorityPart, kLeastRate);
}

double DebtPace::WriteRate(uint64_t now_us) const {
  if (now_us <= write_rate_at_us_) return write_rate_;
  const auto elapsed_us = static_cast<double>(now_us - write_rate_at_us_);
  return write_rate_ * std::exp(-elapsed_us / kWriteRateUs);
}

DebtPace::Step DebtPace::Charge(uint64_t bytes, uint64_t now_us) {
  write_rate_ =
      WriteRate(now_us) + static_cast<double>(bytes) * 1e6 / kWriteRateUs;
  write_rate_at_us_ = now_us;
  Step step;
  const auto now = static_cast<double>(now_us);
  if (allowed_rate_ >= kUnlimited) {
    free_at_us_ = now;
    step.bytes = static_cast<uint64_t>(
        std::clamp(last_.target_bytes / kLookPart, 4096.0, 1048576.0));
    return step;
  }
  free_at_us_ =
      std::clamp(free_at_us_ + static_cast<double>(bytes) * 1e6 / allowed_rate_,
                 now - kCreditUs, now + kMaxWaitUs);
  step.bytes = static_cast<uint64_t>(
      std::clamp(allowed_rate_ / 1e6 * kStepUs, 1.0, 1048576.0));
  const double wait_us = free_at_us_ - now;
  if (wait_us >= kMinPauseUs) {
    step.pause_us = std::min(static_cast<uint64_t>(wait_us), kMaxPauseUs);
  }
  return step;
}

}  // namespace varve
