// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The thread that tries to make a database writable again after a transient
// error, such as a full device. It waits 100 ms before the first attempt. The
// delay doubles before each further attempt, up to 2 s. Removed files make it
// try sooner. Thread-safety: guarded by the DB mutex.

#include <cstdint>

#include "db/options/db_mutex.h"
#include "util/threads/thread_pool.h"

namespace varve {

struct DbCore;

class AutoResume {
 public:
  // `core` must outlive this object.
  explicit AutoResume(DbCore& core) : core_(core) {}
  AutoResume(const AutoResume&) = delete;
  AutoResume& operator=(const AutoResume&) = delete;

  // Starts the thread if it does not run. If no thread can be created, the user
  // has to call DB::Resume.
  void StartLocked() VARVE_REQUIRES(kDbMutex);
  // Returns true until the database is closed or needs no resume. The scheduler
  // signals the end of the thread.
  bool is_running() const { return is_running_; }
  // Waits for the thread's end. REQUIRES: the scheduler has stopped; the mutex
  // is not held.
  void EndThread() { pool_.EndThreads(); }

 private:
  void Run();
  // Waits for the next attempt, at most `wait_us`. Returns false if none is
  // needed. May release the mutex and reacquire it.
  bool AwaitLocked(uint64_t wait_us) VARVE_REQUIRES(kDbMutex);

  // Returns whether an error ended writes or compactions that may be over.
  bool IsNeededLocked() const VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
  bool is_running_ = false;
  // A pool of its own. The thread waits most of the time, and would block a
  // thread of the Env.
  ThreadPool pool_{{.name = "varve:resume"}};
};

}  // namespace varve
