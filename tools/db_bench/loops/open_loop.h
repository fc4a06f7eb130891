// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of openloop, without a clock, for its loop and its test. All times
// are nanoseconds from the start of a thread.

#include <cstdint>

#include "monitoring/histogram.h"

namespace varve {

// When the operations of a thread are due: those of all threads together at
// equal distances, and the threads in turn.
class OpenLoopSchedule {
 public:
  // REQUIRES: 0 < rate <= 10^9, 0 <= index < threads.
  OpenLoopSchedule(uint64_t rate, int threads, int index)
      : rate_(rate),
        threads_(static_cast<uint64_t>(threads)),
        index_(static_cast<uint64_t>(index)) {}

  // Returns when operation number `i` of the thread is due.
  uint64_t DueAt(uint64_t i) const {
    const uint64_t number = i * threads_ + index_;
    // In two parts, so that the product does not overflow.
    return number / rate_ * kSecond + number % rate_ * kSecond / rate_;
  }
  // Returns how many operations of the thread are due before `seconds` end.
  uint64_t CountWithin(uint64_t seconds) const {
    const uint64_t all = seconds * rate_;
    return all <= index_ ? 0 : (all - index_ - 1) / threads_ + 1;
  }

 private:
  static constexpr uint64_t kSecond = 1000000000;

  const uint64_t rate_;
  const uint64_t threads_;
  const uint64_t index_;
};

// How long before it is due a thread stops to sleep. The kernel wakes threads
// up to 0.1 ms late, which would be part of the latency.
constexpr uint64_t kSpinNs = 200000;

// Waits until `due`. `time` has Now(), Sleep(nanoseconds) and Pause(), which
// takes an instant.
template <typename Time>
void WaitUntilDue(uint64_t due, Time* time) {
  for (;;) {
    const uint64_t now = time->Now();
    if (now >= due) return;
    if (due - now > 2 * kSpinNs) {
      time->Sleep(due - now - kSpinNs);
    } else {
      time->Pause();
    }
  }
}

// Does `operations` of a schedule. `prepare` is called before an operation is
// due, and `operation` then. It returns the histogram to count the latency in,
// or null to end. An operation that is late is done at once. Its latency counts
// from when it was due, so that it has the delay that those before it caused.
// Returns the number of operations done.
template <typename Time, typename Prepare, typename Operation>
uint64_t RunOpenLoop(const OpenLoopSchedule& schedule, uint64_t operations,
                     Time* time, Prepare prepare, Operation operation) {
  for (uint64_t i = 0; i < operations; ++i) {
    prepare();
    const uint64_t due = schedule.DueAt(i);
    WaitUntilDue(due, time);
    Histogram* const latency_ns = operation();
    if (latency_ns == nullptr) return i;
    latency_ns->Add(time->Now() - due);
  }
  return operations;
}

}  // namespace varve
