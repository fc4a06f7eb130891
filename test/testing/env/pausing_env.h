// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An environment in which background jobs wait until a test lets them go.

#include "test/testing/test_headers.h"
#include "util/base/mutex.h"
#include "varve/env.h"

namespace varve::test {

// Thread-safety: thread-safe. REQUIRES: LetGo before a DB is closed.
class PausingEnv : public EnvWrapper {
 public:
  explicit PausingEnv(Env* target = Env::Default()) : EnvWrapper(target) {}

  Status Schedule(std::function<void()> work, Priority priority) override {
    MutexLock lock(&mu_);
    if (held_.count(priority == Priority::kMedium ? Priority::kLow
                                                  : priority) == 0) {
      return target()->Schedule(std::move(work), priority);
    }
    kept_.emplace_back(std::move(work), priority);
    return Status::OK();
  }

  // Flushes are of high priority, compactions of low or medium. kLow keeps both
  // back.
  void KeepBack(Priority priority) {
    MutexLock lock(&mu_);
    held_.insert(priority);
  }
  void LetGo() {
    MutexLock lock(&mu_);
    held_.clear();
    for (auto& [work, priority] : kept_) {
      EXPECT_TRUE(target()->Schedule(std::move(work), priority).ok());
    }
    kept_.clear();
  }

 private:
  Mutex mu_;
  std::set<Priority> held_ VARVE_GUARDED_BY(mu_);
  std::vector<std::pair<std::function<void()>, Priority>> kept_
      VARVE_GUARDED_BY(mu_);
};

}  // namespace varve::test
