// Varve: a key-value storage engine. MIT licence, see LICENSE.
// The benchmark timeseries. A key is the number of a series, the time, and
// zeros, each number with 8 bytes, the highest first.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"

namespace varve {

namespace {

constexpr size_t kIdBytes = 8;
constexpr size_t kTimeBytes = 8;

// The number of entries that were written.
std::atomic<uint64_t> series_time{0};

void WriteSeries(LoopContext* context, LoopThread* thread) {
  const WorkloadConfig& config = context->config;
  Pacer pacer(config.write_bytes_per_second, 1);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  const auto write = [&]() -> uint64_t {
    char time[kTimeBytes];
    // relaxed: this thread alone counts.
    WriteKey(series_time.fetch_add(1, std::memory_order_relaxed), sizeof(time),
             time);
    WriteKey(thread->random.Uniform(config.series.ids), thread->key.size(),
             thread->key.data());
    memcpy(thread->key.data() + kIdBytes, time, sizeof(time));
    return Write(thread, thread->values.Next()) ? 1 : 0;
  };
  Repeat(context, thread, write,
         [&] { return pacer.Wait(thread->bytes, wanted); });
}

// Reads the entries of random series until the writer has ended, or deletes
// those that are too old.
void ReadSeries(LoopContext* context, LoopThread* thread, bool deletes) {
  const WorkloadConfig& config = context->config;
  EngineSession* const session = thread->session.get();
  const std::unique_ptr<EngineCursor> cursor = session->NewCursor();
  // relaxed: a series more or less does no harm.
  const auto wanted = [context] {
    return context->foreground.load(std::memory_order_relaxed) ==
           context->threads;
  };
  Pacer pacer(config.reads_per_second, std::max(1, context->threads - 1));
  char copy[256];
  // Returns the number of entries.
  const auto read = [&]() -> uint64_t {
    uint64_t count = 0;
    WriteKey(thread->random.Uniform(config.series.ids), kIdBytes,
             thread->key.data());
    const Slice id(thread->key.data(), kIdBytes);
    cursor->Renew();
    bool valid = cursor->Seek(id);
    ++thread->lookups;
    thread->found += valid && cursor->key.starts_with(id) ? 1 : 0;
    for (; valid && cursor->key.starts_with(id); valid = cursor->Next()) {
      thread->bytes += cursor->key.size();
      if (deletes) {
        // The oldest come first.
        if (!IsExpired(cursor->key, config.series.time_range)) break;
        session->Delete(cursor->key);
        thread->status = session->Commit();
        if (!thread->status.ok()) return 0;
      } else {
        thread->bytes += cursor->value.size();
        memcpy(copy, cursor->value.data(),
               std::min(sizeof(copy), cursor->value.size()));
        // The compiler must not see that the copy is not used.
        asm volatile("" : : "r"(copy) : "memory");
      }
      ++count;
    }
    if (!valid) thread->status = cursor->status();
    return count;
  };
  uint64_t done = 0;
  thread->start = Clock::now();
  // One series at least, also if the writer was faster than the start.
  do {
    const Clock::time_point begin =
        thread->latency_ns != nullptr ? Clock::now() : Clock::time_point();
    done += read();
    if (thread->latency_ns != nullptr) {
      thread->latency_ns->Add(ToNanoseconds(Clock::now() - begin));
    }
    // relaxed: for display only.
    thread->done.store(done, std::memory_order_relaxed);
    pacer.Wait(thread->lookups, wanted);
  } while (thread->status.ok() && wanted());
  thread->end = Clock::now();
  thread->operations = done;
}

}  // namespace

bool IsExpired(const Slice& key, uint64_t time_range) {
  if (key.size() < kIdBytes + kTimeBytes) return false;
  uint64_t time = 0;
  memcpy(&time, key.data() + kIdBytes, sizeof(time));
  // relaxed: an entry more or less does no harm.
  const uint64_t now = series_time.load(std::memory_order_relaxed);
  return now - __builtin_bswap64(time) > time_range;
}

void ResetSeriesTime() {
  // relaxed: no thread of a benchmark runs.
  series_time.store(0, std::memory_order_relaxed);
}

void TimeSeriesLoop(LoopContext* context, LoopThread* thread) {
  if (thread->key.size() < kIdBytes + kTimeBytes) {
    thread->status =
        Status::NotSupported("timeseries needs --key_size=16 or more");
  } else if (thread->index == 0) {
    thread->is_beside = context->threads > 1;
    WriteSeries(context, thread);
  } else {
    const SeriesConfig& series = context->config.series;
    ReadSeries(
        context, thread,
        series.expiry == Expiry::kDelete && thread->index <= series.deleters);
  }
}

}  // namespace varve
