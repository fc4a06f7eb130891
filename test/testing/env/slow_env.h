// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An environment and a listener that make the engine's threads run at the same
// time. They pause for a random time where the engine waits for a device or
// calls a listener.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "test/testing/env/forwarding_file.h"
#include "test/testing/seed.h"
#include "varve/env.h"
#include "varve/listener.h"

namespace varve::test {

// Delays each sync by up to limit_us, before and after the sync. Thread-safe.
class SlowEnv final : public EnvWrapper {
 public:
  SlowEnv(Env* target, uint64_t seed, uint64_t limit_us)
      : EnvWrapper(target), rng_(seed), limit_us_(limit_us) {}

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

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok()) *file = std::make_unique<File>(std::move(*file), this);
    return status;
  }
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    Status status = target()->NewDirectory(path, directory);
    if (status.ok()) {
      *directory = std::make_unique<SlowDirectory>(std::move(*directory), this);
    }
    return status;
  }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<WritableFile> target, SlowEnv* env)
        : ForwardingFile(std::move(target)), env_(env) {}
    Status Sync() override {
      env_->Wait();
      Status status = ForwardingFile::Sync();
      env_->Wait();
      return status;
    }

   private:
    SlowEnv* const env_;
  };
  class SlowDirectory final : public Directory {
   public:
    SlowDirectory(std::unique_ptr<Directory> target, SlowEnv* env)
        : target_(std::move(target)), env_(env) {}
    Status Sync() override {
      env_->Wait();
      Status status = target_->Sync();
      env_->Wait();
      return status;
    }

   private:
    const std::unique_ptr<Directory> target_;
    SlowEnv* const env_;
  };

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
