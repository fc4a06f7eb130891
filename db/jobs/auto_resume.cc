// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/auto_resume.h"

#include <algorithm>

#include "env/stopwatch.h"

namespace varve {

namespace {

constexpr uint64_t kMinWaitUs = 100 * 1000;
constexpr uint64_t kMaxWaitUs = 2 * 1000 * 1000;

}  // namespace

void AutoResume::StartLocked() {
  if (is_running_) return;
  is_running_ = pool_.Schedule([this] { Run(); }).ok();
}

// The analysis cannot tell that the mutex is the DB's, here and below.
void AutoResume::Run() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  mutex_->Lock();
  for (uint64_t wait_us = kMinWaitUs; AwaitLocked(wait_us);
       wait_us = std::min(2 * wait_us, kMaxWaitUs)) {
    mutex_->Unlock();
    attempt_();
    mutex_->Lock();
  }
  is_running_ = false;
  scheduler_->SignalLocked();
  mutex_->Unlock();
}

bool AutoResume::AwaitLocked(uint64_t wait_us) {
  obsolete_->ForgetRemovedLocked();
  const Stopwatch waiting(env_);
  for (;;) {
    if (scheduler_->is_stopping() || !is_needed_()) return false;
    // Does not run at once, since a failed attempt may have left the files.
    if (obsolete_->has_removed()) wait_us = kMinWaitUs;
    const uint64_t waited_us = waiting.ElapsedMicros();
    if (waited_us >= wait_us) return true;
    scheduler_->WaitForLocked(wait_us - waited_us);
  }
}

}  // namespace varve
