// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A pool of threads that run jobs in the order in which they were scheduled.
// Threads are started only when a job finds none idle, up to a limit that may
// grow. They inherit nothing from the thread that schedules the job: see
// util/threads/thread_starter.h. Once new threads would have a better priority,
// they take the place of the old ones, which end after their job.
// Thread-safety: thread-safe, but for the destructor.

#include <pthread.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"
#include "varve/status.h"

namespace varve {

struct ThreadPoolOptions {
  // Threads are called "<name>0", "<name>1", ...; the kernel keeps 15 bytes.
  std::string name = "varve:low";
  // Lets other threads of the machine go first, by a nice value that is 10
  // higher.
  bool lower_cpu_priority = false;
};

// A forked child starts with an empty pool: the parent's waiting jobs do not
// run in it, and new jobs start new threads.
class ThreadPool final : private ForkWatch {
 public:
  // Allows at most one thread until SetThreads. Starts none.
  explicit ThreadPool(ThreadPoolOptions options = {});
  // Does EndThreads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Allows up to `count` threads. A count below the present limit does
  // nothing: several users of one pool each ask for what they need.
  void SetThreads(int count) VARVE_EXCLUDES(mu_);

  // Queues `job`; never waits for it. A job must not throw.
  // IOError, and the job is dropped, only if the pool has no thread at all and
  // the system refuses to start one.
  Status Schedule(std::function<void()> job) VARVE_EXCLUDES(mu_);

  // Runs all queued jobs, and the jobs that these schedule, then ends the
  // threads. A later job starts a thread again. REQUIRES: not called from a job
  // of this pool, nor by two threads at once.
  void EndThreads() VARVE_EXCLUDES(mu_);

  // Returns the number of waiting jobs, without the running ones.
  size_t TEST_QueueLength() const VARVE_EXCLUDES(mu_);

  // Returns once no job waits or runs. Jobs scheduled during the call prolong
  // it. REQUIRES: not called from a job of this pool.
  void WaitForIdle() VARVE_EXCLUDES(mu_);

 private:
  static void* ThreadMain(void* pool);
  void InForkedChild() override;
  // After InForkedChild, where memory must not be allocated.
  void DropInheritedJobs() VARVE_REQUIRES(mu_);
  void Run() VARVE_EXCLUDES(mu_);
  // Releases the mutex and reacquires it.
  void JoinEndedThread() VARVE_REQUIRES(mu_);
  // Returns false on a thread that has been replaced.
  bool IsOnNewThread() const VARVE_REQUIRES(mu_);
  // Replaces the threads if the ThreadStarter has a better priority now.
  void RenewThreads() VARVE_REQUIRES(mu_);
  void PrepareThread(size_t thread_index) const;
  // Returns 0, or the errno of the attempt.
  int StartThread() VARVE_REQUIRES(mu_);

  // Immutable after construction.
  const ThreadPoolOptions options_;

  // Guarded by mu_.
  mutable Mutex mu_;
  // A job was queued, or stopping_, threads_ or ended_threads_ has changed.
  CondVar work_cv_;
  CondVar idle_cv_;  // The last job ended.
  std::deque<std::function<void()>> queue_ VARVE_GUARDED_BY(mu_);
  std::vector<pthread_t> threads_ VARVE_GUARDED_BY(mu_);
  // Replaced threads that still run a job, and those that are to be joined.
  std::vector<pthread_t> replaced_threads_ VARVE_GUARDED_BY(mu_);
  std::vector<pthread_t> ended_threads_ VARVE_GUARDED_BY(mu_);
  uint64_t generation_ VARVE_GUARDED_BY(mu_) = 0;  // The ThreadStarter's.
  size_t max_threads_ VARVE_GUARDED_BY(mu_) = 1;
  size_t entered_threads_ VARVE_GUARDED_BY(mu_) = 0;  // Numbers the threads.
  size_t running_jobs_ VARVE_GUARDED_BY(mu_) = 0;
  bool stopping_ VARVE_GUARDED_BY(mu_) = false;
  bool is_inherited_ VARVE_GUARDED_BY(mu_) = false;  // The queue is.
  Registration fork_watch_{this};                    // Last: see ForkWatch.
};

}  // namespace varve
