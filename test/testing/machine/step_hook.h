// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Stops the calling thread before a chosen instruction of a piece of code, lets
// another thread do something, and goes on: all places where threads can meet
// are tried in turn, without a hook in the code. Linux on x86-64 only.

#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

namespace varve::test {

class StepHook {
 public:
  // `other` runs on a thread of its own.
  explicit StepHook(std::function<void()> other) : other_(std::move(other)) {
    sem_init(&go_, 0, 0);
    sem_init(&done_, 0, 0);
    thread_ = std::thread([this] { Main(); });
    struct sigaction action = {};
    action.sa_sigaction = OnTrap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, nullptr);
  }
  ~StepHook() {
    ended_ = true;
    sem_post(&go_);
    thread_.join();
    signal(SIGTRAP, SIG_DFL);
  }
  StepHook(const StepHook&) = delete;
  StepHook& operator=(const StepHook&) = delete;

  // Calls body(), and `other` before its instruction number `step`. Returns
  // false if the body has fewer; `other` was then not called. One thread at a
  // time.
  bool Run(size_t step, const std::function<void()>& body) {
    active = this;
    left_ = step;
    reached_ = false;
    asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    body();
    asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    active = nullptr;
    return reached_;
  }

 private:
  static constexpr greg_t kTrapFlag = 0x100;

  static void OnTrap(int /*signal*/, siginfo_t* /*info*/, void* context) {
    StepHook* const hook = active;
    if (hook != nullptr && hook->left_ > 0) {
      --hook->left_;
      return;
    }
    // The rest runs at full speed.
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
    if (hook == nullptr || hook->reached_) return;
    hook->reached_ = true;
    // Both may be called in a handler.
    sem_post(&hook->go_);
    sem_wait(&hook->done_);
  }
  void Main() {
    for (;;) {
      sem_wait(&go_);
      if (ended_) return;
      other_();
      sem_post(&done_);
    }
  }

  static inline StepHook* active = nullptr;

  const std::function<void()> other_;
  sem_t go_;
  sem_t done_;
  bool ended_ = false;
  size_t left_ = 0;
  bool reached_ = false;
  std::thread thread_;
};

}  // namespace varve::test
