// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Starts the threads of all pools of the process from one thread, which waits
// for that. On Linux a new thread inherits nice value, I/O priority, scheduling
// policy, affinity and timer slack from the thread that creates it. A pool
// starts a thread when a job needs one, and any thread may schedule the job: a
// compaction at low priority, or a thread that the program has made nice. A
// thread cannot regain a priority without a privilege. So the starting thread
// is created when a database is opened, by the thread that opens it.
// Thread-safety: thread-safe.

#include <pthread.h>

#include <cstdint>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"

namespace varve {

class ThreadStarter final : private ForkWatch {
 public:
  // The process's.
  static ThreadStarter& Get();

  ThreadStarter() = default;
  ThreadStarter(const ThreadStarter&) = delete;
  ThreadStarter& operator=(const ThreadStarter&) = delete;

  // From now on threads inherit from the calling thread. Does nothing if they
  // inherit from a thread of the same or a better nice value, or if no thread
  // can be created.
  void InheritFromThisThread() VARVE_EXCLUDES(mu_);

  // Creates a thread as StartBackgroundThread does, and waits until it is
  // created. Returns 0 or the errno. Before InheritFromThisThread, and in a
  // forked child until it is called again, the thread inherits from the caller.
  int Start(pthread_t* thread, void* (*run)(void*), void* argument)
      VARVE_EXCLUDES(mu_);

  // Returns a number that grows when threads inherit from another thread from
  // now on.
  uint64_t Generation() VARVE_EXCLUDES(mu_);

 private:
  struct Request {
    pthread_t* thread;
    void* (*run)(void*);
    void* argument;
    int error = 0;
    bool is_done = false;
  };

  static void* ThreadMain(void* starter);
  void InForkedChild() override;
  void Run() VARVE_EXCLUDES(mu_);

  Mutex mu_;
  CondVar request_cv_;  // request_ was set, or generation_ has changed.
  CondVar done_cv_;     // A request is done.
  Request* request_ VARVE_GUARDED_BY(mu_) = nullptr;
  // 0 if there is no starting thread. A starting thread of an older generation
  // ends.
  uint64_t generation_ VARVE_GUARDED_BY(mu_) = 0;
  int nice_ VARVE_GUARDED_BY(mu_) = 0;  // The starting thread's.
  Registration fork_watch_{this};       // Last: see ForkWatch.
};

}  // namespace varve
