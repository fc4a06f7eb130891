// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The common parts of the loops of db_bench.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tools/db_bench/workload_loops.h"

namespace varve {

// Calls between looks at the clock and at what others did.
constexpr int kCallsPerCheck = 64;

inline uint64_t ToNanoseconds(Clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

// Returns whether a time, not a number of operations, ends the thread.
inline bool IsTimed(const LoopContext& context) {
  return context.config.duration.count() > 0 &&
         context.order != KeyOrder::kSequential &&
         context.order != KeyOrder::kUniqueRandom;
}

// The sizes of a thread's batches: the last one may be smaller.
class BatchSizes {
 public:
  explicit BatchSizes(const LoopContext& context)
      : size_(context.config.write_batch),
        left_(IsTimed(context) ? UINT64_MAX : context.operations) {}

  uint64_t Next() {
    const uint64_t size = std::min(size_, left_);
    left_ -= size;
    return size;
  }

 private:
  const uint64_t size_;
  uint64_t left_;
};

// Calls `operation` until the thread's share is done. `operation` returns the
// number of operations it did, or 0 to end. Each call costs only itself and a
// counter, unless latencies are measured. `pause` is called after each
// operation and returns whether it waited. Its time is not part of a latency.
template <typename Operation, typename Pause>
void Repeat(LoopContext* context, LoopThread* thread, Operation operation,
            Pause pause) {
  const bool timed = IsTimed(*context);
  const uint64_t limit = timed ? UINT64_MAX : context->operations;
  Histogram* const latency_ns = thread->latency_ns.get();
  uint64_t done = 0;
  thread->start = Clock::now();
  const Clock::time_point deadline = thread->start + context->config.duration;
  Clock::time_point last = thread->start;
  bool more = true;
  // relaxed: a thread that ends a little later does no harm.
  while (more && done < limit &&
         !context->stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < kCallsPerCheck && done < limit; ++i) {
      const uint64_t count = operation();
      if (count == 0) {
        more = false;
        break;
      }
      done += count;
      if (latency_ns != nullptr) {
        // The end of one call is the start of the next.
        const Clock::time_point now = Clock::now();
        latency_ns->Add(ToNanoseconds(now - last));
        last = now;
      }
      if (pause()) {
        if (latency_ns != nullptr) last = Clock::now();
        break;
      }
    }
    // relaxed: for display only.
    thread->done.store(done, std::memory_order_relaxed);
    if (timed && Clock::now() >= deadline) break;
  }
  thread->end = Clock::now();
  thread->operations = done;
}

template <typename Operation>
void Repeat(LoopContext* context, LoopThread* thread, Operation operation) {
  Repeat(context, thread, operation, [] { return false; });
}

// The numbers of the keys, in the order of LoopContext::order.
class KeyNumbers {
 public:
  KeyNumbers(const LoopContext& context, LoopThread* thread)
      : order_(context.order),
        entries_(EntriesOf(context)),
        skew_(context.order == KeyOrder::kRandom && !context.writes
                  ? context.config.read_skew
                  : 0),
        random_(&thread->random),
        permutation_(entries_, thread->permutation_seed) {}

  uint64_t Next() {
    switch (order_) {
      case KeyOrder::kSequential:
        return next_++ % entries_;
      case KeyOrder::kUniqueRandom:
        return permutation_.At(next_++ % entries_);
      default:
        return skew_ == 0 ? random_->Uniform(entries_) : NextSkewed();
    }
  }

 private:
  uint64_t NextSkewed() {
    constexpr uint64_t kParts = uint64_t{1} << 53;
    constexpr uint64_t kPrime = 0x5BD1E995;
    const double part = static_cast<double>(random_->Uniform(kParts)) /
                        static_cast<double>(kParts);
    const auto rank = static_cast<uint64_t>(std::exp(-part * skew_) *
                                            static_cast<double>(entries_));
    // The likely ones are not neighbors.
    return rank * kPrime % entries_;
  }
  static uint64_t EntriesOf(const LoopContext& context) {
    const uint64_t all =
        context.keys != nullptr ? context.keys->size() : context.config.entries;
    switch (context.order) {
      case KeyOrder::kMerge:
        return context.config.merge_keys;
      case KeyOrder::kDistinct:
        return context.config.distinct_keys;
      case KeyOrder::kHot:
        return (all + 99) / 100;
      case KeyOrder::kPowerOfTwo:
        return std::bit_ceil(all);
      default:
        return all;
    }
  }

  KeyOrder order_;
  uint64_t entries_;
  double skew_;
  Random* random_;
  Permutation permutation_;
  uint64_t next_ = 0;
};

// Keeps a thread's writes or reads to its share of the rate.
class Pacer {
 public:
  // Never waits if the rate, of bytes or operations, is zero.
  Pacer(uint64_t rate, int threads)
      : rate_(static_cast<double>(rate) / threads), start_(Clock::now()) {}
  // After each interval, the rate is rate_at(seconds since the start), of all
  // threads.
  Pacer(std::function<double(double)> rate_at, Clock::duration interval,
        int threads)
      : rate_at_(std::move(rate_at)),
        threads_(threads),
        interval_(interval),
        rate_(rate_at_(0) / threads),
        start_(Clock::now()),
        first_start_(start_) {}

  // Waits until `bytes` in total are due, or `wanted` returns false. Returns
  // false if there is nothing to wait for.
  template <typename Wanted>
  bool Wait(uint64_t bytes, Wanted wanted) {
    if (rate_ <= 0) return false;
    constexpr std::chrono::milliseconds kLeastSleep(1);
    constexpr std::chrono::duration<double> kMostSleep(0.02);
    while (wanted()) {
      const Clock::time_point now = Clock::now();
      if (rate_at_ != nullptr && now - start_ >= interval_) {
        const std::chrono::duration<double> passed = now - first_start_;
        rate_ = rate_at_(passed.count()) / threads_;
        start_ = now;
        paid_ = bytes;
      }
      const std::chrono::duration<double> due(
          static_cast<double>(bytes - paid_) / rate_);
      const std::chrono::duration<double> left = due - (now - start_);
      if (left < kLeastSleep) break;
      std::this_thread::sleep_for(std::min(left, kMostSleep));
    }
    return true;
  }

 private:
  std::function<double(double)> rate_at_;
  int threads_ = 1;
  Clock::duration interval_{0};
  double rate_;
  // When the rate began, and what was done before.
  Clock::time_point start_;
  uint64_t paid_ = 0;
  Clock::time_point first_start_;
};

// The pacer of a thread that writes.
inline Pacer WritePacer(const LoopContext& context) {
  const SineRate& sine = context.config.write_sine;
  if (sine.interval.count() == 0) {
    return Pacer(context.config.write_bytes_per_second, context.threads);
  }
  return Pacer([&sine](double seconds) { return sine.At(seconds); },
               sine.interval, context.threads);
}

// Writes entries in batches, with the keys whose numbers `next` returns.
void WriteKeys(LoopContext* context, LoopThread* thread,
               const std::function<uint64_t()>& next);

// Repeat for reads, which WorkloadConfig::reads_per_second limits.
template <typename Operation>
void RepeatReads(LoopContext* context, LoopThread* thread,
                 Operation operation) {
  if (context->config.reads_per_second == 0) {
    Repeat(context, thread, operation);
    return;
  }
  Pacer pacer(context->config.reads_per_second, context->threads);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  uint64_t reads = 0;
  Repeat(
      context, thread,
      [&] {
        const uint64_t done = operation();
        reads += done;
        return done;
      },
      [&] { return pacer.Wait(reads, wanted); });
}

inline void SetKey(const WorkloadConfig& config, uint64_t number,
                   size_t key_bytes, char* key) {
  if (config.text_keys) {
    WriteTextKey(number, key_bytes, key);
  } else {
    WriteKey(config.key_prefix, number, key_bytes, key);
  }
}

inline uint32_t FamilyOf(const WorkloadConfig& config, uint64_t number) {
  return static_cast<uint32_t>(number % config.column_families);
}

inline void SetKey(const LoopContext& context, LoopThread* thread,
                   uint64_t number) {
  const WorkloadConfig& config = context.config;
  if (context.keys != nullptr) {
    thread->key = (*context.keys)[number % context.keys->size()];
    return;
  }
  SetKey(config, number, thread->key.size(), thread->key.data());
  if (config.column_families > 1) {
    thread->session->SelectFamily(FamilyOf(config, number));
  }
}

// Moves the keys of a batch to the families of WorkloadConfig::batch_families.
class BatchFamilies {
 public:
  explicit BatchFamilies(const WorkloadConfig& config) : config_(config) {}

  void Begin() { count_ = 0; }
  // Returns the number of the key to use in place of the next one.
  uint64_t Move(uint64_t number) {
    if (config_.batch_families == 0) return number;
    const uint64_t families = config_.column_families;
    if (count_ == 0) first_ = number;
    const uint64_t family =
        (first_ + count_++ % config_.batch_families) % families;
    const uint64_t moved = number - number % families + family;
    // The last numbers may not make up a full round of the families.
    return moved < config_.entries ? moved : family;
  }

 private:
  const WorkloadConfig& config_;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
};

// Walks the data once, family by family, with `first` and then `next` of a
// cursor.
template <typename First, typename Step>
void Scan(LoopContext* context, LoopThread* thread, First first, Step next) {
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  const uint32_t families = context->config.column_families;
  uint32_t begun = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    bool valid = begun > 0 && next(cursor.get());
    while (!valid) {
      if (begun > 0) thread->status = cursor->status();
      if (!thread->status.ok() || begun == families) return 0;
      cursor->SelectFamily(begun++);
      cursor->Renew();
      valid = first(cursor.get());
    }
    thread->bytes += cursor->key.size() + cursor->value.size();
    return 1;
  });
}

// Looks up the thread's key, and counts it. Returns false, with the error, if
// that failed.
inline bool Read(LoopThread* thread, Slice* value, bool* found = nullptr) {
  ++thread->lookups;
  const Lookup lookup = thread->session->Get(thread->key, value);
  if (found != nullptr) *found = lookup == Lookup::kFound;
  if (lookup == Lookup::kFound) {
    ++thread->found;
    thread->bytes += thread->key.size() + value->size();
  } else if (lookup == Lookup::kError) {
    thread->status = thread->session->error();
    return false;
  }
  return true;
}

// Writes the thread's key. Returns false, with the error, if that failed.
inline bool Write(LoopThread* thread, const Slice& value) {
  thread->session->Put(thread->key, value);
  thread->bytes += thread->key.size() + value.size();
  thread->status = thread->session->Commit();
  return thread->status.ok();
}

// Adds an operand for the thread's key to its session. Returns false, with the
// error, if the engine has no merges.
inline bool Merge(LoopThread* thread) {
  const Slice operand = thread->values.Next();
  if (!thread->session->Merge(thread->key, operand)) {
    thread->status = Status::NotSupported("the engine has no merges");
    return false;
  }
  thread->bytes += thread->key.size() + operand.size();
  return true;
}

}  // namespace varve
