// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Objects that have to know that they are in a child made by fork(). Of all
// threads only the one that called fork() exists there: threads that an object
// relies on do not, mutexes that they held stay locked, and condition variables
// that they waited for count them for ever.
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
  ForkWatch();
  // In a child as well.
  virtual ~ForkWatch();

  // Called in the child, by its only thread, before fork() returns there. In
  // the order of construction. REQUIRES: it creates and destroys no ForkWatch.
  virtual void InForkedChild() = 0;

  // For InForkedChild: makes the mutex free if a thread held it that is no
  // more, and returns whether it was free, so that what it guards is whole.
  static bool MakeFree(Mutex* mu) VARVE_NO_THREAD_SAFETY_ANALYSIS {
    if (mu->TryLock()) {
      mu->Unlock();
      return true;
    }
    new (mu) Mutex;
    return false;
  }
  // The same of threads that wait.
  static void MakeFree(CondVar* changed) { new (changed) CondVar; }

 private:
  friend class ForkWatchList;

  ForkWatch* previous_ = nullptr;
  ForkWatch* next_ = nullptr;
};

}  // namespace varve
