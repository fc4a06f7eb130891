// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The jobs of one database on the threads of its Env: which are queued, which
// run, and what waits for their end.
//
// A job is queued until a thread begins it, and then runs until its
// FinishLocked. Jobs of other databases may be ahead of it for a long time, so
// a job that is still queued when its database closes is dropped: it does
// nothing and touches nothing of the database, which may have been freed. The
// gate, which outlives the database, ensures this. A job takes the gate, then
// the DB mutex, and is counted as running before it releases either. Once the
// gate is closed, no further job begins.
//
// Thread-safety: guarded by the DB mutex, but for is_stopping.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

enum class JobKind : uint8_t { kFlush, kCompaction, kPurge };

class BackgroundScheduler final : private ForkWatch {
 public:
  // `mutex` is the DB's.
  BackgroundScheduler(Env* env, Mutex* mutex) : env_(env), mutex_(mutex) {}

  // Queues job(), which a thread calls without the mutex, and which ends by
  // FinishLocked. An error: no thread is to be had.
  Status ScheduleLocked(JobKind kind, std::function<void()> job);
  // A job of the kind has ended.
  void FinishLocked(JobKind kind);
  // Drops the queued jobs. Releases the mutex and reacquires it.
  void DropQueuedLocked();

  // Of a kind, and of all.
  int QueuedLocked(JobKind kind) const { return CountsOf(kind).queued; }
  int JobsLocked(JobKind kind) const {
    return CountsOf(kind).queued + CountsOf(kind).running;
  }
  int JobsLocked() const;
  bool AnyRunsLocked() const;

  // Waits until a job ends, or somebody says by SignalLocked that there is
  // something else to look at. Gives the mutex back meanwhile.
  void WaitLocked();
  // The same, for duration_us at most. Returns false when the time is over.
  bool WaitForLocked(uint64_t duration_us);
  void SignalLocked() { changed_.SignalAll(); }

  // No job begins any more, and those that run are to end soon. Jobs look at it
  // now and then. relaxed everywhere: stored under the mutex; who sees it late
  // does a little more in vain.
  void StopLocked() {
    stopping_.store(true, std::memory_order_relaxed);  // relaxed: as above.
    SignalLocked();
  }
  // Lets jobs begin again after StopLocked.
  void GoOnLocked() {
    stopping_.store(false, std::memory_order_relaxed);  // relaxed: as above.
  }
  bool is_stopping() const {
    return stopping_.load(std::memory_order_relaxed);  // relaxed: as above.
  }
  // The same, for what takes an atomic.
  const std::atomic<bool>* stop_flag() const { return &stopping_; }

  // In a child made by fork(): the threads that would run the jobs do not exist
  // here.
  void ForgetJobsLocked() { counts_ = {}; }

 private:
  void InForkedChild() override;

  struct Counts {
    int queued = 0;
    int running = 0;
  };
  struct Gate {
    Mutex mutex;
    bool closed = false;
  };

  Counts& CountsOf(JobKind kind) { return counts_[static_cast<size_t>(kind)]; }
  const Counts& CountsOf(JobKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }

  Env* const env_;
  Mutex* const mutex_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::array<Counts, 3> counts_;
  CondVar changed_;
  std::atomic<bool> stopping_{false};
};

}  // namespace varve
