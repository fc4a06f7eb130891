// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Paces writers by the rate at which compactions drain their debt.
//
// What is measured. The *debt* is the work that compactions have to do until no
// level exceeds its target, in bytes of user data: a byte in a deep level
// counts as the part of the remaining way down that it still has to go. See
// CompactionDebt. The *drain* is the debt that compactions have removed. Both
// follow the progress of running compactions, so neither jumps when a
// compaction ends. The *drain rate* is the drain per time that compactions ran.
// It is an exponential average over the time that it takes to drain the target
// debt.
//
// The law. With z = debt / target, writers may write
//
//   rate = drain rate / z^3.
//
// Writers that are slower than that are never delayed: a burst fills half of
// the target at eight times the drain rate. The rate has no constant of its
// own: it follows the processors, the device and the shape of the data.
//
// Stability. The debt integrates rate - drain. At z = 1 both are equal, and the
// rate falls as the debt grows, so the debt returns to the target with a third
// of the time constant target / drain rate. The average of the drain rate has
// that time constant and does not depend on the rate. If
// compactions and writers compete for processors, the drain falls as the rate
// rises, which damps further. So deviations decay without overshoot that grows.
//
// Bounds. No pause exceeds kMaxPauseUs, and no write waits longer than
// kMaxWaitUs in all, whatever the rate. Debt of time beyond kMaxWaitUs is
// forgiven, since the feedback corrects it. A writer that was held up by others
// may catch up on kCreditUs. The hard limits of ComputeWriteStall stay in force
// for writers that no pause can hold, such as those with no_slowdown.
//
// Thread-safety: guarded by the DB mutex.

#include <cstdint>

namespace varve {

class DebtPace {
 public:
  static constexpr uint64_t kMinPauseUs = 200;
  static constexpr uint64_t kMaxPauseUs = 1000;
  static constexpr uint64_t kMaxWaitUs = 50000;
  static constexpr uint64_t kCreditUs = 100000;
  // A thread that is 10 nicer gets about this part beside one that is always
  // busy (sched(7)).
  static constexpr double kLowPriorityPart = 1.0 / 10;

  // What is known at one moment. Bytes are bytes of user data.
  struct Sample {
    uint64_t now_us = 0;
    // Since the database was opened.
    double drained_bytes = 0;
    uint64_t draining_us = 0;  // The time that compactions ran.
    double debt_bytes = 0;
    double target_bytes = 0;  // 0: writers are not paced.
    // The drain rate to assume, in bytes per second, before any is measured. 0:
    // none.
    double assumed_rate = 0;
  };

  // The next step of a writer.
  struct Step {
    uint64_t pause_us = 0;  // How long to wait first.
    uint64_t bytes = 0;     // How much to write before the next call of Charge.
  };

  // Returns true if the last sample is old.
  bool SampleIsDue(uint64_t now_us) const;
  void AddSample(const Sample& sample);

  // Returns the next step after `bytes` were written. With a pause, call it
  // again afterwards with 0 bytes.
  Step Charge(uint64_t bytes, uint64_t now_us);

  // Returns whether writers may not write faster than compactions drain, or
  // hardly.
  bool IsBinding() const;
  // Returns whether writers write so fast that compactions would fall short if
  // they got only kLowPriorityPart of a processor.
  bool NeedsPriority(uint64_t now_us) const;
  // Returns the bytes per second of recent writes.
  double WriteRate(uint64_t now_us) const;
  // Return bytes per second. The allowed rate is infinite without pacing.
  double allowed_rate() const { return allowed_rate_; }
  // Returns 0 if it is not known.
  double drain_rate() const { return drain_rate_; }

 private:
  void MeasureDrain(const Sample& sample);

  Sample last_;
  bool has_sample_ = false;
  double drain_rate_ = 0;
  double measured_us_ = 0;
  double pressure_ = 0;  // z, or 0 without pacing.
  double allowed_rate_ = kUnlimited;
  double free_at_us_ = 0;
  double write_rate_ = 0;  // At write_rate_at_us_.
  uint64_t write_rate_at_us_ = 0;

  static constexpr double kUnlimited = 1e18;
};

}  // namespace varve
