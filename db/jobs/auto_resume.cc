// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/auto_resume.h"

#include <algorithm>

#include "db/family/common_errors.h"
#include "db/jobs/db_core.h"
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

void AutoResume::Run() {
  core_.mutex()->Lock();
  for (uint64_t wait_us = kMinWaitUs; AwaitLocked(wait_us);
       wait_us = std::min(2 * wait_us, kMaxWaitUs)) {
    core_.mutex()->Unlock();
    core_.calls.retry();
    core_.mutex()->Lock();
  }
  is_running_ = false;
  core_.scheduler.SignalLocked();
  core_.mutex()->Unlock();
}

bool AutoResume::IsNeededLocked() const {
  return IsTransientError(core_.control.error()) ||
         !core_.picker.GateIsOpenLocked();
}

bool AutoResume::AwaitLocked(uint64_t wait_us) {
  core_.obsolete.ForgetRemovedLocked();
  const Stopwatch waiting(core_.env);
  for (;;) {
    if (core_.scheduler.is_stopping() || !IsNeededLocked()) return false;
    // Does not run at once, since a failed attempt may have left the files.
    if (core_.obsolete.has_removed()) wait_us = kMinWaitUs;
    const uint64_t waited_us = waiting.ElapsedMicros();
    if (waited_us >= wait_us) return true;
    core_.scheduler.WaitForLocked(wait_us - waited_us);
  }
}

}  // namespace varve
