// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/workload.h"

#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "tools/db_bench/db_bench_environment.h"
#include "tools/db_bench/workload_loops.h"
#include "tools/db_bench/workload_path_counts.h"
#include "util/base/append_format.h"

namespace varve {

// A benchmark runs a loop in each thread, or an action of the engine once.
struct Benchmark {
  const char* name;
  const char* what;
  // For "Microseconds per ...".
  const char* operation;
  Loop loop = nullptr;
  KeyOrder order = KeyOrder::kRandom;
  Status (Engine::*action)() = nullptr;
  // The engine's property to print.
  const char* property = nullptr;
  // Starts with an empty database.
  bool fresh = false;
  // Makes no sense without entries.
  bool needs_data = false;
  bool writes = false;
  bool sync = false;
  // In place of num, value_size and batch_size, if not zero.
  uint64_t part = 0;  // 1 / part of num.
  size_t value_bytes = 0;
  uint64_t write_batch = 0;
  // Runs in one more thread, until the others have ended.
  Loop background = nullptr;
  // Needs the engine's catalog.
  bool catalog = false;
  // Needs a merge operator.
  bool merges = false;
  // Reads and writes: WorkloadConfig::mixed operations.
  bool mixed = false;
  // Operations that delete: WorkloadConfig::deletes.
  bool deletes = false;
  // Runs in one thread, whatever the number of threads.
  bool single = false;
  // The operations are over blocks, of so many bytes together. If both are not
  // zero: so many operations.
  uint64_t block_bytes = 0;
  uint64_t fixed = 0;
  // Reads all entries, not WorkloadConfig::reads.
  bool all = false;
  // Needs transactions.
  bool transactions = false;
};

namespace {

constexpr size_t kValueBytes = 1 << 20;

const Benchmark kBenchmarks[] = {
    {.name = "fillseq",
     .what = "write num entries in key order, into a new database",
     .operation = "write",
     .loop = WriteLoop,
     .order = KeyOrder::kSequential,
     .fresh = true,
     .writes = true},
    {.name = "fillrandom",
     .what = "write num entries of random keys, into a new database",
     .operation = "write",
     .loop = WriteLoop,
     .fresh = true,
     .writes = true},
    {.name = "filluniquerandom",
     .what = "write each key once in random order, into a new database",
     .operation = "write",
     .loop = WriteLoop,
     .order = KeyOrder::kUniqueRandom,
     .fresh = true,
     .writes = true},
    {.name = "fillsync",
     .what = "write num/1000 entries of random keys, each write synced, into "
             "a new database",
     .operation = "write",
     .loop = WriteLoop,
     .fresh = true,
     .writes = true,
     .sync = true,
     .part = 1000},
    {.name = "fillbatch",
     .what = "write num entries in key order, 1,000 at once, into a new "
             "database",
     .operation = "write",
     .loop = WriteLoop,
     .order = KeyOrder::kSequential,
     .fresh = true,
     .writes = true,
     .write_batch = 1000},
    {.name = "fill100K",
     .what = "write num/1000 entries of random keys with values of 100,000 "
             "bytes, into a new database",
     .operation = "write",
     .loop = WriteLoop,
     .fresh = true,
     .writes = true,
     .part = 1000,
     .value_bytes = 100000},
    {.name = "overwrite",
     .what = "write num entries of random keys",
     .operation = "write",
     .loop = WriteLoop,
     .needs_data = true,
     .writes = true},
    {.name = "readseq",
     .what = "read entries in key order",
     .operation = "read",
     .loop = ReadSequentialLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true},
    {.name = "readreverse",
     .what = "read entries in reverse key order",
     .operation = "read",
     .loop = ReadReverseLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true},
    {.name = "readrandom",
     .what = "get random keys",
     .operation = "read",
     .loop = ReadRandomLoop,
     .needs_data = true},
    {.name = "readmissing",
     .what = "get random keys that are not there",
     .operation = "read",
     .loop = ReadRandomLoop,
     .order = KeyOrder::kMissing,
     .needs_data = true},
    {.name = "readhot",
     .what = "get random keys of the first hundredth",
     .operation = "read",
     .loop = ReadRandomLoop,
     .order = KeyOrder::kHot,
     .needs_data = true},
    {.name = "multireadrandom",
     .what = "get random keys, batch_size (by default 32) at once",
     .operation = "multi read",
     .loop = MultiReadLoop,
     .needs_data = true},
    {.name = "seekrandom",
     .what = "make an iterator, seek a random key, walk seek_nexts entries",
     .operation = "seek",
     .loop = SeekLoop,
     .needs_data = true},
    {.name = "seekfirst",
     .what = "make an iterator and move it to the first entry",
     .operation = "seek",
     .loop = SeekFirstLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true},
    {.name = "readwhilewriting",
     .what = "readrandom with one more thread that writes random keys",
     .operation = "read",
     .loop = ReadRandomLoop,
     .needs_data = true,
     .background = BackgroundWriteLoop},
    {.name = "seekrandomwhilewriting",
     .what = "seekrandom with one more thread that writes random keys",
     .operation = "seek",
     .loop = SeekLoop,
     .needs_data = true,
     .background = BackgroundWriteLoop},
    {.name = "deleteseq",
     .what = "delete num keys in key order",
     .operation = "delete",
     .loop = DeleteLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true,
     .writes = true,
     .deletes = true},
    {.name = "deleterandom",
     .what = "delete num random keys",
     .operation = "delete",
     .loop = DeleteLoop,
     .needs_data = true,
     .writes = true,
     .deletes = true},
    {.name = "mergerandom",
     .what = "merge num operands into random keys of --merge_keys",
     .operation = "merge",
     .loop = MergeLoop,
     .order = KeyOrder::kMerge,
     .writes = true,
     .merges = true},
    {.name = "readrandommergerandom",
     .what = "num times, merge into or get a random key of --merge_keys",
     .operation = "op",
     .loop = ReadOrMergeLoop,
     .order = KeyOrder::kMerge,
     .writes = true,
     .merges = true,
     .mixed = true},
    {.name = "popfirst",
     .what = "as seekfirst, and delete the key found, as a queue does",
     .operation = "pop",
     .loop = PopFirstLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true,
     .writes = true},
    {.name = "readtocache",
     .what = "read all entries in key order, in one thread",
     .operation = "read",
     .loop = ReadSequentialLoop,
     .order = KeyOrder::kSequential,
     .needs_data = true,
     .single = true,
     .all = true},
    {.name = "readrandomsmall",
     .what = "readrandom of a thousandth of the reads",
     .operation = "read",
     .loop = ReadRandomLoop,
     .needs_data = true,
     .part = 1000},
    {.name = "readrandomfast",
     .what =
         "get random keys below the next power of two, some of them missing",
     .operation = "read",
     .loop = ReadRandomLoop,
     .order = KeyOrder::kPowerOfTwo,
     .needs_data = true},
    {.name = "readrandomoperands",
     .what = "get the merge operands of random keys",
     .operation = "read",
     .loop = OperandsLoop,
     .needs_data = true,
     .merges = true},
    {.name = "approximatesizerandom",
     .what = "estimate the bytes of a hundredth of the keys, from a random one",
     .operation = "estimate",
     .loop = ApproximateSizeLoop,
     .needs_data = true},
    {.name = "newiterator",
     .what = "make an iterator",
     .operation = "iterator",
     .loop = NewIteratorLoop,
     .needs_data = true},
    {.name = "newiteratorwhilewriting",
     .what = "newiterator with one more thread that writes random keys",
     .operation = "iterator",
     .loop = NewIteratorLoop,
     .needs_data = true,
     .background = BackgroundWriteLoop},
    {.name = "multireadwhilewriting",
     .what = "multireadrandom with one more thread that writes random keys",
     .operation = "multi read",
     .loop = MultiReadLoop,
     .needs_data = true,
     .background = BackgroundWriteLoop},
    {.name = "readwhilescanning",
     .what = "readrandom with one more thread that reads all entries in order",
     .operation = "read",
     .loop = ReadRandomLoop,
     .needs_data = true,
     .background = BackgroundScanLoop},
    {.name = "readwhilemerging",
     .what = "readrandom with one more thread that merges into random keys",
     .operation = "read",
     .loop = ReadRandomLoop,
     .needs_data = true,
     .background = BackgroundMergeLoop,
     .merges = true},
    {.name = "seekrandomwhilemerging",
     .what = "seekrandom with one more thread that merges into random keys",
     .operation = "seek",
     .loop = SeekLoop,
     .needs_data = true,
     .background = BackgroundMergeLoop,
     .merges = true},
    {.name = "readrandomwriterandom",
     .what = "get random keys, and write others: readwritepercent are gets",
     .operation = "op",
     .loop = ReadOrWriteLoop,
     .needs_data = true,
     .writes = true,
     .mixed = true},
    {.name = "updaterandom",
     .what = "get a random key and write it",
     .operation = "update",
     .loop = UpdateLoop,
     .needs_data = true,
     .writes = true,
     .mixed = true},
    {.name = "xorupdaterandom",
     .what = "updaterandom with the exclusive or of the old value and another",
     .operation = "update",
     .loop = XorUpdateLoop,
     .needs_data = true,
     .writes = true,
     .mixed = true},
    {.name = "appendrandom",
     .what = "updaterandom with the old value and another behind it",
     .operation = "update",
     .loop = AppendLoop,
     .needs_data = true,
     .writes = true,
     .mixed = true},
    {.name = "randomwithverify",
     .what = "get, write and delete three copies of numdistinct keys, and "
             "compare the copies",
     .operation = "op",
     .loop = VerifyLoop,
     .order = KeyOrder::kDistinct,
     .writes = true,
     .mixed = true},
    {.name = "mixgraph",
     .what = "gets, puts and scans of hot and cold keys, by the mix_ flags",
     .operation = "op",
     .loop = MixGraphLoop,
     .needs_data = true,
     .writes = true,
     .mixed = true},
    {.name = "fillseekseq",
     .what = "write num entries in key order, seek each, walk seek_nexts",
     .operation = "seek",
     .loop = FillSeekSeqLoop,
     .order = KeyOrder::kSequential,
     .writes = true},
    {.name = "randomtransaction",
     .what = "add to a random key of each of transaction_sets sets, in a "
             "transaction, and compare the sums",
     .operation = "transaction",
     .loop = TransactionLoop,
     .writes = true,
     .mixed = true,
     .transactions = true},
    {.name = "cataloglookup",
     .what = "find one of 10 databases of a catalog, by its name in any case",
     .operation = "lookup",
     .loop = CatalogLookupLoop,
     .catalog = true},
    {.name = "compact",
     .what = "compact the whole database",
     .operation = "op",
     .action = &Engine::Compact},
    {.name = "compactall",
     .what = "the same as compact",
     .operation = "op",
     .action = &Engine::Compact},
    {.name = "compact0",
     .what = "compact the tables of level 0 into the next level that has some",
     .operation = "op",
     .action = &Engine::CompactLevel0},
    {.name = "compact1",
     .what = "compact the tables of that level into the one below",
     .operation = "op",
     .action = &Engine::CompactLevel1},
    {.name = "flush",
     .what = "write the write buffer to a table",
     .operation = "op",
     .action = &Engine::Flush},
    {.name = "waitforcompaction",
     .what = "wait until no flush or compaction is due",
     .operation = "op",
     .action = &Engine::WaitForCompaction},
    {.name = "verifychecksum",
     .what = "verify the checksums of all blocks",
     .operation = "op",
     .action = &Engine::VerifyChecksum,
     .needs_data = true},
    {.name = "stats",
     .what = "print the engine's statistics",
     .operation = "op",
     .property = "stats"},
    {.name = "levelstats",
     .what = "print the number and bytes of files a level",
     .operation = "op",
     .property = "levelstats"},
    {.name = "sstables",
     .what = "print all tables with their first and last keys",
     .operation = "op",
     .property = "sstables"},
    {.name = "memstats",
     .what = "print the entries and bytes of the memtables",
     .operation = "op",
     .property = "memstats"},
    {.name = "crc32c",
     .what = "CRC-32C of blocks of block_size bytes, 500 MB",
     .operation = "checksum",
     .loop = Crc32cLoop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{500} << 20},
    {.name = "xxhash",
     .what = "the same with XXH32",
     .operation = "checksum",
     .loop = XxHash32Loop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{500} << 20},
    {.name = "xxhash64",
     .what = "the same with XXH64",
     .operation = "checksum",
     .loop = XxHash64Loop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{500} << 20},
    {.name = "xxh3",
     .what = "the same with XXH3, which tables have",
     .operation = "checksum",
     .loop = Xxh3Loop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{500} << 20},
    {.name = "compress",
     .what = "compress blocks of block_size bytes, 1 GB",
     .operation = "block",
     .loop = CompressLoop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{1} << 30},
    {.name = "uncompress",
     .what = "uncompress blocks of block_size bytes, 1 GB",
     .operation = "block",
     .loop = UncompressLoop,
     .order = KeyOrder::kSequential,
     .block_bytes = uint64_t{1} << 30},
    {.name = "acquireload",
     .what = "1,000 loads of an atomic",
     .operation = "op",
     .loop = AcquireLoadLoop,
     .order = KeyOrder::kSequential,
     .fixed = 100000},
};

// Threads that all start at once.
class StartingLine {
 public:
  explicit StartingLine(int threads) : missing_(threads) {}

  void ArriveAndWait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (--missing_ == 0) changed_.notify_all();
    changed_.wait(lock, [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

// Tells on stderr and in WorkloadConfig::report_file how far the threads are,
// from a thread that sleeps in between: the measured ones pay nothing for it.
class Watcher {
 public:
  Watcher(const Benchmark& benchmark, const LoopContext& context,
          const std::vector<std::unique_ptr<LoopThread>>& threads,
          Engine* engine)
      : benchmark_(benchmark),
        config_(context.config),
        threads_(threads),
        engine_(engine) {
    if (config_.report_interval.count() > 0) {
      file_ = fopen(config_.report_file.c_str(), "w");
      if (file_ != nullptr) fputs("secs_elapsed,interval_qps\n", file_);
    }
    if (config_.progress || config_.stats_interval.count() > 0 ||
        config_.stats_operations > 0 || file_ != nullptr) {
      thread_ = std::thread([this] { Watch(); });
    }
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (file_ != nullptr) fclose(file_);
    // Leaves the line to the result.
    if (config_.progress) fputs("\r\033[K", stderr);
  }

 private:
  // One of the reports, with what was done until the last one.
  struct Report {
    Clock::duration interval;
    Clock::time_point next;
    uint64_t done = 0;
  };

  void Watch() {
    const Clock::time_point start = Clock::now();
    const auto make = [start](Clock::duration interval) {
      return Report{interval, start + interval};
    };
    const bool by_time = config_.stats_interval.count() > 0;
    const bool by_count = !by_time && config_.stats_operations > 0;
    Report stats = make(by_time    ? config_.stats_interval
                        : by_count ? kPoll
                                   : std::chrono::seconds(1));
    Report file = make(config_.report_interval);
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      const Clock::time_point next =
          file_ == nullptr ? stats.next : std::min(stats.next, file.next);
      if (changed_.wait_until(lock, next, [this] { return ended_; })) return;
      uint64_t done = 0;
      for (const auto& thread : threads_) {
        // relaxed: for display only.
        done += thread->done.load(std::memory_order_relaxed);
      }
      const double seconds =
          std::chrono::duration<double>(Clock::now() - start).count();
      if (file_ != nullptr && next == file.next) {
        fprintf(file_, "%.0f,%.0f\n", seconds,
                static_cast<double>(done - file.done) /
                    static_cast<double>(config_.report_interval.count()));
        fflush(file_);
        file.done = done;
        file.next += file.interval;
      }
      if (next != stats.next) continue;
      stats.next += stats.interval;
      if (by_count && done / config_.stats_operations ==
                          last_done_ / config_.stats_operations) {
        continue;
      }
      if (by_time || by_count) {
        ReportStats(done, seconds);
      } else if (config_.progress) {
        fprintf(stderr, "\r\033[K%s: %" PRIu64 " operations in %.0f s",
                benchmark_.name, done, seconds);
        fflush(stderr);
      }
    }
  }

  void ReportStats(uint64_t done, double seconds) {
    fprintf(stderr,
            "... %s: %.0f seconds, %.0f ops/sec now, %.0f ops/sec on average\n",
            benchmark_.name, seconds,
            static_cast<double>(done - last_done_) / (seconds - last_seconds_),
            static_cast<double>(done) / seconds);
    last_done_ = done;
    last_seconds_ = seconds;
    std::string text;
    if (config_.engine_stats && engine_->Property("stats", &text)) {
      fputs(text.c_str(), stderr);
    }
  }

  static constexpr std::chrono::milliseconds kPoll{20};

  const Benchmark& benchmark_;
  const WorkloadConfig& config_;
  const std::vector<std::unique_ptr<LoopThread>>& threads_;
  Engine* const engine_;
  FILE* file_ = nullptr;
  uint64_t last_done_ = 0;
  double last_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

// Adds up what the threads did.
void Summarize(const std::vector<std::unique_ptr<LoopThread>>& threads,
               BenchmarkResult* result) {
  Clock::time_point start = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();
  for (const auto& thread : threads) {
    start = std::min(start, thread->start);
    end = std::max(end, thread->end);
    result->thread_seconds +=
        std::chrono::duration<double>(thread->end - thread->start).count();
    result->operations += thread->operations;
    result->bytes += thread->bytes;
    result->found += thread->found;
    result->lookups += thread->lookups;
    if (thread->latency_ns == nullptr) continue;
    if (result->latency_ns == nullptr) {
      result->latency_ns = std::make_unique<Histogram>();
    }
    result->latency_ns->Merge(*thread->latency_ns);
  }
  result->elapsed_seconds = std::chrono::duration<double>(end - start).count();
}

// The operations of each thread.
uint64_t OperationsOf(const Benchmark& benchmark,
                      const WorkloadConfig& config) {
  if (benchmark.fixed > 0) return benchmark.fixed;
  if (benchmark.block_bytes > 0) {
    return std::max<uint64_t>(1, benchmark.block_bytes / config.block_bytes);
  }
  if (benchmark.all) return config.entries;
  if (benchmark.mixed) return config.mixed;
  if (benchmark.deletes) return config.deletes;
  return benchmark.writes ? config.writes : config.reads;
}

// Returns what is to be said of the results beside the figures.
std::string MessageOf(const Benchmark& benchmark, const LoopThread& sum) {
  std::string text;
  if (benchmark.loop == MixGraphLoop) {
    AppendFormat(&text,
                 "(%" PRIu64 " gets, %" PRIu64 " puts, %" PRIu64 " seeks)",
                 sum.mix[0], sum.mix[1], sum.mix[2]);
  } else if (benchmark.loop == CompressLoop && sum.bytes > 0) {
    AppendFormat(&text, "(output: %.1f%%)",
                 100 * static_cast<double>(sum.output_bytes) /
                     static_cast<double>(sum.bytes));
  } else if (benchmark.loop == TransactionLoop) {
    AppendFormat(&text, "(%" PRIu64 " of %" PRIu64 " failed)", sum.failures,
                 sum.operations);
  }
  return text;
}

// Returns what the process has used so far.
CpuTime ProcessCpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) / 1e6;
  };
  CpuTime used;
  used.user_seconds = seconds(usage.ru_utime);
  used.system_seconds = seconds(usage.ru_stime);
  return used;
}

// Returns the ablations that a benchmark must have used: the ones of the write
// path if it writes, the others if it looks up keys in random order.
AblationOptions AblationsOf(const Benchmark& benchmark,
                            const EngineConfig& config) {
  const AblationOptions& all = config.ablation;
  AblationOptions part;
  if (benchmark.writes) {
    part.memtable = all.memtable;
    part.statistics = all.statistics;
    part.trace_clock = all.trace_clock;
    part.trace_collect = all.trace_collect;
    part.key_case = all.key_case;
  } else if (benchmark.catalog) {
    part.catalog = all.catalog;
  } else if (benchmark.loop != nullptr &&
             benchmark.order != KeyOrder::kSequential) {
    part = all;
    part.memtable = {};
    part.catalog = {};
    part.waste = {};
    // The tables were opened with the database.
    if (config.open_files < 0) part.table_open = {};
  }
  return part;
}

}  // namespace

const Benchmark* FindBenchmark(const std::string& name) {
  for (const Benchmark& benchmark : kBenchmarks) {
    if (name == benchmark.name) return &benchmark;
  }
  return nullptr;
}

std::string DescribeBenchmarks() {
  std::string text;
  for (const Benchmark& benchmark : kBenchmarks) {
    char line[200];
    snprintf(line, sizeof(line), "  %-22s %s\n", benchmark.name,
             benchmark.what);
    text.append(line);
  }
  return text;
}

std::vector<std::string> BenchmarkNames() {
  std::vector<std::string> names;
  for (const Benchmark& benchmark : kBenchmarks) {
    names.push_back(benchmark.name);
  }
  return names;
}

bool WritesTo(const Benchmark& benchmark) {
  return benchmark.fresh || benchmark.writes ||
         (benchmark.background != nullptr &&
          benchmark.background != BackgroundScanLoop) ||
         (benchmark.action != nullptr &&
          benchmark.action != &Engine::VerifyChecksum &&
          benchmark.action != &Engine::WaitForCompaction);
}

Workload::Workload(const WorkloadConfig& config,
                   const EngineConfig& engine_config, Engine* engine)
    : config_(config),
      engine_config_(engine_config),
      engine_(engine),
      sync_(engine_config.sync),
      value_bytes_(
          CompressibleBytes(config.seed, config.compression_ratio,
                            std::max(kValueBytes, config.value_bytes))) {}

Status Workload::Open() {
  if (config_.use_existing_db) {
    engine_config_.create_if_missing = false;
    has_data_ = true;
    const Status status = Reopen(sync_);
    return status.ok() ? LoadKeys() : status;
  }
  return OpenFresh(sync_);
}

Status Workload::LoadKeys() {
  if (!config_.use_existing_keys) return Status::OK();
  const std::unique_ptr<EngineSession> session = engine_->NewSession();
  const std::unique_ptr<EngineCursor> cursor = session->NewCursor();
  cursor->Renew();
  for (bool valid = cursor->SeekToFirst(); valid; valid = cursor->Next()) {
    keys_.push_back(cursor->key.ToString());
  }
  if (!cursor->status().ok()) return cursor->status();
  if (!keys_.empty()) return Status::OK();
  return Status::NotFound("--use_existing_keys", "the database has none");
}

Status Workload::Close() {
  const Status status = engine_->Close();
  FinishCpuTime();
  return status;
}

void Workload::FinishCpuTime() {
  if (last_.name.empty()) return;
  CpuTime used = ProcessCpuTime();
  used.name = last_.name;
  used.operations = last_.operations;
  used.user_seconds -= last_.user_seconds;
  used.system_seconds -= last_.system_seconds;
  last_ = CpuTime();
  if (config_.report_cpu_time) config_.report_cpu_time(used);
}

Status Workload::OpenFresh(bool sync) {
  Status status = engine_->Destroy(engine_config_);
  if (!status.ok()) return status.Annotate("cannot remove the old database");
  untouched_ = true;
  has_data_ = false;
  return Reopen(sync);
}

Status Workload::Reopen(bool sync) {
  engine_config_.sync = sync;
  const Clock::time_point start = Clock::now();
  Status status = engine_->Open(engine_config_);
  open_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  return status;
}

bool Workload::NeedsFill(const Benchmark& benchmark) const {
  return benchmark.needs_data && !has_data_;
}

Status Workload::Fill(BenchmarkResult* result) {
  return Run(*FindBenchmark("filluniquerandom"), 1, result);
}

Status Workload::Run(const Benchmark& benchmark, int thread_count,
                     BenchmarkResult* result) {
  *result = BenchmarkResult();
  result->name = benchmark.name;
  result->operation = benchmark.operation;
  if (benchmark.fresh && config_.use_existing_db) {
    result->text = "skipped (--use_existing_db is true)";
    return Status::OK();
  }
  if (benchmark.transactions &&
      engine_config_.transactions == TransactionKind::kNone) {
    result->text =
        "skipped (needs --transaction_db or --optimistic_transaction_db)";
    return Status::OK();
  }
  if (benchmark.merges && engine_config_.merge_operator.empty()) {
    result->text = "skipped (needs --merge_operator)";
    return Status::OK();
  }
  const bool sync = sync_ || benchmark.sync;
  const bool replace = benchmark.fresh && !untouched_;
  const bool other_sync =
      benchmark.loop != nullptr && sync != engine_config_.sync;
  if (replace || other_sync) {
    Status status = Close();
    if (status.ok()) status = replace ? OpenFresh(sync) : Reopen(sync);
    if (!status.ok()) return status;
  }
  if (benchmark.writes || benchmark.background != nullptr) {
    untouched_ = false;
    has_data_ = true;
  }
  engine_->Property("levelstats", &result->levels);
  result->open_seconds = open_seconds_;
  std::string path_counts;
  engine_->Property("ablation-path-counts", &path_counts);
  if (benchmark.catalog) {
    const Status opened = engine_->OpenCatalog(engine_config_, CatalogNames());
    if (opened.IsNotSupported()) {
      result->text = "skipped (" + opened.message().ToString() + ")";
      return Status::OK();
    }
    if (!opened.ok()) return opened;
  }
  FinishCpuTime();
  ResetPeakRss();
  CpuTime before = ProcessCpuTime();
  Status status = benchmark.loop != nullptr
                      ? RunThreads(benchmark, thread_count, result)
                      : RunOnce(benchmark, result);
  result->peak_rss_bytes = PeakRssBytes();
  if (!status.ok()) return status;
  if (result->operations > 0) {
    last_ = std::move(before);
    last_.name = result->name;
    last_.operations = result->operations;
  }
  return CheckAblation(AblationsOf(benchmark, engine_config_), path_counts);
}

Status Workload::CheckAblation(const AblationOptions& wanted,
                               const std::string& path_counts_before) {
  std::string path_counts;
  engine_->Property("ablation-path-counts", &path_counts);
  const std::string idle =
      IdleAblations(wanted.ToString(), path_counts_before, path_counts);
  if (idle.empty()) return Status::OK();
  return Status::NotSupported(
      "ablated, but never asked for anything here: " + idle +
      "; its figures would be those of another variant");
}

Status Workload::RunOnce(const Benchmark& benchmark, BenchmarkResult* result) {
  if (benchmark.property != nullptr) {
    if (!engine_->Property(benchmark.property, &result->text)) {
      result->text = "the engine has none";
    }
    return Status::OK();
  }
  const Clock::time_point start = Clock::now();
  const Status status = (engine_->*benchmark.action)();
  if (status.IsNotSupported()) {
    result->text = "skipped (" + status.message().ToString() + ")";
    return Status::OK();
  }
  result->elapsed_seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  result->thread_seconds = result->elapsed_seconds;
  result->operations = 1;
  return status;
}

Status Workload::RunThreads(const Benchmark& benchmark, int thread_count,
                            BenchmarkResult* result) {
  WorkloadConfig config = config_;
  if (benchmark.value_bytes > 0) {
    config.value_bytes = benchmark.value_bytes;
    config.value_sizes.kind = ValueSizes::kFixed;
  }
  if (benchmark.write_batch > 0) config.write_batch = benchmark.write_batch;
  if (config.writes == 0) config.writes = config.entries;
  if (config.mixed == 0) config.mixed = config.entries;
  if (config.deletes == 0) config.deletes = config.entries;
  if (benchmark.single) thread_count = 1;
  LoopContext context{.config = config,
                      .order = benchmark.order,
                      .operations = OperationsOf(benchmark, config),
                      .threads = thread_count,
                      .writes = benchmark.writes,
                      .keys = keys_.empty() ? nullptr : &keys_};
  if (benchmark.part > 0) {
    context.operations =
        std::max<uint64_t>(1, context.operations / benchmark.part);
  }
  // Each benchmark has its own seeds, so that it does not read the keys that
  // the previous one has brought into the caches.
  Random seeds(config_.seed + ++benchmarks_run_);
  result->threads = thread_count;

  const auto make_thread = [&] {
    return std::make_unique<LoopThread>(context, seeds.Next(), value_bytes_,
                                        engine_->NewSession());
  };
  std::vector<std::unique_ptr<LoopThread>> threads;
  for (int i = 0; i < thread_count; ++i) threads.push_back(make_thread());
  std::unique_ptr<LoopThread> writer;
  if (benchmark.background != nullptr) writer = make_thread();

  context.foreground = thread_count;
  StartingLine line(thread_count + (writer != nullptr));
  const auto run = [&](LoopThread* thread, Loop loop) {
    line.ArriveAndWait();
    loop(&context, thread);
    // relaxed: the threads are joined before their results are read.
    if (!thread->status.ok()) {
      context.stop.store(true, std::memory_order_relaxed);
    }
    if (thread != writer.get()) {
      // relaxed: as above.
      context.foreground.fetch_sub(1, std::memory_order_relaxed);
    }
  };
  {
    const Watcher watcher(benchmark, context, threads, engine_);
    std::vector<std::thread> running;
    for (const auto& thread : threads) {
      running.emplace_back(run, thread.get(), benchmark.loop);
    }
    if (writer != nullptr) {
      running.emplace_back(run, writer.get(), benchmark.background);
    }
    for (std::thread& thread : running) thread.join();
  }
  Summarize(threads, result);
  if (writer != nullptr) {
    result->background_operations = writer->operations;
    result->background = benchmark.background == BackgroundWriteLoop ? "writes"
                         : benchmark.background == BackgroundMergeLoop
                             ? "merges"
                             : "entries scanned";
    threads.push_back(std::move(writer));
  }
  for (const auto& thread : threads) {
    if (thread->status.ok()) continue;
    if (!thread->status.IsNotSupported()) return thread->status;
    const std::string name = result->name;
    *result = BenchmarkResult();
    result->name = name;
    result->text = "skipped (" + thread->status.message().ToString() + ")";
    return Status::OK();
  }
  LoopThread sum(context, 0, value_bytes_, nullptr);
  for (const auto& thread : threads) {
    sum.operations += thread->operations;
    sum.bytes += thread->bytes;
    sum.failures += thread->failures;
    sum.output_bytes += thread->output_bytes;
    for (int i = 0; i < 3; ++i) sum.mix[i] += thread->mix[i];
  }
  result->message = MessageOf(benchmark, sum);
  if (benchmark.loop == VerifyLoop && sum.failures > 0) {
    return Status::Corruption("randomwithverify", "copies of a key differ");
  }
  if (benchmark.loop == TransactionLoop) {
    return CheckTransactions(config, engine_->NewSession().get());
  }
  return Status::OK();
}

std::string CompressibleBytes(uint64_t seed, double ratio, size_t bytes) {
  constexpr size_t kPieceBytes = 100;
  const size_t random_bytes = std::max<size_t>(
      1, static_cast<size_t>(ratio * static_cast<double>(kPieceBytes)));
  Random random(seed);
  std::string result;
  result.reserve(bytes + kPieceBytes);
  while (result.size() < bytes) {
    const size_t start = result.size();
    for (size_t i = 0; i < kPieceBytes; ++i) {
      // Random at first, then the same again.
      result.push_back(i < random_bytes
                           ? static_cast<char>(' ' + random.Uniform(95))
                           : result[start + i - random_bytes]);
    }
  }
  result.resize(bytes);
  return result;
}

}  // namespace varve
