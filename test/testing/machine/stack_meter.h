// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// How much stack a piece of code needs: it is run on a thread whose stack was
// filled with a pattern, and the lowest byte that has changed tells.

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "varve/env.h"

namespace varve::test {

// Thread-safety: owned by one thread.
class StackMeter {
 public:
  // The bytes of stack below the thread's own function that `work` used.
  static size_t Run(const std::function<void()>& work) {
    StackMeter meter(work);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, meter.stack_, kStackBytes);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, &ThreadMain, &meter) != 0) {
      perror("pthread_create");
      abort();
    }
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    return meter.used_bytes_;
  }

 private:
  static constexpr size_t kStackBytes = 1 << 20;
  // Below a function's locals, for what fills the stack.
  static constexpr size_t kSpareBytes = 256;
  static constexpr unsigned char kPattern = 0xA5;

  explicit StackMeter(const std::function<void()>& work)
      : work_(work),
        stack_(static_cast<unsigned char*>(
            mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (stack_ == MAP_FAILED) {
      perror("mmap");
      abort();
    }
  }
  StackMeter(const StackMeter&) = delete;
  StackMeter& operator=(const StackMeter&) = delete;
  ~StackMeter() { munmap(stack_, kStackBytes); }

  [[gnu::noinline]] void Measure() {
    unsigned char here = 0;
    // The compiler must not know that it is of an object of one byte.
    unsigned char* top = &here;
    asm volatile("" : "+r"(top)::"memory");
    unsigned char* const limit = top - kSpareBytes;
    memset(stack_, kPattern, static_cast<size_t>(limit - stack_));
    work_();
    asm volatile("" ::: "memory");
    const unsigned char* const lowest = std::find_if(
        stack_, limit, [](unsigned char byte) { return byte != kPattern; });
    used_bytes_ = static_cast<size_t>(top - lowest);
  }
  static void* ThreadMain(void* meter) {
    static_cast<StackMeter*>(meter)->Measure();
    return nullptr;
  }

  const std::function<void()>& work_;
  unsigned char* const stack_;
  size_t used_bytes_ = 0;
};

// An Env whose background jobs are measured. Thread-safety: thread-safe.
class StackMeterEnv final : public EnvWrapper {
 public:
  explicit StackMeterEnv(Env* target) : EnvWrapper(target) {}

  Status Schedule(std::function<void()> work, Priority priority) override {
    return target()->Schedule(
        [this, work = std::move(work)] { Note(StackMeter::Run(work)); },
        priority);
  }

  // The most that a job used.
  size_t max_bytes() const { return max_bytes_.load(); }

 private:
  void Note(size_t bytes) {
    size_t max = max_bytes_.load();
    while (bytes > max && !max_bytes_.compare_exchange_weak(max, bytes)) {
    }
  }

  std::atomic<size_t> max_bytes_{0};
};

}  // namespace varve::test
