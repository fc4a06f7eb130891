// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database's directory. A sync by one job makes durable the names that other
// jobs rely on. The kernel reports a failed sync to one caller only: it then
// treats as written what it could not write, and the next sync succeeds without
// the lost names. So here a failure is reported to every caller until Forgive.

#include <memory>
#include <utility>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"

namespace varve {

// Thread-safety: thread-safe.
class SharedDirectory final : public Directory {
 public:
  explicit SharedDirectory(std::unique_ptr<Directory> target)
      : target_(std::move(target)) {}

  // One at a time: else one of two could return OK while the failure is
  // reported to the other.
  Status Sync() override {
    MutexLock sync_lock(&sync_mutex_);
    Status status = failure();
    if (status.ok()) status = target_->Sync();
    MutexLock lock(&mutex_);
    failure_ = status;
    return status;
  }

  // Returns what syncs return from now on, if it is an error. Does not wait for
  // a sync.
  Status failure() {
    MutexLock lock(&mutex_);
    return failure_;
  }

  // Lets syncs be tried again. Returns whether one had failed: names from
  // before it that were not durable yet may never be.
  bool Forgive() {
    MutexLock sync_lock(&sync_mutex_);
    MutexLock lock(&mutex_);
    const bool had_failed = !failure_.ok();
    failure_ = Status::OK();
    return had_failed;
  }

 private:
  const std::unique_ptr<Directory> target_;
  Mutex sync_mutex_;  // Held during a sync. Taken before mutex_.
  Mutex mutex_;       // Never held during I/O.
  Status failure_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
