// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/background_scheduler.h"

#include <utility>

namespace varve {

Status BackgroundScheduler::ScheduleLocked(JobKind kind,
                                           std::function<void()> job,
                                           bool urgent) {
  auto run = [this, kind, flag = shutdown_flag_, job = std::move(job)] {
    {
      MutexLock flag_lock(&flag->mutex);
      if (flag->closed) return;  // There may be no database any more.
      MutexLock lock(mutex());
      --CountsOf(kind).queued;
      ++CountsOf(kind).running;
    }
    job();
  };
  // Compactions must not delay short jobs.
  Env::Priority priority = Env::Priority::kHigh;
  if (kind == JobKind::kCompaction) {
    priority = urgent ? Env::Priority::kMedium : Env::Priority::kLow;
  }
  Status status = env_->Schedule(std::move(run), priority);
  if (status.ok()) ++CountsOf(kind).queued;
  return status;
}

void BackgroundScheduler::FinishLocked(JobKind kind) {
  --CountsOf(kind).running;
  SignalLocked();
}

// The analysis cannot tell that mutex_ is the DB's, here and below.
void BackgroundScheduler::DropQueuedLocked() {
  mutex()->Unlock();
  shutdown_flag_->mutex.Lock();
  shutdown_flag_->closed = true;
  shutdown_flag_->mutex.Unlock();
  mutex()->Lock();
  for (Counts& counts : counts_) counts.queued = 0;
  SignalLocked();
}

int BackgroundScheduler::JobsLocked() const {
  int sum = 0;
  for (const Counts& counts : counts_) sum += counts.queued + counts.running;
  return sum;
}

bool BackgroundScheduler::AnyRunsLocked() const {
  for (const Counts& counts : counts_) {
    if (counts.running > 0) return true;
  }
  return false;
}

void BackgroundScheduler::WaitLocked() { changed_.Wait(mutex()); }

bool BackgroundScheduler::WaitForLocked(uint64_t duration_us) {
  return changed_.WaitFor(mutex(), duration_us);
}

void BackgroundScheduler::InForkedChild() {
  MakeFree(&changed_);
  MakeFree(&shutdown_flag_->mutex);
}

}  // namespace varve
