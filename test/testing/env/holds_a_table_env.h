// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An environment in which a flush or compaction pauses.

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "varve/env.h"

namespace varve::test {

// Pauses the creation of the next table, and then lets it fail or succeed.
// Thread-safe.
class HoldsATableEnv : public EnvWrapper {
 public:
  explicit HoldsATableEnv(Env* target) : EnvWrapper(target) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    const bool is_table = path.find(".sst") != std::string::npos;
    if (!is_table || !armed_.exchange(false)) {
      return target()->NewWritableFile(path, options, file);
    }
    const Status status = refuses_
                              ? Status::IOError(path, "held")
                              : target()->NewWritableFile(path, options, file);
    holds_ = true;
    while (!released_) std::this_thread::yield();
    return status;
  }
  void HoldNext(bool refuses = true) {
    holds_ = released_ = false;
    refuses_ = refuses;
    armed_ = true;
  }
  void AwaitHeld() const {
    while (!holds_) std::this_thread::yield();
  }
  void Release() { released_ = true; }

 private:
  std::atomic<bool> armed_{false}, holds_{false}, released_{false};
  std::atomic<bool> refuses_{true};
};

}  // namespace varve::test
