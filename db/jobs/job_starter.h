// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Has the jobs scheduled that are due, on the threads of the Env, and removes
// obsolete files. A database that is closing, read-only, or another process's
// has no jobs. Thread-safety: guarded by the DB mutex.

#include <functional>

#include "db/jobs/background_scheduler.h"
#include "db/jobs/job_picker.h"
#include "db/jobs/obsolete_files.h"
#include "db/jobs/write_control.h"
#include "util/base/mutex.h"

namespace varve {

class JobStarter {
 public:
  // Parts of the database. All must outlive this object.
  struct Parts {
    const Options* options;
    WriteControl* control;
    const JobPicker* picker;
    ObsoleteFiles* obsolete;
    BackgroundScheduler* scheduler;
    Mutex* mutex;  // The DB's.
    bool is_read_only;
  };
  // The jobs. A thread calls them without the mutex. Each ends by
  // BackgroundScheduler::FinishLocked.
  struct Jobs {
    std::function<void()> flush;
    std::function<void()> compact;
    std::function<void()> clean_up;
  };

  JobStarter(const Parts& parts, Jobs jobs)
      : parts_(parts), jobs_(std::move(jobs)) {}
  JobStarter(const JobStarter&) = delete;
  JobStarter& operator=(const JobStarter&) = delete;

  // Schedules the jobs that are due. Call it after each event that may make a
  // job due.
  void StartDueLocked();
  // For readers, without the mutex: does StartDueLocked, unless another thread
  // has the mutex. Its holder or the next caller does so then.
  void TryStartDue();

  // Removes what is obsolete. May release the mutex and reacquire it.
  void PurgeLocked();
  // Lets another thread call PurgeLocked if there is something to remove.
  void PurgeLaterLocked();

 private:
  // Sets an error if no thread can be started.
  void ScheduleLocked(JobKind kind, const std::function<void()>& job,
                      bool urgent = false);

  const Parts parts_;
  const Jobs jobs_;
};

}  // namespace varve
