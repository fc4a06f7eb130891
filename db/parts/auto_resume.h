// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The thread that tries to make a database writable again by itself, after an
// error that may pass, such as a full device. It waits 100 ms before the first
// attempt and twice as long before each further one, up to 2 s. It tries sooner
// when files were removed.
// Thread-safety: guarded by the DB mutex.

#include <cstdint>
#include <functional>
#include <utility>

#include "db/parts/background_scheduler.h"
#include "db/parts/obsolete_files.h"
#include "util/base/mutex.h"
#include "util/threads/thread_pool.h"
#include "varve/env.h"

namespace varve {

class AutoResume {
 public:
  // `mutex` is the DB's. `is_needed` is called with it, and `attempt` without.
  // All outlive this.
  AutoResume(Env* env, Mutex* mutex, BackgroundScheduler* scheduler,
             ObsoleteFiles* obsolete, std::function<bool()> is_needed,
             std::function<void()> attempt)
      : env_(env),
        mutex_(mutex),
        scheduler_(scheduler),
        obsolete_(obsolete),
        is_needed_(std::move(is_needed)),
        attempt_(std::move(attempt)) {}
  AutoResume(const AutoResume&) = delete;
  AutoResume& operator=(const AutoResume&) = delete;

  // Starts the thread if it does not run. If there is no thread to be had, the
  // user has to call DB::Resume.
  void StartLocked();
  // True until the database is closed or nothing is left to resume. The
  // scheduler's waiters are woken at the end.
  bool is_running() const { return is_running_; }

 private:
  void Run();
  // Waits until the next attempt, at most wait_us. Returns false if no further
  // attempt is needed.
  bool AwaitLocked(uint64_t wait_us);

  Env* const env_;
  Mutex* const mutex_;
  BackgroundScheduler* const scheduler_;
  ObsoleteFiles* const obsolete_;
  const std::function<bool()> is_needed_;
  const std::function<void()> attempt_;
  bool is_running_ = false;
  // Its own: the thread waits most of the time, and would keep a thread of the
  // Env from others.
  ThreadPool pool_{{.name = "varve:resume"}};
};

}  // namespace varve
