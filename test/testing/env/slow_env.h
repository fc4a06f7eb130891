// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An environment and a listener that make the engine's threads run at the same
// time. They pause for a random time where the engine waits for a device or
// calls a listener.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "varve/env.h"
#include "varve/listener.h"

namespace varve::test {

// Delays each sync by up to limit_us, before and after the sync. Thread-safe.
class SlowEnv final : public HookEnv {
 public:
  SlowEnv(Env* target, uint64_t seed, uint64_t limit_us)
      : HookEnv(kSyncOperation | kSyncDirectoryOperation, "", target),
        rng_(seed),
        limit_us_(limit_us) {}

  void Wait() {
    uint64_t seed;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      seed = rng_.Next();
    }
    if (limit_us_ == 0 || seed % 4 == 0) return;
    std::this_thread::sleep_for(
        std::chrono::microseconds(seed / 4 % limit_us_));
  }

  // Makes the start of the next job's thread fail.
  void RefuseJob(bool refuse) { refuses_job_ = refuse; }
  Status Schedule(std::function<void()> job, Priority priority) override {
    if (refuses_job_.exchange(false)) {
      return Status::IOError("injected: no thread");
    }
    return target()->Schedule(std::move(job), priority);
  }

 private:
  Status Before(FileOperation, const std::string&) override {
    Wait();
    return Status::OK();
  }
  void After(FileOperation) override { Wait(); }

  std::mutex mu_;
  Rng rng_;
  const uint64_t limit_us_;
  std::atomic<bool> refuses_job_{false};
};

// The engine releases its mutex for each call.
class SlowListener final : public EventListener {
 public:
  explicit SlowListener(SlowEnv* env) : env_(env) {}
  void OnFlushBegin(const FlushJobInfo&) override { env_->Wait(); }
  void OnFlushCompleted(const FlushJobInfo&) override { env_->Wait(); }
  void OnCompactionBegin(const CompactionJobInfo&) override { env_->Wait(); }
  void OnCompactionCompleted(const CompactionJobInfo&) override {
    env_->Wait();
  }
  void OnBackgroundError(const std::string&, const Status&) override {
    env_->Wait();
  }

 private:
  SlowEnv* const env_;
};

}  // namespace varve::test
