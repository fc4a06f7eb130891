// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Writers that come to the queue while the log is synced for another one.

#include <atomic>
#include <string>
#include <thread>

#include "test/testing/env/hook_env.h"
#include "test/testing/threads/run_threads.h"

namespace varve::test {

// Counts the syncs of logs, and holds the first of each run.
class HeldSyncs final : public HookEnv {
 public:
  explicit HeldSyncs(Env* target) : HookEnv(kSyncOperation, ".log", target) {
    hook = [this](const std::string&) {
      ++syncs_;
      while (is_held_) std::this_thread::yield();
      return failure;
    };
  }

  // Calls body(0), which syncs, and body(1) to body(count - 1) on other threads
  // during that sync: perhaps not all in time. Returns the number of syncs.
  template <typename Body>
  int Run(int count, const Body& body) {
    syncs_ = 0;
    is_held_ = true;
    RunThreads(count, [&](int i) {
      while (i != 0 && syncs_ == 0) std::this_thread::yield();
      if (i == count - 1) {
        for (int n = 0; n < 200; ++n) std::this_thread::yield();
        is_held_ = false;
      }
      body(i);
    });
    return syncs_;
  }

  // Of the syncs. Not changed during a run.
  Status failure;

 private:
  std::atomic<int> syncs_{0};
  std::atomic<bool> is_held_{false};
};

}  // namespace varve::test
