// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/quiet_watch.h"

#include "env/stopwatch.h"

namespace varve {

void QuietWatch::StartLocked() {
  if (is_running_) return;
  is_running_ = pool_.Schedule([this] { Run(); }).ok();
}

// The analysis cannot tell that the mutex is the DB's.
void QuietWatch::Run() {
  mutex()->Lock();
  if (AwaitQuietLocked()) {
    mutex()->Unlock();
    owner_.act();
    mutex()->Lock();
  }
  is_running_ = false;
  scheduler_->SignalLocked();
  mutex()->Unlock();
}

bool QuietWatch::AwaitQuietLocked() {
  uint64_t writes = owner_.writes();
  uint64_t since_us = MonotonicMicros(env_);
  for (;;) {
    if (scheduler_->is_stopping() || !owner_.is_wanted()) return false;
    const uint64_t now_us = MonotonicMicros(env_);
    const uint64_t writes_now = owner_.writes();
    if (writes_now != writes) {
      writes = writes_now;
      since_us = now_us;
    }
    const uint64_t waited_us = now_us - since_us;
    if (waited_us >= quiet_us_) return true;
    scheduler_->WaitForLocked(quiet_us_ - waited_us);
  }
}

}  // namespace varve
