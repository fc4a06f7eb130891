// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database's directory with a sticky sync error. A sync by one job makes
// names durable that other jobs rely on. The kernel reports a failed sync to
// one caller only. It then treats the lost names as written, and the next sync
// succeeds without them. So this class returns the failure from every sync
// until ClearError. ClearError is called when no job relies on names of that
// time.

#include <memory>
#include <utility>

#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"

namespace varve {

// Thread-safety: thread-safe.
class StickyErrorDirectory final : public Directory {
 public:
  explicit StickyErrorDirectory(std::unique_ptr<Directory> target)
      : target_(std::move(target)) {}

  // One sync at a time. Otherwise one of two could return OK while the failure
  // is reported to the other.
  Status Sync() override {
    MutexLock sync_lock(&sync_mutex_);
    Status status = failure();
    if (status.ok()) status = target_->Sync();
    MutexLock lock(&mutex_);
    failure_ = status;
    return status;
  }

  // Returns the sticky error, or OK.
  Status failure() {
    MutexLock lock(&mutex_);
    return failure_;
  }

  // Clears the error. Returns true if there was one: older names that were not
  // durable may never become durable.
  bool ClearError() {
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
