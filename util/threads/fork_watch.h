// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Objects that must know that they are in a child created by fork(). Only the
// thread that called fork() exists in the child. Threads that an object relies
// on are absent, mutexes that they held stay locked, and condition variables on
// which they waited count them forever.
//
// A child that executes another program at once pays a few instructions for
// each watcher, and no system call.
//
// Thread-safety: thread-safe.

#include <new>

#include "util/base/mutex.h"

namespace varve {

class ForkWatch {
 public:
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;

 protected:
  // An object has one as its last member: it is watched only while all of it
  // exists, however another thread's fork() falls into its construction or
  // destruction. The destructor works in a child as well.
  class Registration {
   public:
    explicit Registration(ForkWatch* watch);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    friend class ForkWatchList;

    ForkWatch* const watch_;
    Registration* previous_ = nullptr;
    Registration* next_ = nullptr;
  };

  ForkWatch() = default;
  ~ForkWatch() = default;

  // Called in the child, by its only thread, before fork() returns there.
  // REQUIRES: it creates and destroys no ForkWatch, and relies on no order of
  // the calls for several objects.
  virtual void InForkedChild() = 0;

  // For InForkedChild: unlocks a mutex that was held by a thread that no longer
  // exists. Returns true if the mutex was free, so that the data it guards are
  // consistent. No other thread can access them, so the analysis of locks takes
  // the mutex for held from here on. (It cannot know of the fork.)
  static bool MakeFree(Mutex* mu)
      VARVE_ASSERT_HELD(mu) VARVE_NO_THREAD_SAFETY_ANALYSIS {
    if (mu->TryLock()) {
      mu->Unlock();
      return true;
    }
    new (mu) Mutex;
    return false;
  }
  // Resets a condition variable that counts waiters which no longer exist.
  static void MakeFree(CondVar* changed) { new (changed) CondVar; }

 private:
  friend class ForkWatchList;
};

}  // namespace varve
