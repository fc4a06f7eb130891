// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A thread that does what the test tells it, one step at a time, so that a test
// can write an interleaving of threads down as a sequence of steps.

#include <functional>
#include <thread>
#include <utility>

#include "util/base/mutex.h"

namespace varve::test {

// Thread-safety: owned by one thread at a time.
class Actor {
 public:
  Actor() : thread_([this] { Run(); }) {}
  ~Actor() { End(); }

  // Returns when the step is done.
  void Do(std::function<void()> step) {
    Start(std::move(step));
    Wait();
  }
  // Returns at once. REQUIRES: the step before is done.
  void Start(std::function<void()> step) {
    MutexLock lock(&mu_);
    step_ = std::move(step);
    cv_.SignalAll();
  }
  void Wait() {
    MutexLock lock(&mu_);
    while (step_ != nullptr) cv_.Wait(&mu_);
  }
  // The thread ends, with all its destructors.
  void End() {
    if (!thread_.joinable()) return;
    {
      MutexLock lock(&mu_);
      ended_ = true;
      cv_.SignalAll();
    }
    thread_.join();
  }

 private:
  void Run() {
    MutexLock lock(&mu_);
    while (true) {
      while (step_ == nullptr && !ended_) cv_.Wait(&mu_);
      if (step_ == nullptr) return;
      const std::function<void()> step = step_;
      mu_.Unlock();
      step();
      mu_.Lock();
      step_ = nullptr;
      cv_.SignalAll();
    }
  }

  Mutex mu_;
  CondVar cv_;  // step_ or ended_ changed.
  std::function<void()> step_ VARVE_GUARDED_BY(mu_);
  bool ended_ VARVE_GUARDED_BY(mu_) = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace varve::test
