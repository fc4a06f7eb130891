// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <condition_variable>
#include <mutex>

#include "varve/status.h"

namespace varve::test {

// Threads that come to a closed gate wait there. Thread-safe.
class Gate {
 public:
  void Close() { Set(true); }
  void Open() { Set(false); }
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    --waiting_;
  }
  // The same, for hooks of an Env. Returns OK.
  Status Pass() {
    Wait();
    return Status::OK();
  }
  void AwaitWaiting(int count = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }

 private:
  void Set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

}  // namespace varve::test
