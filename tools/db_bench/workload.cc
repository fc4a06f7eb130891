// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/workload.h"

#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "tools/db_bench/benchmark_table.h"
#include "tools/db_bench/db_bench_environment.h"
#include "tools/db_bench/workload_loops.h"
#include "tools/db_bench/workload_path_counts.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

constexpr size_t kValueBytes = 1 << 20;

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
    if (!thread->message.empty()) result->message = thread->message;
    if (thread->is_beside) {
      result->background_operations = thread->operations;
      result->background = "writes";
      continue;
    }
    result->thread_seconds +=
        std::chrono::duration<double>(thread->end - thread->start).count();
    result->operations += thread->operations;
    result->bytes += thread->bytes;
    result->found += thread->found;
    result->lookups += thread->lookups;
    if (thread->open_loop != nullptr) {
      if (result->open_loop == nullptr) {
        result->open_loop = std::make_unique<OpenLoopLatency>();
      }
      result->open_loop->puts_ns.Merge(thread->open_loop->puts_ns);
      result->open_loop->gets_ns.Merge(thread->open_loop->gets_ns);
    }
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
  if (benchmark.loop == IngestLoop) return config.ingest_calls;
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
  if (config_.report_open) {
    printf("OpenDb:     %f milliseconds\n", open_seconds_ * 1000);
  }
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
  const bool expires =
      benchmark.expires && config_.series.expiry == Expiry::kCompactionFilter;
  if (benchmark.expires) ResetSeriesTime();
  if (expires) {
    engine_config_.drops = [range =
                                config_.series.time_range](const Slice& key) {
      return IsExpired(key, range);
    };
  }
  const bool replace = benchmark.fresh && (!untouched_ || expires);
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
                      .engine = engine_,
                      .engine_config = &engine_config_,
                      .keys = keys_.empty() ? nullptr : &keys_};
  if (benchmark.part > 0) {
    context.operations =
        std::max<uint64_t>(1, context.operations / benchmark.part);
  }
  // Each benchmark has its own seeds, so that it does not read the keys that
  // the previous one has brought into the caches.
  Random seeds(config_.seed + ++benchmarks_run_);
  result->threads = thread_count;

  const auto make_thread = [&](int index) {
    return std::make_unique<LoopThread>(context, index, seeds.Next(),
                                        value_bytes_, engine_->NewSession());
  };
  std::vector<std::unique_ptr<LoopThread>> threads;
  for (int i = 0; i < thread_count; ++i) threads.push_back(make_thread(i));
  std::unique_ptr<LoopThread> writer;
  if (benchmark.background != nullptr) writer = make_thread(thread_count);

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
  LoopThread sum(context, 0, 0, value_bytes_, nullptr);
  for (const auto& thread : threads) {
    sum.operations += thread->operations;
    sum.bytes += thread->bytes;
    sum.failures += thread->failures;
    sum.output_bytes += thread->output_bytes;
    for (int i = 0; i < 3; ++i) sum.mix[i] += thread->mix[i];
  }
  if (result->message.empty()) result->message = MessageOf(benchmark, sum);
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
