// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The benchmarks of db_bench, and how each is measured.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monitoring/histogram.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/workload_data.h"
#include "varve/status.h"

namespace varve {

// The CPU time of a benchmark: of all threads of the process, those of the
// engine included, until the next benchmark starts or the database is closed.
struct CpuTime {
  std::string name;
  uint64_t operations = 0;
  double user_seconds = 0;
  double system_seconds = 0;
};

// The shape of mixgraph, which models the traffic of a service: see
// MixGraphLoop in workload_loops.h.
struct MixConfig {
  double get_ratio = 1;
  double put_ratio = 0;
  double seek_ratio = 0;
  // How hot a range of keys is: a * e^(b x) + c * e^(d x) for range number x.
  // All zero: ranges are equally hot.
  double range_a = 0;
  double range_b = 0;
  double range_c = 0;
  double range_d = 0;
  int64_t ranges = 1;
  // How hot a key is: a * x^b. All keys are equally hot if one is zero.
  double key_a = 0;
  double key_b = 0;
  // Generalized Pareto distributions of the bytes of values and the entries of
  // scans.
  double value_theta = 0;
  double value_k = 0.2615;
  double value_sigma = 25.45;
  double scan_theta = 0;
  double scan_k = 2.517;
  double scan_sigma = 14.236;
  int64_t max_value_bytes = 1024;
  int64_t max_scan = 10000;
};

// A rate that follows a sine: f(x) = a sin(b x + c) + d, for x seconds since
// the start. A rate below 1 counts as 1.
struct SineRate {
  double a = 1;
  double b = 1;
  double c = 0;
  double d = 1;
  // How long a rate lasts; 0: the rate is constant.
  std::chrono::milliseconds interval{0};

  double At(double seconds) const;
};

// The keys that filluniquerandom writes again: each write, with `probability`,
// is of one of the last `window` keys.
struct Overwrites {
  double probability = 0;
  uint64_t window = 1;
};

// The entries of fillanddeleteuniquerandom. After `batch` entries, `kept_batch`
// others are written, and the first ones are deleted.
struct DisposableEntries {
  // 0: each key is written once, and none deleted.
  uint64_t batch = 0;
  // The least time from the last entry of a batch to its deletion.
  std::chrono::microseconds delay{0};
  size_t value_bytes = 64;
  uint64_t kept_batch = 0;
  size_t kept_value_bytes = 64;
};

// How timeseries removes entries that are older than `time_range`.
enum class Expiry : uint8_t { kNone, kCompactionFilter, kDelete };

// The series of timeseries. The time is the number of entries before.
struct SeriesConfig {
  uint64_t ids = 100000;
  uint64_t time_range = 100000;
  Expiry expiry = Expiry::kNone;
  // Threads that delete, with kDelete. The first thread writes.
  int deleters = 1;
};

// The deletions of ranges that writing benchmarks do between their writes: one
// of `keys` keys after each `interval` writes, if that is not zero.
struct RangeDeletions {
  uint64_t interval = 0;
  uint64_t writes_before = 0;
  uint64_t keys = 100;
  uint64_t most = 0;
  // Deletes the keys one by one.
  bool single = false;
};

struct WorkloadConfig {
  // Keys are numbered [0, entries).
  uint64_t entries = 0;
  // Operations of each thread of a reading benchmark.
  uint64_t reads = 0;
  // The same of a writing benchmark, and of one that does both; 0: entries.
  uint64_t writes = 0;
  uint64_t mixed = 0;
  // The same of a deleting benchmark; 0: entries.
  uint64_t deletes = 0;
  int threads = 1;
  // The duration of random operations, if it is not zero.
  std::chrono::seconds duration{0};
  // The seed of all random choices.
  uint64_t seed = 0;
  size_t key_bytes = 0;
  KeyPrefix key_prefix;
  // Keys are text, and have no prefix.
  bool text_keys = false;
  size_t value_bytes = 0;
  // How the sizes of values differ, if they do.
  ValueSizes value_sizes;
  double compression_ratio = 0.5;
  // Column families. Key number n belongs to family n % column_families.
  uint32_t column_families = 1;
  // Updates per write.
  uint64_t write_batch = 1;
  // Families that the updates of a write take turns in, from the family of its
  // first key on. 0 leaves each key in the family of its number.
  uint32_t batch_families = 0;
  // Keys per MultiGet.
  uint64_t read_batch = 1;
  // Keys of mergerandom and readrandommergerandom: the first ones.
  uint64_t merge_keys = 0;
  // Of 100 operations of readrandommergerandom, merges.
  uint64_t merge_percent = 70;
  // Entries that seekrandom reads after each seek, backwards if `reverse`.
  uint64_t seek_nexts = 0;
  bool reverse = false;
  // The difference of the numbers of the keys of a MultiGet; 0: random ones.
  uint64_t read_stride = 0;
  // Of 100 operations of readrandomwriterandom and randomwithverify, reads, and
  // deletions. The others are writes.
  uint64_t read_percent = 90;
  uint64_t delete_percent = 2;
  // Operations of openloop that are due in a second, of all threads, and of 100
  // of them, puts. The others are gets.
  uint64_t rate = 100000;
  uint64_t put_percent = 50;
  // Keys of randomwithverify.
  uint64_t distinct_keys = 1000;
  // The writer beside others ends after `writes` updates.
  bool finish_after_writes = false;
  // Keys of a transaction of randomtransaction.
  uint64_t transaction_sets = 2;
  bool transaction_snapshots = false;
  // The most microseconds that a transaction sleeps before it writes a key.
  uint64_t transaction_sleep_us = 0;
  // Of 100 values, those that are the same.
  uint64_t same_value_percent = 0;
  // The most keys after the one that seekrandom seeks; 0: no limit. With
  // `reverse`, before it.
  uint64_t max_scan_distance = 0;
  // Seekrandom seeks keys between the stored ones.
  bool seek_missing = false;
  // Entries that seekrandom deletes after the ones it has read.
  uint64_t seek_deletes = 0;
  Overwrites overwrites;
  DisposableEntries disposable;
  // Of randomreplacekeys.
  bool single_deletes = true;
  double key_deviation = 2000;
  SeriesConfig series;
  // Tables of a call of ingestexternalfile, and its calls.
  uint64_t ingest_tables = 10;
  uint64_t ingest_calls = 1;
  // Another database that `verify` compares with.
  std::string truth_path;
  // Of crc32c, compress and the like: their blocks, and the compression.
  size_t block_bytes = 4096;
  std::string compression = "snappy";
  MixConfig mix;
  // Takes random keys from the existing database.
  bool use_existing_keys = false;
  // The limits of all threads together, of bytes that are written and of reads.
  // 0 is unlimited.
  uint64_t write_bytes_per_second = 0;
  uint64_t reads_per_second = 0;
  // The bytes per second of writing benchmarks in place of
  // write_bytes_per_second, and the operations per second of mixgraph.
  SineRate write_sine;
  SineRate mix_sine;
  // Of mixgraph's rate: how far it is off the sine, at random, from 0 to 1.
  double mix_noise = 0;
  // How much likelier some random keys of reads are than others: key number
  // entries * e^-x for a random x up to this. 0: all are as likely.
  double read_skew = 0;
  RangeDeletions range_deletions;
  // Measures each operation.
  bool histogram = false;
  // The interval of reports to stderr, if it is not zero.
  std::chrono::seconds stats_interval{0};
  // Operations between such reports, if it is not zero and stats_interval is.
  uint64_t stats_operations = 0;
  // Adds the engine's property "stats" to them.
  bool engine_stats = false;
  // A file with a line of the operations per second for each interval, if it is
  // not zero. Each benchmark writes it anew.
  std::chrono::seconds report_interval{0};
  std::string report_file;
  // Shows the progress on stderr.
  bool progress = false;
  // Prints how long each open took.
  bool report_open = false;
  // Of several runs, prints the bounds of the mean only.
  bool bounds_only = false;
  // Called with the CPU time of each benchmark, if not null.
  std::function<void(const CpuTime&)> report_cpu_time;
  // Keeps the existing database. Skips benchmarks that fill a new one.
  bool use_existing_db = false;
};

// The latencies of openloop: from when an operation was due to its end.
struct OpenLoopLatency {
  Histogram puts_ns;
  Histogram gets_ns;
};

struct BenchmarkResult {
  std::string name;
  // The name of one operation, such as "read".
  std::string operation;
  int threads = 1;
  uint64_t operations = 0;
  // From the start of the first thread to the end of the last.
  double elapsed_seconds = 0;
  // Sum over the threads.
  double thread_seconds = 0;
  // The bytes of keys and values read or written.
  uint64_t bytes = 0;
  // Keys found and keys looked up. `lookups` is zero if they are not counted.
  uint64_t found = 0;
  uint64_t lookups = 0;
  // Operations of the thread that runs next to the others.
  uint64_t background_operations = 0;
  // Their name, such as "writes".
  std::string background;
  // More to say of what was done, if not empty.
  std::string message;
  // Nanoseconds; null without WorkloadConfig::histogram.
  std::unique_ptr<Histogram> latency_ns;
  // Null unless the benchmark is openloop.
  std::unique_ptr<OpenLoopLatency> open_loop;
  // The most memory the process held during the benchmark.
  uint64_t peak_rss_bytes = 0;
  // The engine's levels before the benchmark. Empty if the engine has none.
  std::string levels;
  // The time to open the database last.
  double open_seconds = 0;
  // Text to print instead of figures, if not empty.
  std::string text;
};

struct Benchmark;

// Returns null if no benchmark has this name.
const Benchmark* FindBenchmark(const std::string& name);
// Returns all names with their descriptions, one per line.
std::string DescribeBenchmarks();
// Returns all names.
std::vector<std::string> BenchmarkNames();
// Whether the benchmark needs a database that can be written.
bool WritesTo(const Benchmark& benchmark);

// Runs benchmarks on one database.
class Workload {
 public:
  // `engine` must outlive this.
  Workload(const WorkloadConfig& config, const EngineConfig& engine_config,
           Engine* engine);

  // Opens the existing database with use_existing_db. Otherwise replaces it by
  // a new one.
  Status Open();
  Status Close();

  const WorkloadConfig& config() const { return config_; }

  // Returns whether the benchmark needs entries and none were written yet.
  bool NeedsFill(const Benchmark& benchmark) const;

  // An error means that the benchmark has no result.
  Status Run(const Benchmark& benchmark, BenchmarkResult* result) {
    return Run(benchmark, config_.threads, result);
  }
  // Writes each key once, with one thread.
  Status Fill(BenchmarkResult* result);

 private:
  Status OpenFresh(bool sync);
  Status Reopen(bool sync);
  Status Run(const Benchmark& benchmark, int thread_count,
             BenchmarkResult* result);
  Status RunThreads(const Benchmark& benchmark, int thread_count,
                    BenchmarkResult* result);
  Status RunOnce(const Benchmark& benchmark, BenchmarkResult* result);
  // Reads the keys of the database, if they are to be used.
  Status LoadKeys();
  // Reports the CPU time of the last benchmark, unless it was reported.
  void FinishCpuTime();
  // Returns OK if each ablation was in use since `path_counts_before`.
  Status CheckAblation(const AblationOptions& wanted,
                       const std::string& path_counts_before);

  const WorkloadConfig config_;
  EngineConfig engine_config_;
  Engine* const engine_;
  // Whether each write is synced, unless a benchmark sets it.
  const bool sync_;
  std::string value_bytes_;
  // With use_existing_keys.
  std::vector<std::string> keys_;
  // The database is new and nothing was written.
  bool untouched_ = false;
  bool has_data_ = false;
  uint64_t benchmarks_run_ = 0;
  double open_seconds_ = 0;
  // The last benchmark, with the process's times before it. Without a name if
  // there is nothing to report.
  CpuTime last_;
};

}  // namespace varve
