// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Children that are killed in their work. Only children load RocksDB and open
// databases, as threads do not live on in a child.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "test/testing/forked.h"
#include "test/testing/seed.h"

namespace varve::test {

// A child numbers its steps, and tells of them in memory that all share.
// Thread-safety: owned by one thread.
class KilledChildren {
 public:
  KilledChildren()
      : progress_(static_cast<Progress*>(
            mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    progress_->attempted = -1;
    progress_->done = -1;
  }
  KilledChildren(const KilledChildren&) = delete;
  KilledChildren& operator=(const KilledChildren&) = delete;
  ~KilledChildren() { munmap(progress_, sizeof(Progress)); }

  // The last step that has begun, and the last one that has returned.
  int attempted() const { return progress_->attempted; }
  int done() const { return progress_->done; }

  // Starts a child that calls do_step(n) for the steps after the last one that
  // was attempted, after `begin`. Kills it when it opens, or up to
  // `most_steps` steps later. Returns whether it had worked until then.
  template <typename Begin, typename DoStep>
  bool RunAndKill(Rng* random, int most_steps, Begin begin, DoStep do_step) {
    const int first = progress_->attempted + 1;
    const int wanted = first + random->Between(-1, most_steps);
    uint64_t yields = random->Below(random->OneIn(2) ? 300 : 5000);
    progress_->done = first - 1;
    const pid_t child = fork();
    if (child == 0) {
      alarm(kLimitSeconds);  // Its default is to end the process.
      begin();
      for (int n = first; !::testing::Test::HasFailure(); ++n) {
        progress_->attempted = n;
        do_step(n);
        progress_->done = n;
      }
      _exit(1);
    }
    siginfo_t ended;
    ended.si_pid = 0;
    while (progress_->attempted < wanted && ended.si_pid == 0) {
      sched_yield();
      waitid(P_PID, static_cast<id_t>(child), &ended,
             WEXITED | WNOHANG | WNOWAIT);
    }
    // The child goes on, so that it dies anywhere in a step.
    for (; yields > 0; --yields) sched_yield();
    kill(child, SIGKILL);
    int outcome = 0;
    waitpid(child, &outcome, 0);
    return WIFSIGNALED(outcome) && WTERMSIG(outcome) == SIGKILL;
  }

  // Calls `work` in a child. Returns true if nothing failed.
  template <typename Work>
  static bool Passes(Work work) {
    return RunForked(
               [&work] {
                 work();
                 return ::testing::Test::HasFailure() ? 1 : 0;
               },
               kLimitSeconds) == 0;
  }

 private:
  static constexpr unsigned kLimitSeconds = 600;

  struct Progress {
    std::atomic<int> attempted;
    std::atomic<int> done;
  };

  Progress* const progress_;
};

}  // namespace varve::test
