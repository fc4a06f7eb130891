// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A thread that waits until nothing was written to a database for a time. It
// runs only while its owner has something to do then. Thread-safety: guarded by
// the DB mutex.

#include <cstdint>
#include <functional>
#include <utility>

#include "db/jobs/background_scheduler.h"
#include "db/options/db_mutex.h"
#include "util/base/mutex.h"
#include "util/threads/thread_pool.h"
#include "varve/env.h"

namespace varve {

class QuietWatch {
 public:
  struct Owner {
    // Called with the DB mutex held.
    std::function<bool()> is_wanted;
    // Returns a number that each write changes. Called with the DB mutex held.
    std::function<uint64_t()> writes;
    // Called without the DB mutex when it is quiet. The thread ends after it.
    std::function<void()> act;
  };

  // `mutex` is the DB's. All must outlive this object.
  QuietWatch(Env* env, Mutex* mutex, BackgroundScheduler* scheduler,
             uint64_t quiet_us, Owner owner)
      : env_(env),
        mutex_(mutex),
        scheduler_(scheduler),
        quiet_us_(quiet_us),
        owner_(std::move(owner)) {}
  QuietWatch(const QuietWatch&) = delete;
  QuietWatch& operator=(const QuietWatch&) = delete;

  // Starts the thread if it does not run. Does nothing if no thread can be
  // created.
  void StartLocked() VARVE_REQUIRES(kDbMutex);
  // Returns true until the thread has acted, is not wanted any more, or the
  // scheduler stops. The scheduler signals its end.
  bool is_running() const { return is_running_; }
  // Waits for the thread's end. REQUIRES: the scheduler has stopped; the mutex
  // is not held.
  void EndThread() { pool_.EndThreads(); }
  // After fork() the thread exists in the parent process only.
  void ForgetLocked() VARVE_REQUIRES(kDbMutex) { is_running_ = false; }

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  void Run();
  // Returns false if the thread is not wanted any more. May release the mutex
  // and reacquire it.
  bool AwaitQuietLocked() VARVE_REQUIRES(kDbMutex);

  Env* const env_;
  Mutex* const mutex_;  // The DB's.
  BackgroundScheduler* const scheduler_;
  const uint64_t quiet_us_;
  const Owner owner_;
  bool is_running_ = false;
  // A pool of its own, as for AutoResume.
  ThreadPool pool_{{.name = "varve:quiet"}};
};

}  // namespace varve
