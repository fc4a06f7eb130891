// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/loops/open_loop.h"

#include <chrono>
#include <thread>

#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"

namespace varve {

namespace {

class SteadyTime {
 public:
  explicit SteadyTime(Clock::time_point start) : start_(start) {}

  uint64_t Now() const { return ToNanoseconds(Clock::now() - start_); }
  static void Sleep(uint64_t nanoseconds) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
  }
  // Leaves more of the core to its other hardware thread.
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  const Clock::time_point start_;
};

}  // namespace

void OpenLoop(LoopContext* context, LoopThread* thread) {
  const WorkloadConfig& config = context->config;
  const OpenLoopSchedule schedule(config.rate, context->threads, thread->index);
  KeyNumbers numbers(*context, thread);
  const uint64_t operations =
      IsTimed(*context)
          ? schedule.CountWithin(static_cast<uint64_t>(config.duration.count()))
          : context->operations;
  OpenLoopLatency& latency =
      *(thread->open_loop = std::make_unique<OpenLoopLatency>());
  bool put = false;
  uint64_t done = 0;
  const auto prepare = [&] {
    SetKey(*context, thread, numbers.Next());
    put = thread->random.Uniform(100) < config.put_percent;
  };
  const auto operation = [&]() -> Histogram* {
    // relaxed: a thread that ends a little later does no harm.
    if (context->stop.load(std::memory_order_relaxed)) return nullptr;
    Slice value;
    if (put ? !Write(thread, thread->values.Next()) : !Read(thread, &value)) {
      return nullptr;
    }
    // relaxed: for display only.
    thread->done.store(++done, std::memory_order_relaxed);
    return put ? &latency.puts_ns : &latency.gets_ns;
  };
  thread->start = Clock::now();
  SteadyTime time(thread->start);
  thread->operations =
      RunOpenLoop(schedule, operations, &time, prepare, operation);
  thread->end = Clock::now();
  if (thread->latency_ns != nullptr) {
    thread->latency_ns->Merge(latency.puts_ns);
    thread->latency_ns->Merge(latency.gets_ns);
  }
}

}  // namespace varve
