// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Chooses the operations that are measured. Reading the clock twice costs more
// than the counting of a Get. So each thread measures one short operation in 64
// on average, at random. It measures all of them if its perf level or the level
// of the Statistics requires it. An operation that is not measured costs the
// decrement of a thread-local number.

#include <cstdint>

#include "monitoring/statistics.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"
#include "varve/perf_context.h"

namespace varve {

// A thread's measurements of its own operations.
struct ThreadMeasures {
  // Operations up to and including the next one that is examined. Then its
  // initial value, and the number of operations up to the next of the sample.
  uint32_t countdown = 1;
  uint32_t countdown_begin = 1;
  int32_t sample_countdown = 1;
  uint32_t random = 0;  // 0: none was examined yet.
  PerfLevel perf_level = PerfLevel::kDisable;
  PerfContext perf;
  IOStatsContext io;
};

[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadMeasures
    thread_measures;

// Returns true if the operation that begins must use MeasuredOperation. Call it
// once for each operation. `statistics`, the DB's, may be null.
inline bool IsOperationMeasured(const StatisticsImpl* statistics) {
  return --thread_measures.countdown == 0 ||
         (statistics != nullptr && statistics->times_all());
}

inline bool PerfCounts() {
  return thread_measures.perf_level >= PerfLevel::kEnableCount;
}
inline bool PerfTimes() {
  return thread_measures.perf_level >= PerfLevel::kEnableTimeExceptForMutex;
}

// Covers the scope of an operation that IsOperationMeasured has chosen. Records
// its duration if it is in the sample or if all operations are timed.
class MeasuredOperation {
 public:
  // `statistics` may be null.
  MeasuredOperation(StatisticsImpl* statistics, HistogramType histogram,
                    Env* env);
  MeasuredOperation(const MeasuredOperation&) = delete;
  MeasuredOperation& operator=(const MeasuredOperation&) = delete;
  ~MeasuredOperation();

  // Records a number, not a duration, of such an operation.
  void Record(HistogramType histogram, uint64_t value) {
    if (chosen_) statistics_->Record(histogram, value);
  }

 private:
  StatisticsImpl* const statistics_;
  const HistogramType histogram_;
  Env* const env_;
  bool chosen_;
  uint64_t start_ns_ = 0;  // 0: not timed.
};

// Adds the duration of a scope to a number, if the thread takes times.
class PerfTimer {
 public:
  PerfTimer(Env* env, uint64_t* total_ns)
      : env_(env), total_ns_(total_ns), start_ns_(0) {
    if (PerfTimes()) [[unlikely]]
      start_ns_ = env->NowNanos();
  }
  PerfTimer(const PerfTimer&) = delete;
  PerfTimer& operator=(const PerfTimer&) = delete;
  ~PerfTimer() { Stop(); }
  void Stop() {
    if (start_ns_ == 0) [[likely]]
      return;
    *total_ns_ += env_->NowNanos() - start_ns_;
    start_ns_ = 0;
  }

 private:
  Env* const env_;
  uint64_t* const total_ns_;
  uint64_t start_ns_;
};

// A PerfTimer for a path that is compiled twice, with and without measuring.
template <bool kMeasured>
class MaybePerfTimer {
 public:
  MaybePerfTimer(Env*, uint64_t PerfContext::*) {}
};
template <>
class MaybePerfTimer<true> {
 public:
  MaybePerfTimer(Env* env, uint64_t PerfContext::*total_ns)
      : timer_(env, &(GetPerfContext()->*total_ns)) {}

 private:
  PerfTimer timer_;
};

// Records the duration of a scope that is long enough to be always measured.
class HistogramTimer {
 public:
  // `statistics` may be null.
  HistogramTimer(StatisticsImpl* statistics, HistogramType histogram, Env* env)
      : statistics_(statistics), histogram_(histogram), env_(env) {
    if (statistics != nullptr && statistics->measures(histogram)) {
      start_ns_ = env->NowNanos();
    }
  }
  HistogramTimer(const HistogramTimer&) = delete;
  HistogramTimer& operator=(const HistogramTimer&) = delete;
  ~HistogramTimer() {
    if (start_ns_ == 0) return;
    statistics_->Record(histogram_, env_->NowNanos() - start_ns_);
  }

 private:
  StatisticsImpl* const statistics_;
  const HistogramType histogram_;
  Env* const env_;
  uint64_t start_ns_ = 0;
};

// A MutexLock that measures its wait, if it does wait and the level requires
// it. `statistics` may be null.
class VARVE_SCOPED_CAPABILITY TimedMutexLock {
 public:
  TimedMutexLock(Mutex* mutex, StatisticsImpl* statistics, Env* env)
      VARVE_ACQUIRE(mutex);
  TimedMutexLock(const TimedMutexLock&) = delete;
  TimedMutexLock& operator=(const TimedMutexLock&) = delete;
  ~TimedMutexLock() VARVE_RELEASE() { mutex_->Unlock(); }

 private:
  Mutex* const mutex_;
};

}  // namespace varve
