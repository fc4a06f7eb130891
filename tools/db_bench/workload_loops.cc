// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/workload_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tools/db_bench/loops/loop_parts.h"

namespace varve {

namespace {

ValueSizes SizesOf(const WorkloadConfig& config) {
  ValueSizes sizes = config.value_sizes;
  sizes.bytes = config.value_bytes;
  return sizes;
}

// Deletes ranges between the writes of a loop.
class RangeDeleter {
 public:
  RangeDeleter(LoopContext* context, LoopThread* thread)
      : context_(*context),
        thread_(thread),
        config_(context->config.range_deletions) {}

  // Call it after `writes` more writes. Returns false after an error.
  bool After(uint64_t writes) {
    if (config_.interval == 0) return true;
    writes_ += writes;
    const uint64_t due =
        writes_ < config_.writes_before
            ? 0
            : std::min(config_.most,
                       (writes_ - config_.writes_before) / config_.interval);
    for (; deleted_ < due && thread_->status.ok(); ++deleted_) Delete();
    return thread_->status.ok();
  }

 private:
  void Delete() {
    EngineSession* const session = thread_->session.get();
    const uint64_t first = thread_->random.Uniform(context_.config.entries);
    if (config_.single) {
      for (uint64_t i = 0; i < config_.keys; ++i) {
        SetKey(context_, thread_, first + i);
        session->Delete(thread_->key);
      }
    } else {
      SetKey(context_, thread_, first + config_.keys);
      end_ = thread_->key;
      SetKey(context_, thread_, first);
      if (!session->DeleteRange(thread_->key, end_)) {
        thread_->status =
            Status::NotSupported("the engine has no deletions of ranges");
        return;
      }
    }
    thread_->status = session->Commit();
  }

  const LoopContext& context_;
  LoopThread* const thread_;
  const RangeDeletions& config_;
  std::string end_;
  uint64_t writes_ = 0;
  uint64_t deleted_ = 0;
};

// Limits the iterators of seeks to WorkloadConfig::max_scan_distance.
class SeekBounds {
 public:
  SeekBounds(const LoopContext& context, LoopThread* thread,
             EngineCursor* cursor)
      : context_(context), thread_(thread), cursor_(cursor) {}

  // Sets the bound for seeks of that key, which the thread has. Returns false
  // after an error.
  bool Set(uint64_t number) {
    const uint64_t distance = context_.config.max_scan_distance;
    if (distance == 0) return true;
    const bool reverse = context_.config.reverse;
    const uint64_t bound =
        reverse ? number - std::min(number, distance)
                : std::min(context_.config.entries, number + distance);
    const std::string sought = thread_->key;
    SetKey(context_, thread_, bound);
    key_.swap(thread_->key);
    thread_->key = sought;
    slice_ = key_;
    if (!cursor_->SetBounds(reverse ? &slice_ : nullptr,
                            reverse ? nullptr : &slice_)) {
      thread_->status =
          Status::NotSupported("the engine has no bounds of iterators");
      return false;
    }
    return true;
  }

 private:
  const LoopContext& context_;
  LoopThread* const thread_;
  EngineCursor* const cursor_;
  std::string key_;
  Slice slice_;
};

}  // namespace

LoopThread::LoopThread(const LoopContext& context, int its_index, uint64_t seed,
                       Slice value_bytes,
                       std::unique_ptr<EngineSession> new_session)
    : index(its_index),
      random(seed),
      values(value_bytes, SizesOf(context.config), seed,
             context.config.same_value_percent),
      key(context.config.key_bytes + (context.order == KeyOrder::kMissing),
          '0'),
      session(std::move(new_session)),
      permutation_seed(random.Next()) {
  if (context.config.histogram) latency_ns = std::make_unique<Histogram>();
}

double SineRate::At(double seconds) const {
  return std::max(1.0, a * std::sin(b * seconds + c) + d);
}

namespace {

template <typename Next>
void WriteAll(LoopContext* context, LoopThread* thread, Next next) {
  BatchSizes sizes(*context);
  BatchFamilies families(context->config);
  RangeDeleter ranges(context, thread);
  Pacer pacer = WritePacer(*context);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  const auto write = [&]() -> uint64_t {
    const uint64_t batch = sizes.Next();
    families.Begin();
    for (uint64_t i = 0; i < batch; ++i) {
      SetKey(*context, thread, families.Move(next()));
      const Slice value = thread->values.Next();
      thread->session->Put(thread->key, value);
      thread->bytes += thread->key.size() + value.size();
    }
    thread->status = thread->session->Commit();
    return thread->status.ok() && ranges.After(batch) ? batch : 0;
  };
  Repeat(context, thread, write,
         [&] { return pacer.Wait(thread->bytes, wanted); });
}

}  // namespace

void WriteKeys(LoopContext* context, LoopThread* thread,
               const std::function<uint64_t()>& next) {
  WriteAll(context, thread, next);
}

void WriteLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  WriteAll(context, thread, [&numbers] { return numbers.Next(); });
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
    return Read(thread, &value) ? 1 : 0;
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
  uint64_t found = 0;
  uint64_t bytes = 0;
  RepeatReads(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    const Slice key(thread->key);
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
  const WorkloadConfig& config = context->config;
  KeyNumbers numbers(*context, thread);
  const size_t batch = config.read_batch;
  const uint64_t stride = config.read_stride;
  std::vector<std::string> buffers(batch, thread->key);
  std::vector<Slice> keys(buffers.begin(), buffers.end());
  const bool has_families =
      config.column_families > 1 && context->keys == nullptr;
  std::vector<uint32_t> families(batch);
  RepeatReads(context, thread, [&]() -> uint64_t {
    uint64_t number = 0;
    for (size_t i = 0; i < batch; ++i) {
      number = i == 0 || stride == 0 ? numbers.Next()
                                     : (number + stride) % config.entries;
      if (context->keys != nullptr) {
        keys[i] = (*context->keys)[number % context->keys->size()];
        continue;
      }
      SetKey(config, number, buffers[i].size(), buffers[i].data());
      if (has_families) families[i] = FamilyOf(config, number);
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
    thread->bytes += found * thread->key.size() + value_bytes;
    return batch;
  });
  thread->lookups = thread->operations;
}

void SeekLoop(LoopContext* context, LoopThread* thread) {
  const WorkloadConfig& config = context->config;
  KeyNumbers numbers(*context, thread);
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  const uint64_t nexts = config.seek_nexts;
  const bool reverse = config.reverse;
  SeekBounds bounds(*context, thread, cursor.get());
  EngineSession* const session = thread->session.get();
  // Values are copied so that reading them is paid for.
  char copy[256];
  RepeatReads(context, thread, [&]() -> uint64_t {
    const uint64_t number = numbers.Next();
    SetKey(*context, thread, number);
    if (context->keys == nullptr) {
      cursor->SelectFamily(FamilyOf(config, number));
    }
    if (!bounds.Set(number)) return 0;
    // Stored keys have '0' there, after the number of their prefix.
    if (config.seek_missing) thread->key[8] = '1';
    cursor->Renew();
    bool valid = cursor->Seek(thread->key);
    thread->found += valid && cursor->key == Slice(thread->key);
    for (uint64_t i = 0; i < nexts && valid; ++i) {
      memcpy(copy, cursor->value.data(),
             std::min(sizeof(copy), cursor->value.size()));
      // The compiler must not see that the copy is not used.
      asm volatile("" : : "r"(copy) : "memory");
      thread->bytes += cursor->key.size() + cursor->value.size();
      valid = reverse ? cursor->Prev() : cursor->Next();
    }
    for (uint64_t i = 0; i < config.seek_deletes && valid; ++i) {
      session->SelectFamily(FamilyOf(config, number));
      session->Delete(cursor->key);
      thread->status = session->Commit();
      if (!thread->status.ok()) return 0;
      valid = reverse ? cursor->Prev() : cursor->Next();
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

namespace {

// Calls `step` until the other threads have ended, or it returns false.
template <typename Step>
void RunBeside(LoopContext* context, LoopThread* thread, bool writes,
               Step step) {
  const WorkloadConfig& config = context->config;
  Pacer pacer(writes ? config.write_bytes_per_second : 0, 1);
  const uint64_t limit =
      writes && config.finish_after_writes ? config.writes : UINT64_MAX;
  // relaxed: an operation more or less does no harm.
  const auto wanted = [context] {
    return context->foreground.load(std::memory_order_relaxed) > 0;
  };
  thread->start = Clock::now();
  // Once at least, also if the others ended before it began.
  do {
    if (!step()) break;
    ++thread->operations;
    pacer.Wait(thread->bytes, wanted);
  } while (thread->operations < limit && wanted());
  thread->end = Clock::now();
}

}  // namespace

void BackgroundWriteLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  RunBeside(context, thread, /*writes=*/true, [&] {
    SetKey(*context, thread, numbers.Next());
    return Write(thread, thread->values.Next());
  });
}

void BackgroundMergeLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  RunBeside(context, thread, /*writes=*/true, [&] {
    SetKey(*context, thread, numbers.Next());
    if (!Merge(thread)) return false;
    thread->status = thread->session->Commit();
    return thread->status.ok();
  });
}

void BackgroundScanLoop(LoopContext* context, LoopThread* thread) {
  const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
  uint64_t turn = 0;
  bool valid = false;
  RunBeside(context, thread, /*writes=*/false, [&] {
    if (valid) {
      valid = cursor->Next();
    } else {
      cursor->SelectFamily(FamilyOf(context->config, turn++));
      cursor->Renew();
      valid = cursor->SeekToFirst();
    }
    if (valid) thread->bytes += cursor->key.size() + cursor->value.size();
    if (!valid) thread->status = cursor->status();
    return thread->status.ok();
  });
}

}  // namespace varve
