// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files that count their reads and writes in Statistics and in the
// IOStatsContext of the calling thread.

#include <atomic>
#include <cstdint>
#include <memory>

#include "monitoring/statistics.h"
#include "monitoring/tsc_clock.h"
#include "varve/env.h"

namespace varve {

// The calls that this thread has made on table files, for the probe of an
// opening: opens by FilePool and TableCache with their checks, and reads of
// wrapped files. With the default Env and options each is one system call.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local uint64_t table_file_calls;

// Wraps a table file. `statistics` may be null. Otherwise it must outlive the
// file, as must `env`, whose clock is read.
std::unique_ptr<RandomAccessFile> NewInstrumentedFile(
    std::unique_ptr<RandomAccessFile> file, StatisticsImpl* statistics,
    Env* env);

// Counts the calls of log files that waited: for the device, for the journal of
// the file system, or for memory that it had to write out first.
// Thread-safety: thread-safe.
class FileWaits {
 public:
  // A call that takes about ten milliseconds or more has waited. In ticks of
  // the processor's time stamp counter, which has 1 to 5 of them a nanosecond.
  static constexpr uint64_t kLeastTicks = uint64_t{1} << 25;

  FileWaits();

  // Records a call that took `ticks`.
  void Record(uint64_t ticks);

  // relaxed, all: for a report.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t total_us() const {
    return total_us_.load(std::memory_order_relaxed);  // relaxed: as above.
  }
  uint64_t longest_us() const {
    return longest_us_.load(std::memory_order_relaxed);  // relaxed: as above.
  }

 private:
  const ClockAnchor begin_;
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> total_us_{0};
  std::atomic<uint64_t> longest_us_{0};
};

// Wraps a table file or log. If `waits` is not null, calls that waited are
// counted there.
std::unique_ptr<WritableFile> NewInstrumentedFile(
    std::unique_ptr<WritableFile> file, Env* env,
    std::shared_ptr<FileWaits> waits = nullptr);

}  // namespace varve
