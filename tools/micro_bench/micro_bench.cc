// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// micro_bench measures single parts of the engine beside their baselines, with
// the flags and the output of Google Benchmark:
//
//   micro_bench snapshots traces --benchmark_repetitions=5
//       --benchmark_enable_random_interleaving=true
//       --benchmark_report_aggregates_only=true
//
// $TMPDIR is where databases are created.

#include "tools/micro_bench/micro_bench.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>

// Null without jemalloc, with which the tools may be linked.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old,
                                             size_t* old_bytes, void* next,
                                             size_t next_bytes);

namespace varve::bench {

// ---- What topics share ------------------------------------------------------

TempDirectory::TempDirectory()
    : path_((std::filesystem::temp_directory_path() / "varve-bench-XXXXXX")
                .string()) {
  if (mkdtemp(path_.data()) == nullptr) abort();
}

TempDirectory::~TempDirectory() {
  std::error_code error;  // A leftover is harmless.
  std::filesystem::remove_all(path_, error);
}

void Must(const Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "micro_bench: %s\n", status.ToString().c_str());
  exit(1);
}

std::string RandomValue(Random* random, size_t bytes) {
  std::string value(bytes, 0);
  for (char& byte : value) byte = static_cast<char>(random->Next());
  return value;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return static_cast<double>(resident_pages) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

double HeapBytes() {
  if (mallctl == nullptr) return static_cast<double>(mallinfo2().uordblks);
  // Setting the epoch refreshes the statistics.
  uint64_t epoch = 1;
  size_t bytes = 0;
  size_t size = sizeof(bytes);
  mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch));
  mallctl("stats.allocated", &bytes, &size, nullptr, 0);
  return static_cast<double>(bytes);
}

struct ThreadsThatStay::State {
  static void* Run(void* argument) {
    auto* const self = static_cast<State*>(argument);
    self->run([self] {
      ++self->done;
      const std::lock_guard wait(self->end);
    });
    return nullptr;
  }

  const std::function<void(const std::function<void()>&)> run;
  std::mutex end{};
  std::atomic<size_t> done = 0;
  std::vector<pthread_t> threads = {};
};

ThreadsThatStay::ThreadsThatStay(
    size_t count, std::function<void(const std::function<void()>&)> run)
    : state_(new State{.run = std::move(run)}) {
  state_->end.lock();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  for (size_t i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, &State::Run, state_.get()) != 0) {
      break;
    }
    state_->threads.push_back(thread);
  }
  pthread_attr_destroy(&attributes);
  while (state_->done < state_->threads.size()) sched_yield();
}

ThreadsThatStay::~ThreadsThatStay() {
  state_->end.unlock();
  for (const pthread_t thread : state_->threads) pthread_join(thread, nullptr);
}

size_t ThreadsThatStay::count() const { return state_->threads.size(); }

BenchDb::BenchDb(const AblationOptions& ablation) {
  Options options;
  options.create_if_missing = true;
  options.experiment = NewExperiment(ablation);
  Must(DB::Open(options, directory_.path(), &db_));
  for (int i = 0; i < 1000; ++i) {
    Must(db_->Put({}, "key" + std::to_string(i), "value"));
  }
}

void SetQueryCounters(std::vector<double> micros, benchmark::State* state) {
  std::sort(micros.begin(), micros.end());
  double sum = 0;
  for (const double each : micros) sum += each;
  state->counters["min"] = micros.front();
  state->counters["avg"] = sum / static_cast<double>(micros.size());
  state->counters["median"] = micros[micros.size() / 2];
  state->counters["p95"] = micros[micros.size() * 95 / 100];
  state->counters["max"] = micros.back();
}

void ForThreads(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 2, 8, 32}) benchmark->Threads(threads);
}

void ForThreadsThatStay(benchmark::internal::Benchmark* benchmark) {
  for (const int threads : {1, 100, 1000, 4000}) benchmark->Arg(threads);
  benchmark->Iterations(200)->Unit(benchmark::kMicrosecond);
}

// ---- The program ------------------------------------------------------------

namespace {

struct Topic {
  const char* name;
  const char* what;
  void (*add)();
};

constexpr Topic kTopics[] = {
    {"statistics", "updates and queries of each form of statistics",
     AddStatistics},
    {"traces", "clocks, spans, and traces of each way to collect them",
     AddTraces},
    {"snapshots", "starts of reads, and scans for the oldest snapshot",
     AddSnapshots},
    {"memtable", "the memtable and its ordered structures", AddMemTable},
    {"key_fold", "the folding of a key, by SIMD and by the Unicode library",
     AddKeyFold},
    {"locks", "locks of keys in pessimistic transactions", AddLocks},
    {"transactions", "transactions, and their memory", AddTransactions},
    {"tables", "ingestion of tables, and seeks of prefixes", AddTables},
    {"memory", "the accounting of an allocation and its release", AddMemory},
    {"indexed_batch", "updates and reads of a WriteBatchWithIndex",
     AddIndexedBatch},
    {"families",
     "logs beside an idle column family, a catalog with a budget "
     "of write buffers, and many threads that read many families",
     AddFamilies},
    {"followers", "catch-ups of a follower, beside RocksDB's secondary",
     AddFollowers},
    {"streams", "puts beside a change stream that waits", AddStreams},
    {"large_batches", "puts beside another thread's large batches",
     AddLargeBatches},
};

const Topic* FindTopic(std::string_view name) {
  for (const Topic& topic : kTopics) {
    if (name == topic.name) return &topic;
  }
  return nullptr;
}

int Main(int argc, char** argv) {
  const Topic* topic = nullptr;
  for (int i = 1; i < argc; ++i) {
    topic = FindTopic(argv[i]);
    if (topic == nullptr) break;
    topic->add();
  }
  if (topic == nullptr) {
    fputs("micro_bench TOPIC... [--benchmark_...]: name at least one of\n",
          stderr);
    for (const Topic& each : kTopics) {
      fprintf(stderr, "  %-10s %s\n", each.name, each.what);
    }
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace

}  // namespace varve::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  return varve::bench::Main(argc, argv);
}
