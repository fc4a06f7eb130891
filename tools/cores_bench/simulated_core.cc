// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/cores_bench/simulated_core.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <thread>

#include "util/threads/per_cpu.h"

#if VARVE_HAVE_RSEQ
#include <sys/rseq.h>
#endif

namespace varve::cores {

bool PretendToRunOn(size_t number) {
#if VARVE_HAVE_RSEQ
  if (__rseq_size == 0 || number >= PossibleCpus()) return false;
  char* const area =
      static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  // The C library registers the size that the kernel asks for, at least 32.
  bool ended = false;
  for (unsigned size = 32; size <= 256 && !ended; size += 1) {
    ended = syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0;
  }
  if (!ended) return false;
  // volatile: restartable sequences read them in assembly.
  constexpr size_t kCpuIdStart = 0;
  constexpr size_t kCpuId = 4;
  constexpr size_t kConcurrencyId = 24;
  for (const size_t offset : {kCpuIdStart, kCpuId, kConcurrencyId}) {
    *reinterpret_cast<volatile uint32_t*>(area + offset) =
        static_cast<uint32_t>(number);
  }
  return true;
#else
  (void)number;
  return false;
#endif
}

namespace {

// One core's thread, which waits for its turn.
class CoreThread {
 public:
  CoreThread(size_t core, StepTracer* tracer,
             const std::function<Worker*(size_t)>& new_worker)
      : core_(core),
        tracer_(tracer),
        new_worker_(new_worker),
        thread_([this] { Main(); }) {}
  ~CoreThread() {
    ended_ = true;
    Turn();
    thread_.join();
  }
  CoreThread(const CoreThread&) = delete;
  CoreThread& operator=(const CoreThread&) = delete;

  // One operation. `traces` is null if it is not to be recorded.
  void Run(size_t round, std::vector<OperationTrace>* traces) {
    round_ = round;
    traces_ = traces;
    Turn();
  }

 private:
  void Turn() {
    go_.release();
    done_.acquire();
  }
  OperationTrace Record() {
    constexpr int kMostAttempts = 10;
    OperationTrace trace;
    for (int i = 0; i < kMostAttempts; ++i) {
      trace = tracer_->Trace(
          [](void* self) {
            auto* const core = static_cast<CoreThread*>(self);
            core->worker_->Run(core->round_);
          },
          this);
      if (worker_->IsTypical(trace)) break;
    }
    return trace;
  }
  void Main() {
    if (!PretendToRunOn(core_) && BestPerCpuPath() != PerCpuPath::kAtomic) {
      // The counters of one processor would be recorded for all.
      fprintf(stderr, "cores_bench: a thread cannot pretend to run on %zu\n",
              core_);
      abort();
    }
    std::unique_ptr<Worker> worker(new_worker_(core_));
    for (;;) {
      go_.acquire();
      if (ended_) break;
      worker_ = worker.get();
      if (traces_ == nullptr) {
        worker->Run(round_);
      } else {
        worker->BeforeRecording(round_);
        traces_->push_back(Record());
      }
      done_.release();
    }
    worker.reset();
    done_.release();
  }

  const size_t core_;
  StepTracer* const tracer_;
  const std::function<Worker*(size_t)>& new_worker_;
  size_t round_ = 0;
  std::vector<OperationTrace>* traces_ = nullptr;
  Worker* worker_ = nullptr;
  bool ended_ = false;
  std::binary_semaphore go_{0};
  std::binary_semaphore done_{0};
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace

std::vector<std::vector<OperationTrace>> RecordWorkers(
    const RecordingPlan& plan, StepTracer* tracer,
    const std::function<Worker*(size_t)>& new_worker) {
  std::vector<std::unique_ptr<CoreThread>> cores;
  for (size_t i = 0; i < plan.cores; ++i) {
    cores.push_back(std::make_unique<CoreThread>(i, tracer, new_worker));
  }
  size_t round = 0;
  for (; round < plan.warm_rounds; ++round) {
    for (const auto& core : cores) core->Run(round, nullptr);
  }
  std::vector<std::vector<OperationTrace>> traces(plan.cores);
  for (; round < plan.warm_rounds + plan.rounds; ++round) {
    const size_t recorded = round == plan.warm_rounds
                                ? plan.cores
                                : std::min(plan.cores, plan.thorough_cores);
    for (size_t i = 0; i < recorded; ++i) cores[i]->Run(round, &traces[i]);
  }
  return traces;
}

}  // namespace varve::cores
