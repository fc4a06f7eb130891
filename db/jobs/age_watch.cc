// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/age_watch.h"

#include <algorithm>

#include "env/stopwatch.h"

namespace varve {

namespace {

constexpr uint64_t kSecondUs = 1000 * 1000;

}  // namespace

void AgeWatch::StartLocked() {
  SignalLocked();
  if (is_running_ || owner_.shortest_age_s() == 0) return;
  is_running_ = pool_.Schedule([this] { Run(); }).ok();
}

// The analysis cannot tell that the mutex is the DB's.
void AgeWatch::Run() {
  mutex()->Lock();
  uint64_t least_us = 0;
  while (AwaitDueLocked(least_us)) {
    owner_.act();
    // A table that is due may have to wait for another job.
    least_us = kSecondUs;
  }
  is_running_ = false;
  scheduler_->SignalLocked();
  mutex()->Unlock();
}

bool AgeWatch::AwaitDueLocked(uint64_t least_us) {
  const Stopwatch waiting(env_);
  for (;;) {
    const uint64_t age_s = owner_.shortest_age_s();
    if (scheduler_->is_stopping() || age_s == 0) return false;
    const uint64_t due_s = owner_.next_due_s();
    // Compared with the dates of tables.
    const uint64_t now_s = env_->NowMicros() / kSecondUs;
    const uint64_t waited_us = waiting.ElapsedMicros();
    const bool is_due = due_s <= now_s;
    if (is_due && waited_us >= least_us) return true;
    uint64_t wait_us = least_us - waited_us;
    if (!is_due) {
      const uint64_t most_s = std::min(age_s, due_s - now_s);
      wait_us = most_s < step_us_ / kSecondUs ? most_s * kSecondUs : step_us_;
    }
    changed_.WaitFor(mutex(), wait_us);
  }
}

void AgeWatch::InForkedChild() { MakeFree(&changed_); }

}  // namespace varve
