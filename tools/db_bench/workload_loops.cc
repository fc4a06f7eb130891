// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/workload_loops.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace varve {

namespace {

// Calls between looks at the clock and at what others did.
constexpr int kCallsPerCheck = 64;

uint64_t ToNanoseconds(Clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

// Returns whether a time, not a number of operations, ends the thread.
bool IsTimed(const LoopContext& context) {
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
        random_(&thread->random),
        permutation_(entries_, thread->permutation_seed) {}

  uint64_t Next() {
    switch (order_) {
      case KeyOrder::kSequential:
        return next_++ % entries_;
      case KeyOrder::kUniqueRandom:
        return permutation_.At(next_++ % entries_);
      default:
        return random_->Uniform(entries_);
    }
  }

 private:
  static uint64_t EntriesOf(const LoopContext& context) {
    if (context.order == KeyOrder::kMerge) return context.config.merge_keys;
    const uint64_t all = context.config.entries;
    return context.order == KeyOrder::kHot ? (all + 99) / 100 : all;
  }

  KeyOrder order_;
  uint64_t entries_;
  Random* random_;
  Permutation permutation_;
  uint64_t next_ = 0;
};

// Keeps a thread's writes to its share of the rate.
class Pacer {
 public:
  // Never waits if the rate is zero.
  Pacer(uint64_t bytes_per_second, int threads)
      : rate_(static_cast<double>(bytes_per_second) / threads),
        start_(Clock::now()) {}

  // Waits until `bytes` in total are due, or `wanted` returns false. Returns
  // false if there is nothing to wait for.
  template <typename Wanted>
  bool Wait(uint64_t bytes, Wanted wanted) const {
    if (rate_ <= 0) return false;
    constexpr std::chrono::milliseconds kLeastSleep(1);
    constexpr std::chrono::duration<double> kMostSleep(0.02);
    const std::chrono::duration<double> due(static_cast<double>(bytes) / rate_);
    while (wanted()) {
      const std::chrono::duration<double> left = due - (Clock::now() - start_);
      if (left < kLeastSleep) break;
      std::this_thread::sleep_for(std::min(left, kMostSleep));
    }
    return true;
  }

 private:
  double rate_;
  Clock::time_point start_;
};

void SetKey(const WorkloadConfig& config, uint64_t number, size_t key_bytes,
            char* key) {
  if (config.text_keys) {
    WriteTextKey(number, key_bytes, key);
  } else {
    WriteKey(config.key_prefix, number, key_bytes, key);
  }
}

uint32_t FamilyOf(const WorkloadConfig& config, uint64_t number) {
  return static_cast<uint32_t>(number % config.column_families);
}

void SetKey(const LoopContext& context, LoopThread* thread, uint64_t number) {
  const WorkloadConfig& config = context.config;
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

// Adds an operand for the thread's key to its session. Returns false, with the
// error, if the engine has no merges.
bool Merge(LoopThread* thread) {
  const Slice operand = thread->values.Next();
  if (!thread->session->Merge(thread->key, operand)) {
    thread->status = Status::NotSupported("the engine has no merges");
    return false;
  }
  thread->bytes += thread->key.size() + operand.size();
  return true;
}

}  // namespace

LoopThread::LoopThread(const LoopContext& context, uint64_t seed,
                       Slice value_bytes,
                       std::unique_ptr<EngineSession> new_session)
    : random(seed),
      values(value_bytes, context.config.value_bytes),
      key(context.config.key_bytes + (context.order == KeyOrder::kMissing),
          '0'),
      session(std::move(new_session)),
      permutation_seed(random.Next()) {
  if (context.config.histogram) latency_ns = std::make_unique<Histogram>();
}

void WriteLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  BatchSizes sizes(*context);
  BatchFamilies families(context->config);
  const Pacer pacer(context->config.write_bytes_per_second, context->threads);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  const auto write = [&]() -> uint64_t {
    const uint64_t batch = sizes.Next();
    families.Begin();
    for (uint64_t i = 0; i < batch; ++i) {
      SetKey(*context, thread, families.Move(numbers.Next()));
      const Slice value = thread->values.Next();
      thread->session->Put(thread->key, value);
      thread->bytes += thread->key.size() + value.size();
    }
    thread->status = thread->session->Commit();
    return thread->status.ok() ? batch : 0;
  };
  Repeat(context, thread, write,
         [&] { return pacer.Wait(thread->bytes, wanted); });
}

void MergeLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  BatchSizes sizes(*context);
  Repeat(context, thread, [&]() -> uint64_t {
    const uint64_t batch = sizes.Next();
    for (uint64_t i = 0; i < batch; ++i) {
      SetKey(*context, thread, numbers.Next());
      if (!Merge(thread)) return 0;
    }
    thread->status = thread->session->Commit();
    return thread->status.ok() ? batch : 0;
  });
}

void ReadOrMergeLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  const uint64_t merge_percent = context->config.merge_percent;
  EngineSession* const session = thread->session.get();
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    if (thread->random.Uniform(100) < merge_percent) {
      if (!Merge(thread)) return 0;
      thread->status = session->Commit();
      return thread->status.ok() ? 1 : 0;
    }
    Slice value;
    ++thread->lookups;
    const Lookup lookup = session->Get(thread->key, &value);
    if (lookup == Lookup::kFound) {
      ++thread->found;
      thread->bytes += thread->key.size() + value.size();
    } else if (lookup == Lookup::kError) {
      thread->status = session->error();
      return 0;
    }
    return 1;
  });
}

void DeleteLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  BatchSizes sizes(*context);
  BatchFamilies families(context->config);
  Repeat(context, thread, [&]() -> uint64_t {
    const uint64_t batch = sizes.Next();
    families.Begin();
    for (uint64_t i = 0; i < batch; ++i) {
      SetKey(*context, thread, families.Move(numbers.Next()));
      thread->session->Delete(thread->key);
    }
    thread->status = thread->session->Commit();
    return thread->status.ok() ? batch : 0;
  });
}

void ReadSequentialLoop(LoopContext* context, LoopThread* thread) {
  Scan(
      context, thread,
      [](EngineCursor* cursor) { return cursor->SeekToFirst(); },
      [](EngineCursor* cursor) { return cursor->Next(); });
}

void ReadReverseLoop(LoopContext* context, LoopThread* thread) {
  Scan(
      context, thread,
      [](EngineCursor* cursor) { return cursor->SeekToLast(); },
      [](EngineCursor* cursor) { return cursor->Prev(); });
}

void ReadRandomLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  EngineSession* const session = thread->session.get();
  const Slice key(thread->key);
  uint64_t found = 0;
  uint64_t bytes = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    Slice value;
    const Lookup lookup = session->Get(key, &value);
    if (lookup == Lookup::kFound) {
      ++found;
      bytes += key.size() + value.size();
    } else if (lookup == Lookup::kError) {
      thread->status = session->error();
      return 0;
    }
    return 1;
  });
  thread->found = found;
  thread->bytes = bytes;
  thread->lookups = thread->operations;
}

void MultiReadLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  const size_t batch = context->config.read_batch;
  const size_t key_bytes = thread->key.size();
  std::string buffer(batch * key_bytes, '0');
  std::vector<Slice> keys;
  for (size_t i = 0; i < batch; ++i) {
    keys.emplace_back(buffer.data() + i * key_bytes, key_bytes);
  }
  const bool has_families = context->config.column_families > 1;
  std::vector<uint32_t> families(batch);
  Repeat(context, thread, [&]() -> uint64_t {
    for (size_t i = 0; i < batch; ++i) {
      const uint64_t number = numbers.Next();
      SetKey(context->config, number, key_bytes, buffer.data() + i * key_bytes);
      if (has_families) families[i] = FamilyOf(context->config, number);
    }
    size_t found = 0;
    uint64_t value_bytes = 0;
    EngineSession* const session = thread->session.get();
    if (!(has_families ? session->MultiGet(families, keys, &found, &value_bytes)
                       : session->MultiGet(keys, &found, &value_bytes))) {
      thread->status = thread->session->error();
      return 0;
    }
    thread->found += found;
    thread->bytes += found * key_bytes + value_bytes;
    return batch;
  });
  thread->lookups = thread->operations;
}

void SeekLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  const Slice key(thread->key);
  const uint64_t nexts = context->config.seek_nexts;
  // Values are copied so that reading them is paid for.
  char copy[256];
  Repeat(context, thread, [&]() -> uint64_t {
    const uint64_t number = numbers.Next();
    SetKey(context->config, number, key.size(), thread->key.data());
    cursor->SelectFamily(FamilyOf(context->config, number));
    cursor->Renew();
    bool valid = cursor->Seek(key);
    thread->found += valid && cursor->key == key;
    for (uint64_t i = 0; i < nexts && valid; ++i) {
      memcpy(copy, cursor->value.data(),
             std::min(sizeof(copy), cursor->value.size()));
      // The compiler must not see that the copy is not used.
      asm volatile("" : : "r"(copy) : "memory");
      thread->bytes += cursor->key.size() + cursor->value.size();
      valid = cursor->Next();
    }
    if (!valid) {
      thread->status = cursor->status();
      if (!thread->status.ok()) return 0;
    }
    return 1;
  });
  thread->lookups = thread->operations;
}

void SeekFirstLoop(LoopContext* context, LoopThread* thread) {
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  uint64_t turn = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    cursor->SelectFamily(FamilyOf(context->config, turn++));
    cursor->Renew();
    if (!cursor->SeekToFirst()) {
      thread->status = cursor->status();
      return thread->status.ok() ? 1 : 0;
    }
    ++thread->found;
    return 1;
  });
  thread->lookups = thread->operations;
}

void PopFirstLoop(LoopContext* context, LoopThread* thread) {
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  const uint32_t families = context->config.column_families;
  uint64_t turn = 0;
  // Goes to the first key of the next family that has one.
  const auto seek = [&] {
    for (uint32_t i = 0; i < families; ++i) {
      const uint32_t family = FamilyOf(context->config, turn++);
      cursor->SelectFamily(family);
      thread->session->SelectFamily(family);
      cursor->Renew();
      if (cursor->SeekToFirst()) return true;
      thread->status = cursor->status();
      if (!thread->status.ok()) break;
    }
    return false;
  };
  Repeat(context, thread, [&]() -> uint64_t {
    if (!seek()) return 0;
    thread->session->Delete(cursor->key);
    thread->bytes += cursor->key.size();
    thread->status = thread->session->Commit();
    return thread->status.ok() ? 1 : 0;
  });
}

std::vector<std::string> CatalogNames() {
  return {"oren", "noa",   "yael", "avigail", "tal",
          "amit", "shira", "itai", "michal",  "gilad"};
}

void CatalogLookupLoop(LoopContext* context, LoopThread* thread) {
  // Each name in three cases: oren, Oren and oRen.
  std::vector<std::string> names;
  for (const std::string& name : CatalogNames()) {
    names.push_back(name);
    for (const size_t upper : {0, 1}) {
      names.push_back(name);
      names.back()[upper] ^= 0x20;
    }
  }
  EngineSession* const session = thread->session.get();
  uint64_t found = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    const Slice name = names[thread->random.Uniform(names.size())];
    const Lookup lookup = session->FindDatabase(name);
    if (lookup == Lookup::kError) {
      thread->status = session->error();
      return 0;
    }
    found += lookup == Lookup::kFound;
    return 1;
  });
  thread->found = found;
  thread->lookups = thread->operations;
}

void BackgroundWriteLoop(LoopContext* context, LoopThread* thread) {
  const Pacer pacer(context->config.write_bytes_per_second, 1);
  // relaxed: a write more or less does no harm.
  const auto wanted = [context] {
    return context->foreground.load(std::memory_order_relaxed) > 0;
  };
  thread->start = Clock::now();
  while (wanted()) {
    SetKey(*context, thread, thread->random.Uniform(context->config.entries));
    const Slice value = thread->values.Next();
    thread->session->Put(thread->key, value);
    thread->status = thread->session->Commit();
    if (!thread->status.ok()) break;
    ++thread->operations;
    thread->bytes += thread->key.size() + value.size();
    pacer.Wait(thread->bytes, wanted);
  }
  thread->end = Clock::now();
}

}  // namespace varve
