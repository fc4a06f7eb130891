// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/parts/age_watch.h"

#include <algorithm>

#include "env/stopwatch.h"

namespace varve {

namespace {

constexpr uint64_t kSecondUs = 1000 * 1000;

}  // namespace

void AgeWatch::StartLocked() {
  if (is_running_ || !owner_.is_wanted()) return;
  is_running_ = pool_.Schedule([this] { Run(); }).ok();
}

// The analysis cannot tell that the mutex is the DB's.
void AgeWatch::Run() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  mutex_->Lock();
  uint64_t least_us = 0;
  while (AwaitDueLocked(least_us)) {
    owner_.act();
    // A due table may have to wait for another job. Each job that ends wakes
    // this thread, and must not lead to another one at once.
    least_us = kSecondUs;
  }
  is_running_ = false;
  scheduler_->SignalLocked();
  mutex_->Unlock();
}

bool AgeWatch::AwaitDueLocked(uint64_t least_us) {
  const Stopwatch waiting(env_);
  for (;;) {
    if (scheduler_->is_stopping() || !owner_.is_wanted()) return false;
    const uint64_t due_s = owner_.next_due_s();
    // Compared with the dates of tables.
    const uint64_t now_s = env_->NowMicros() / kSecondUs;
    const uint64_t waited_us = waiting.ElapsedMicros();
    const bool is_due = due_s <= now_s;
    if (is_due && waited_us >= least_us) return true;
    uint64_t wait_us = is_due ? least_us - waited_us : step_us_;
    if (!is_due && due_s - now_s < step_us_ / kSecondUs) {
      wait_us = (due_s - now_s) * kSecondUs;
    }
    scheduler_->WaitForLocked(wait_us);
  }
}

}  // namespace varve
