// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Schedules the jobs of one database on the threads of its Env, and lets
// callers wait for their end.
//
// A job is queued until a thread begins it, and then runs until its
// FinishLocked. Jobs of other databases may delay it for long. So a job that is
// still queued when its database closes is dropped. It then does nothing and
// touches nothing of the database, which may be freed.
//
// The shutdown flag makes this safe, since it outlives the database. A job that
// begins locks the flag, then the DB mutex. It is counted as running before it
// releases either. Once the flag is set, all other jobs find it set.
//
// Thread-safety: guarded by the DB mutex, except is_stopping.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "db/options/db_mutex.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

enum class JobKind : uint8_t {
  kFlush,
  kCompaction,
  kPurge,
  kCleanup,
  kSwitch,
};

class BackgroundScheduler final : private ForkWatch {
 public:
  // `mutex` is the DB's.
  BackgroundScheduler(Env* env, Mutex* mutex) : env_(env), mutex_(mutex) {}

  // Queues job(), which a thread calls without the mutex. The job must end by
  // FinishLocked. Returns an error if no thread can be created.
  // `urgent`: whether something waits for a compaction.
  Status ScheduleLocked(JobKind kind, std::function<void()> job,
                        bool urgent = false) VARVE_REQUIRES(kDbMutex);
  // Records that a job of the kind has ended.
  void FinishLocked(JobKind kind) VARVE_REQUIRES(kDbMutex);
  // Drops the queued jobs. May release the mutex and reacquire it.
  void DropQueuedLocked() VARVE_REQUIRES(kDbMutex);

  // Return the number of jobs, of a kind or of all kinds.
  int QueuedLocked(JobKind kind) const VARVE_REQUIRES(kDbMutex) {
    return CountsOf(kind).queued;
  }
  int JobsLocked(JobKind kind) const VARVE_REQUIRES(kDbMutex) {
    return CountsOf(kind).queued + CountsOf(kind).running;
  }
  int JobsLocked() const VARVE_REQUIRES(kDbMutex);
  bool AnyRunsLocked() const VARVE_REQUIRES(kDbMutex);

  // Waits until a job ends or SignalLocked is called. May release the mutex and
  // reacquire it.
  void WaitLocked() VARVE_REQUIRES(kDbMutex);
  // Waits at most about `duration_us`. Returns false after that time.
  bool WaitForLocked(uint64_t duration_us) VARVE_REQUIRES(kDbMutex);
  void SignalLocked() VARVE_REQUIRES(kDbMutex) { changed_.SignalAll(); }

  // Prevents further jobs from beginning and asks running jobs to end soon.
  // Jobs check the flag periodically. relaxed everywhere: stored under the
  // mutex; a job that sees it late does a little more work in vain.
  void StopLocked() VARVE_REQUIRES(kDbMutex) {
    stopping_.store(true, std::memory_order_relaxed);  // relaxed: as above.
    SignalLocked();
  }
  // Reverts StopLocked.
  void GoOnLocked() VARVE_REQUIRES(kDbMutex) {
    stopping_.store(false, std::memory_order_relaxed);  // relaxed: as above.
  }
  bool is_stopping() const {
    return stopping_.load(std::memory_order_relaxed);  // relaxed: as above.
  }
  // Returns the flag of is_stopping.
  const std::atomic<bool>* stop_flag() const { return &stopping_; }

  // Forgets all jobs. After fork() their threads exist in the parent process
  // only.
  void ForgetJobsLocked() VARVE_REQUIRES(kDbMutex) { counts_ = {}; }

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  void InForkedChild() override;

  struct Counts {
    int queued = 0;
    int running = 0;
  };
  struct ShutdownFlag {
    Mutex mutex;
    bool closed = false;
  };

  Counts& CountsOf(JobKind kind) { return counts_[static_cast<size_t>(kind)]; }
  const Counts& CountsOf(JobKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }

  Env* const env_;
  Mutex* const mutex_;  // The DB's.
  const std::shared_ptr<ShutdownFlag> shutdown_flag_ =
      std::make_shared<ShutdownFlag>();
  std::array<Counts, 5> counts_;
  CondVar changed_;
  std::atomic<bool> stopping_{false};
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

}  // namespace varve
