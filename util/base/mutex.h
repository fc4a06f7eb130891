// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The mutex and the condition variable of the whole library, with Clang's
// thread-safety annotations. A mutex knows its owner.

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <thread>

#include "util/base/check.h"
#include "util/base/thread_annotations.h"

namespace varve {

// Not recursive. The thread that locked it must unlock it.
class VARVE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() VARVE_ACQUIRE() {
    mu_.lock();
    SetOwner(std::this_thread::get_id());
  }
  // Returns false at once if another thread holds it. The caller must not hold
  // it.
  bool TryLock() VARVE_TRY_ACQUIRE(true) {
    if (!mu_.try_lock()) return false;
    SetOwner(std::this_thread::get_id());
    return true;
  }
  void Unlock() VARVE_RELEASE() {
    SetOwner(std::thread::id());
    mu_.unlock();
  }
  // In a debug build, stops the program unless the calling thread holds this.
  void AssertHeld() const VARVE_ASSERT_HELD() {
    // relaxed: a thread always sees its own store, and no other thread stores
    // this thread's id.
    VARVE_DCHECK(owner_.load(std::memory_order_relaxed) ==
                 std::this_thread::get_id());
  }

 private:
  friend class CondVar;

  void SetOwner(std::thread::id id) {
    // relaxed: see AssertHeld. Kept in release builds too, so that the layout
    // and the protocol do not depend on how a file was compiled.
    owner_.store(id, std::memory_order_relaxed);
  }

  std::mutex mu_;
  std::atomic<std::thread::id> owner_;
};

// Holds a mutex from construction to the end of the scope. The scope may
// Unlock() and Lock() the mutex in between.
class VARVE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mu) VARVE_ACQUIRE(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() VARVE_RELEASE() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// All waiters of a CondVar use the same mutex. Waits may end spuriously: test
// the condition in a loop. Time limits use the monotonic clock. On musl,
// std::condition_variable uses the wall clock.
class CondVar {
 public:
  CondVar() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cv_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~CondVar() { pthread_cond_destroy(&cv_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mu` while it waits, and holds it again on return.
  void Wait(Mutex* mu) VARVE_REQUIRES(mu) {
    mu->SetOwner(std::thread::id());
    pthread_cond_wait(&cv_, mu->mu_.native_handle());
    mu->SetOwner(std::this_thread::get_id());
  }
  // Waits as Wait does. Returns false if `timeout_us` microseconds passed
  // without a signal.
  bool WaitFor(Mutex* mu, uint64_t timeout_us) VARVE_REQUIRES(mu) {
    // A longer time would overflow the deadline.
    constexpr uint64_t kMaxTimeoutUs = uint64_t{1} << 50;
    if (timeout_us > kMaxTimeoutUs) timeout_us = kMaxTimeoutUs;
    timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += static_cast<time_t>(timeout_us / 1000000);
    deadline.tv_nsec += static_cast<long>(timeout_us % 1000000 * 1000);
    if (deadline.tv_nsec >= 1000000000) {
      deadline.tv_nsec -= 1000000000;
      ++deadline.tv_sec;
    }
    mu->SetOwner(std::thread::id());
    const int error =
        pthread_cond_timedwait(&cv_, mu->mu_.native_handle(), &deadline);
    mu->SetOwner(std::this_thread::get_id());
    return error == 0;
  }
  // Wakes one waiter, or all. The mutex need not be held.
  void Signal() { pthread_cond_signal(&cv_); }
  void SignalAll() { pthread_cond_broadcast(&cv_); }

 private:
  pthread_cond_t cv_;
};

}  // namespace varve
