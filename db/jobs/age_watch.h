// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A thread that starts the compactions which tables get due for by their age
// alone (`ttl` and `periodic_compaction_seconds`), so that an idle database has
// them too. It runs only while such an option is set. Ages are by the wall
// clock, which may be corrected at any time, and is looked at every few minutes
// at least. No job wakes the thread: it sleeps no longer than a new table takes
// to get due. So it hardly ever holds the mutex, and the database can go on in
// a child created by fork(). Thread-safety: guarded by the DB mutex.

#include <cstdint>
#include <functional>
#include <utility>

#include "db/jobs/background_scheduler.h"
#include "db/options/db_mutex.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_pool.h"
#include "varve/env.h"

namespace varve {

class AgeWatch final : private ForkWatch {
 public:
  // All are called with the DB mutex held.
  struct Owner {
    // Returns the seconds after which a new table can get due at first. 0 if
    // the thread is not wanted.
    std::function<uint64_t()> shortest_age_s;
    // Returns when the first table gets due, in seconds since 1970, and
    // UINT64_MAX if none will be.
    std::function<uint64_t()> next_due_s;
    // Called when a table is due, and again after a second if it still is.
    std::function<void()> act;
  };

  // `mutex` is the DB's. All must outlive this object. `step_us`: how often it
  // looks at the clock at least.
  AgeWatch(Env* env, Mutex* mutex, BackgroundScheduler* scheduler,
           uint64_t step_us, Owner owner)
      : env_(env),
        mutex_(mutex),
        scheduler_(scheduler),
        step_us_(step_us),
        owner_(std::move(owner)) {}
  AgeWatch(const AgeWatch&) = delete;
  AgeWatch& operator=(const AgeWatch&) = delete;

  // Starts the thread if it is wanted. If it runs, lets it see that its owner's
  // answers have changed. If no thread can be created, tables that are due wait
  // for the next job.
  void StartLocked() VARVE_REQUIRES(kDbMutex);
  // Call it after the scheduler was stopped.
  void SignalLocked() VARVE_REQUIRES(kDbMutex) { changed_.SignalAll(); }
  // Returns true until the thread is not wanted any more or the scheduler
  // stops. The scheduler signals its end.
  bool is_running() const { return is_running_; }
  // Waits for the thread's end. REQUIRES: the scheduler has stopped; the mutex
  // is not held.
  void EndThread() { pool_.EndThreads(); }
  // After fork() the thread exists in the parent process only.
  void ForgetLocked() VARVE_REQUIRES(kDbMutex) { is_running_ = false; }

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  void InForkedChild() override;
  void Run();
  // Returns true when a table is due, and false if the thread is to end. May
  // release the mutex and reacquire it.
  bool AwaitDueLocked(uint64_t least_us) VARVE_REQUIRES(kDbMutex);

  Env* const env_;
  Mutex* const mutex_;  // The DB's.
  BackgroundScheduler* const scheduler_;
  const uint64_t step_us_;
  const Owner owner_;
  CondVar changed_;
  bool is_running_ = false;
  // A pool of its own, as for AutoResume.
  ThreadPool pool_{{.name = "varve:age"}};
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

}  // namespace varve
