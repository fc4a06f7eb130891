// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database's directory with a sticky sync error. Syncs by one job make safe
// the names that other jobs rely on. A failed sync is told to one caller: the
// kernel then takes for written what it could not write, and the next sync
// succeeds without the lost names. So here the failure is told to whoever asks,
// until all that relied on names of that time is done with.

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

  // One at a time: else one of two could return OK while the failure is told to
  // the other.
  Status Sync() override {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = target_->Sync();
    return failure_;
  }

  // What syncs return from now on, if it is an error.
  Status failure() {
    MutexLock lock(&mutex_);
    return failure_;
  }

  // Syncs are made again. Whether one had failed: names from before it that
  // were not safe yet may never be.
  bool ClearError() {
    MutexLock lock(&mutex_);
    const bool had_failed = !failure_.ok();
    failure_ = Status::OK();
    return had_failed;
  }

 private:
  const std::unique_ptr<Directory> target_;
  Mutex mutex_;
  Status failure_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
