// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/locks/lock_parking.h"

#include "util/base/futex.h"

namespace varve {

uint64_t LockParking::NowNanos() { return env_->NowNanos(); }

int64_t LockParking::NowSeconds() {
  // The date of a deadlock, for reports.
  return static_cast<int64_t>(env_->NowMicros() / 1000000);
}

void LockParking::Sleep(std::atomic<uint32_t>* word, uint64_t wake_at_ns,
                        bool for_long) {
  uint64_t deadline_ns = kNever;
  if (wake_at_ns < kNever / 2) {
    // The futex has a clock of its own.
    const uint64_t now_ns = NowNanos();
    if (now_ns >= wake_at_ns) return;
    deadline_ns = FutexClockNanos() + (wake_at_ns - now_ns);
  }
  AwaitChange(word, kAwake, kAsleep, for_long, deadline_ns);
}

void LockParking::Wake(std::atomic<uint32_t>* word) { FutexWake(word); }

}  // namespace varve
