// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An error that is kept: the first of those that any threads report.
//
// The status is written once, with the mutex, before failed_ is stored, and is
// only read by threads that have read true from failed_. So a release store and
// an acquire load order the two, and reading takes no mutex.
//
// Thread-safety: any thread may call any function.

#include <atomic>

#include "util/base/mutex.h"
#include "varve/status.h"

namespace varve {

class FirstError {
 public:
  // Keeps the status if it is an error and the first one.
  void Set(const Status& status) {
    if (status.ok()) return;
    const MutexLock lock(&mutex_);
    // relaxed: it is stored with the mutex.
    if (failed_.load(std::memory_order_relaxed)) return;
    status_ = status;
    // release: pairs with failed().
    failed_.store(true, std::memory_order_release);
  }
  bool failed() const {
    // acquire: pairs with Set.
    return failed_.load(std::memory_order_acquire);
  }
  // Returns the first error, or OK if there was none.
  Status status() const { return failed() ? status_ : Status::OK(); }

 private:
  std::atomic<bool> failed_ = false;
  Mutex mutex_;  // Of the writers of status_.
  Status status_;
};

}  // namespace varve
