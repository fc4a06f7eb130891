// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Has the jobs scheduled that are due, on the threads of the Env, and removes
// obsolete files. A database that is closing, read-only, or another process's
// has no jobs. Thread-safety: guarded by the DB mutex.

#include <functional>

#include "db/jobs/background_scheduler.h"
#include "db/options/db_mutex.h"

namespace varve {

struct DbCore;

class JobStarter {
 public:
  // `core` must outlive this object.
  explicit JobStarter(DbCore& core) : core_(core) {}
  JobStarter(const JobStarter&) = delete;
  JobStarter& operator=(const JobStarter&) = delete;

  // Schedules the jobs that are due. Call it after each event that may make a
  // job due.
  void StartDueLocked() VARVE_REQUIRES(kDbMutex);
  // For readers, without the mutex: does StartDueLocked, unless another thread
  // has the mutex. Its holder or the next caller does so then.
  void TryStartDue();

  // Removes what is obsolete. May release the mutex and reacquire it.
  void PurgeLocked() VARVE_REQUIRES(kDbMutex);
  // Lets another thread call PurgeLocked if there is something to remove.
  void PurgeLaterLocked() VARVE_REQUIRES(kDbMutex);

 private:
  // Sets an error if no thread can be started.
  void ScheduleLocked(JobKind kind, const std::function<void()>& job,
                      bool urgent = false) VARVE_REQUIRES(kDbMutex);

  DbCore& core_;
};

}  // namespace varve
