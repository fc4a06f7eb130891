// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// db_bench measures Varve and other engines, with the benchmarks, flags and
// result lines of RocksDB's tool of the same name:
//
//   db_bench fillrandom readrandom readwhilewriting
//
// A result's micros/op is the mean time of one operation in its own thread. Its
// ops/sec is the sum over all threads. With two threads, 2 micros/op are
// 1,000,000 ops/sec.

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tools/db_bench/db_bench_report.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/rocksdb/benchmark_flags.h"
#include "tools/db_bench/rocksdb/flags.h"
#include "tools/db_bench/seek_database.h"
#include "tools/db_bench/seek_runs.h"
#include "tools/db_bench/workload.h"
#include "varve/options.h"
#include "varve/trace.h"
#include "varve/version.h"

// ---- What to run ------------------------------------------------------------

DEFINE_string(benchmarks, "",
              "Benchmarks to run in this order, separated by commas; may be "
              "given as plain arguments as well. NAME[X3-W2] runs it three "
              "times, and two times before that without a report. Without "
              "any: fillrandom, readrandom, readwhilewriting");
DEFINE_string(engine, "varve",
              "Storage engine to run them on: varve, rocksdb, leveldb or "
              "lmdb; those of seeks over deleted entries run on pebble too");
DEFINE_string(pebble_library, "build/peers/libpebble_library.so",
              "The library for --engine=pebble, which tools/peers/build makes");
DEFINE_string(db, "",
              "Directory of the database. Without --use_existing_db a database "
              "that is there is replaced. Default: $TEST_TMPDIR/varve_bench, "
              "or /tmp/varve_bench, and for another engine the same with its "
              "name behind it");
DEFINE_bool(use_existing_db, false,
            "Keep the database there is; benchmarks that fill a new one are "
            "skipped");
DEFINE_int64(num, 1000000,
             "Entries in the database: keys are numbered from 0 to num - 1, "
             "and each thread of a writing benchmark does num operations "
             "(fillsync, fill100K: num / 1000)");
DEFINE_int64(reads, -1,
             "Operations of each thread of a reading benchmark; -1: num");
DEFINE_int64(writes, -1,
             "Operations of each thread of a writing benchmark; -1: num. Those "
             "that read and write do the larger of reads and writes");
DEFINE_int64(deletes, -1,
             "Operations of each thread of a deleting benchmark; -1: num");
DEFINE_bool(readonly, false,
            "Open the database for reading only; needs --use_existing_db");
DEFINE_bool(use_existing_keys, false,
            "Take random keys from those of the existing database, which are "
            "read at first. With families: the default one's");
DEFINE_bool(finish_after_writes, false,
            "The writer beside others ends after writes updates");
DEFINE_int32(threads, 1,
             "Threads that run a benchmark at the same time. micros/op is the "
             "mean time in one thread, ops/sec is of all together");
DEFINE_int32(duration, 0,
             "Seconds for each benchmark of random keys, instead of num and "
             "reads; 0: no limit");
DEFINE_int64(seed, 0,
             "Of all random choices; every benchmark and thread gets its own "
             "from it. 0: from the clock");

// ---- The data ---------------------------------------------------------------

DEFINE_int64(key_size, 16, "Bytes of a key");
DEFINE_int32(prefix_size, 0,
             "Bytes at the start of a key that are its prefix: as much of the "
             "prefix's number as goes in, and '0'. Needs --keys_per_prefix");
DEFINE_int64(keys_per_prefix, 0,
             "Keys that share a prefix: num / keys_per_prefix prefixes take "
             "turns, so that num makes all keys share one. 0: no prefixes");
DEFINE_bool(text_keys, false,
            "Keys are hexadecimal numbers in capital letters, not bytes");
DEFINE_int64(value_size, 100, "Bytes of a value");
DEFINE_string(
    value_size_distribution_type, "fixed",
    "Of the sizes of values: fixed (value_size), or uniform or normal "
    "from value_size_min to value_size_max");
DEFINE_int64(value_size_min, 100, "The fewest bytes of a value of random size");
DEFINE_int64(value_size_max, 102400, "The most bytes of one, up to 1 MiB");
DEFINE_double(compression_ratio, 0.5,
              "Values that compress to this part of their size");
DEFINE_int64(batch_size, 1,
             "Updates written at once, and keys of a MultiGet (there 32 if "
             "this flag is not given)");
DEFINE_int32(num_column_families, 1,
             "Number of column families. Key number n is in family n modulo "
             "this. Without it, --use_existing_db takes the number that "
             "db_bench created the database with. Families of other names are "
             "opened, too");
DEFINE_int32(batch_families, 0,
             "Number of column families that a batch updates in turn; 0: each "
             "key is in its own");
DEFINE_int64(multiread_stride, 0,
             "The keys of a MultiGet are so many numbers apart; 0: random");
DEFINE_int64(seek_nexts, 0, "Entries that seekrandom walks after each seek");
DEFINE_bool(reverse_iterator, false, "It walks them backwards");
DEFINE_int32(readahead_size, 0,
             "Bytes that iterators read ahead; 0: automatic");
DEFINE_bool(total_order_seek, false, "Iterators go over all prefixes");
DEFINE_bool(prefix_same_as_start, false,
            "Iterators end with the prefix of the key they sought");
DEFINE_bool(auto_prefix_mode, false,
            "Iterators use filters of prefixes where that changes no result");
DEFINE_bool(use_tailing_iterator, false,
            "Iterators see updates that are made after they were");
DEFINE_double(seek_scale, 1,
              "Multiplies the number of seeks and the times of the benchmarks "
              "of seeks over deleted entries");
DEFINE_double(read_random_exp_range, 0,
              "Reads prefer some of the random keys: number num * e^-x for a "
              "random x up to this. 0: all are as likely");
DEFINE_int64(writes_per_range_tombstone, 0,
             "Writes of a writing benchmark between deletions of ranges; 0: no "
             "such deletions");
DEFINE_int64(writes_before_delete_range, 0, "Writes before the first of them");
DEFINE_int64(range_tombstone_width, 100, "Keys of such a range");
DEFINE_int64(max_num_range_tombstones, 0,
             "The most such deletions of each thread");
DEFINE_bool(expand_range_tombstones, false,
            "Delete the keys of the range one by one");
DEFINE_int64(benchmark_read_rate_limit, 0,
             "Reads a second of readrandom, multireadrandom, seekrandom and "
             "those with writers beside; 0: as many as they can");
DEFINE_int64(merge_keys, -1,
             "Keys that mergerandom and readrandommergerandom use: the first "
             "ones of num; -1: all");
DEFINE_int32(mergereadpercent, 70,
             "Of 100 operations of readrandommergerandom, merges; the others "
             "are reads");
DEFINE_int32(readwritepercent, 90,
             "Of 100 operations of readrandomwriterandom and randomwithverify, "
             "reads");
DEFINE_int32(deletepercent, 2,
             "Of 100 operations of randomwithverify, deletions");
DEFINE_int64(rate, 100000,
             "Operations of openloop that are due in a second, of all threads");
DEFINE_int32(put_percent, 50, "Of 100 operations of openloop, puts");
DEFINE_int64(numdistinct, 1000, "Keys of randomwithverify");
DEFINE_bool(transaction_db, false,
            "Open the database with transactions that lock keys, for "
            "randomtransaction; varve only, as the next ones");
DEFINE_bool(optimistic_transaction_db, false,
            "The same with transactions that find conflicts when they commit");
DEFINE_uint64(transaction_sets, 2, "Keys of a transaction");
DEFINE_bool(transaction_set_snapshot, false,
            "A transaction takes a snapshot when it begins");
DEFINE_int64(transaction_lock_timeout, 100,
             "Milliseconds that a transaction waits for a lock");
DEFINE_int64(benchmark_write_rate_limit, 0,
             "Bytes a second that writing benchmarks and the writer of "
             "readwhilewriting put into the engine; 0: as many as they can");

// ---- The engine -------------------------------------------------------------

DEFINE_string(compression_type, "snappy",
              "none, snappy, zlib, bzip2, lz4, lz4hc or zstd");
DEFINE_int32(min_level_to_compress, -1,
             "The first level with compression; -1: all have it");
DEFINE_string(options_file, "",
              "OPTIONS file of RocksDB or Varve, whose options are used in "
              "place of db_bench's defaults; flags that are given come on top. "
              "Varve only");
DEFINE_int64(cache_size, 256 << 20,
             "Bytes of the block cache. The default holds a million entries");
DEFINE_int64(block_size, 4096, "Bytes of a data block before compression");
DEFINE_int32(bloom_bits, -1,
             "Bits a key of the tables' Bloom filters; -1 and 0: no filters, "
             "as RocksDB's db_bench");
DEFINE_int64(target_file_size_base, 64 << 20,
             "Bytes of a table that a compaction writes, about");
DEFINE_int32(open_files, -1, "Table files held open; -1: all");
DEFINE_int64(write_buffer_size, 64 << 20,
             "Bytes of updates in memory before they become a table");
DEFINE_int32(max_write_buffer_number, 2,
             "Such updates in memory at a time, those on their way to a table "
             "included");
DEFINE_int32(max_background_jobs, 2, "Flushes and compactions at a time");
DEFINE_int32(max_background_compactions, -1,
             "With max_background_flushes, in place of max_background_jobs: "
             "the sum of both, of which one that is not given is 1");
DEFINE_int32(max_background_flushes, -1, "See max_background_compactions");
DEFINE_int32(subcompactions, 1,
             "Parts of one compaction that run at the same time, at most");
DEFINE_bool(sync, false, "Every write waits until it is on the device");
DEFINE_bool(disable_wal, false, "Write no log");
DEFINE_bool(manual_wal_flush, false, "Hand the log over when a buffer is full");
DEFINE_bool(mmap_write, false, "The same as --wal_write=map");
DEFINE_string(wal_write, "auto", "How Varve writes the log: call, map or auto");
DEFINE_bool(mmap_read, false, "Map tables into memory");
DEFINE_bool(use_direct_reads, false, "Read tables past the page cache");
DEFINE_bool(cache_index_and_filter_blocks, false,
            "Charge indexes and filters to the block cache");
DEFINE_bool(partition_index_and_filters, false,
            "Cut indexes and filters of new tables into partitions");
DEFINE_int64(metadata_block_size, 4096, "Bytes of a partition, about");
DEFINE_bool(case_insensitive_keys, false,
            "Keys that differ in case only are the same (varve only). Needs "
            "--text_keys");
DEFINE_string(merge_operator, "",
              "The operator of mergerandom and readrandommergerandom: "
              "uint64add (with --value_size=8), stringappend, max, bytesxor, "
              "sortlist of numbers, or put, which keeps the newest; varve and "
              "rocksdb only");
DEFINE_string(compaction_filter, "",
              "drophalf: compactions drop every second key; varve and rocksdb "
              "only. To measure it, fill a database without it, and run "
              "compact with --use_existing_db");
DEFINE_bool(deletion_options, false,
            "RocksDB's options that compact tables with many deletions, and "
            "flush memtables over which iterators walk far");
DEFINE_bool(verify_checksum, true, "Verify the checksums of blocks read");
DEFINE_string(ablate, "",
              "Optimizations to switch back to how things were before them: "
              "NAME=VALUE, separated by commas");

// ---- What to report ---------------------------------------------------------

DEFINE_bool(histogram, false,
            "Measure every operation and print percentiles, and the peak of "
            "memory, after each benchmark");
DEFINE_bool(cpu_time, false,
            "Print the CPU time of an operation, after each benchmark: of all "
            "threads, until the next one starts or the database is closed");
DEFINE_bool(statistics, false, "Count the engine's events, print them at last");
DEFINE_int32(stats_level, 3,
             "How much Varve measures, printed or not: 0 nothing, 1 events, 2 "
             "sizes too, 3 times of a sample of the short operations and of "
             "all others, 4 of all operations, 5 waits for mutexes too");
DEFINE_int32(stats_interval_seconds, 0,
             "Print the speed to stderr so often while a benchmark runs");
DEFINE_int64(stats_interval, 0,
             "The same after so many operations of all threads, without "
             "--stats_interval_seconds; 0: never");
DEFINE_int32(stats_per_interval, 0,
             "Add the engine's statistics to these reports, if not 0");
DEFINE_bool(progress_reports, true, "Show the progress on a terminal");
DEFINE_string(report_file, "report.csv",
              "File for the operations a second of each interval of "
              "--report_interval_seconds; each benchmark writes it anew");
DEFINE_int64(report_interval_seconds, 0,
             "Seconds between the lines of --report_file; 0: no such file");
DEFINE_string(report_json, "", "File to write all results to, as JSON");

DEFINE_string(trace, "",
              "File to write traces of the engine's operations to, for "
              "ui.perfetto.dev and `varve trace`; of the name *.otlp.json, in "
              "the form of OpenTelemetry. Varve only");
DEFINE_double(trace_sampling, 1, "The part of the operations that is traced");
DEFINE_int64(trace_slower_than_us, 0,
             "Keep traces of operations that took at least so long only");

DEFINE_bool(rocksdb_flags, false,
            "Print which flags and benchmarks of RocksDB's db_bench there are, "
            "as docs/db_bench.md has it, and exit");

DECLARE_bool(help);
DECLARE_bool(helpshort);
DECLARE_bool(version);

namespace varve {

namespace {

constexpr uint64_t kDefaultReadBatch = 32;
constexpr size_t kTraceBufferBytes = size_t{1} << 30;

// The options of flags that db_bench.cc does not define.
OptionList option_flags;

Status Invalid(const std::string& message) {
  return Status::InvalidArgument(message);
}

Status CheckBound(const char* name, double value, double min, double max) {
  if (value >= min && value <= max) return Status::OK();
  char text[160];
  snprintf(text, sizeof(text), "--%s=%.15g: must be from %.15g to %.15g", name,
           value, min, max);
  return Invalid(text);
}

// Checks the values of flags alone.
Status CheckBounds() {
  constexpr struct {
    const char* name;
    double min;
    double max;
  } kBounds[] = {
      {"num", 1, 1e15},
      {"reads", -1, 1e15},
      {"writes", -1, 1e15},
      {"deletes", -1, 1e15},
      {"multiread_stride", 0, 1e15},
      {"readahead_size", 0, 1 << 30},
      {"readwritepercent", 0, 100},
      {"deletepercent", 0, 100},
      {"rate", 1, 1e9},
      {"put_percent", 0, 100},
      {"value_size_max", 0, 1 << 20},
      {"value_size_min", 0, 1 << 20},
      {"read_random_exp_range", 0, 1000},
      {"writes_per_range_tombstone", 0, 1e15},
      {"writes_before_delete_range", 0, 1e15},
      {"range_tombstone_width", 1, 1e9},
      {"max_num_range_tombstones", 0, 1e15},
      {"benchmark_read_rate_limit", 0, 1e15},
      {"numdistinct", 1, 1e15},
      {"transaction_sets", 1, 9999},
      {"min_level_to_compress", -1, 6},
      {"stats_interval", 0, 1e15},
      {"report_interval_seconds", 0, 1e6},
      {"threads", 1, 1024},
      {"duration", 0, 1e8},
      {"seed", 0, 9e18},
      {"key_size", 1, 65536},
      {"prefix_size", 0, 65536},
      {"keys_per_prefix", 0, 1e15},
      {"value_size", 0, 1 << 30},
      {"compression_ratio", 0.01, 1},
      {"batch_size", 1, 1 << 20},
      {"num_column_families", 1, 10000},
      {"batch_families", 0, 10000},
      {"seek_nexts", 0, 1e9},
      {"seek_scale", 0.001, 1000},
      {"merge_keys", -1, 1e15},
      {"mergereadpercent", 0, 100},
      {"benchmark_write_rate_limit", 0, 1e15},
      {"cache_size", 0, 1e15},
      {"block_size", 1, 16 << 20},
      {"metadata_block_size", 1, 1 << 30},
      {"bloom_bits", -1, 100},
      {"open_files", -1, 4 << 20},
      {"target_file_size_base", 1 << 10, 1 << 30},
      {"write_buffer_size", 64 << 10, 68719476736.0},
      {"max_write_buffer_number", 2, 64},
      {"max_background_jobs", 1, 64},
      {"max_background_compactions", -1, 1024},
      {"max_background_flushes", -1, 1024},
      {"subcompactions", 1, 64},
      {"stats_level", 0, 5},
      {"trace_sampling", 0, 1},
      {"trace_slower_than_us", 0, 1e12},
      {"stats_interval_seconds", 0, 1e6},
  };
  for (const auto& [name, min, max] : kBounds) {
    std::string value;
    gflags::GetCommandLineOption(name, &value);
    const Status status =
        CheckBound(name, strtod(value.c_str(), nullptr), min, max);
    if (!status.ok()) return status;
  }
  return CheckBenchmarkFlags();
}

// Checks combinations of flags.
Status CheckTogether() {
  if (FLAGS_reads == 0) {
    return Invalid("--reads=0: must be -1, for num, or at least 1");
  }
  if (FLAGS_writes == 0 || FLAGS_deletes == 0) {
    return Invalid("--writes and --deletes must be -1, for num, or at least 1");
  }
  if (FLAGS_merge_keys == 0 || FLAGS_merge_keys > FLAGS_num) {
    return Invalid("--merge_keys must be -1, or from 1 to --num");
  }
  if (!FLAGS_compaction_filter.empty() &&
      FLAGS_compaction_filter != "drophalf") {
    return Invalid("--compaction_filter=" + FLAGS_compaction_filter +
                   ": must be drophalf");
  }
  if (FLAGS_deletion_options && FLAGS_engine != "rocksdb") {
    return Invalid("--deletion_options is for --engine=rocksdb only");
  }
  if (FLAGS_keys_per_prefix > FLAGS_num) {
    return Invalid("--keys_per_prefix must be at most --num");
  }
  if (FLAGS_num_column_families > FLAGS_num) {
    return Invalid("--num_column_families must be at most --num");
  }
  if (FLAGS_batch_families > FLAGS_num_column_families) {
    return Invalid("--batch_families must be at most --num_column_families");
  }
  const int64_t prefix_bytes =
      FLAGS_keys_per_prefix > 0 ? FLAGS_prefix_size : 0;
  if (FLAGS_text_keys && FLAGS_keys_per_prefix > 0) {
    return Invalid("--text_keys and --keys_per_prefix exclude each other");
  }
  const int64_t number_bytes =
      FLAGS_text_keys ? FLAGS_key_size / 2 : FLAGS_key_size - prefix_bytes;
  if (number_bytes < 1 ||
      (number_bytes < 8 &&
       static_cast<uint64_t>(FLAGS_num) > uint64_t{1} << (8 * number_bytes))) {
    return Invalid("--key_size=" + std::to_string(FLAGS_key_size) +
                   ", --prefix_size=" + std::to_string(prefix_bytes) +
                   ": cannot tell --num=" + std::to_string(FLAGS_num) +
                   " keys apart");
  }
  if (FLAGS_statistics && FLAGS_stats_level == 0) {
    return Invalid("--statistics and --stats_level=0 contradict each other");
  }
  if (FLAGS_sync && FLAGS_disable_wal) {
    return Invalid("--sync and --disable_wal contradict each other");
  }
  if (FLAGS_value_size_distribution_type != "fixed" &&
      FLAGS_value_size_distribution_type != "uniform" &&
      FLAGS_value_size_distribution_type != "normal") {
    return Invalid(
        "--value_size_distribution_type=" + FLAGS_value_size_distribution_type +
        ": must be fixed, uniform or normal");
  }
  if (FLAGS_value_size_min > FLAGS_value_size_max) {
    return Invalid("--value_size_min is above --value_size_max");
  }
  if (FLAGS_readonly && !FLAGS_use_existing_db) {
    return Invalid("--readonly needs --use_existing_db");
  }
  if (FLAGS_use_existing_keys && !FLAGS_use_existing_db) {
    return Invalid("--use_existing_keys needs --use_existing_db");
  }
  if (FLAGS_transaction_db && FLAGS_optimistic_transaction_db) {
    return Invalid(
        "--transaction_db and --optimistic_transaction_db exclude each other");
  }
  if (FLAGS_engine != "varve" && FLAGS_engine != "rocksdb" &&
      (!option_flags.empty() || FLAGS_readonly)) {
    return Invalid("--" +
                   (FLAGS_readonly ? "readonly" : option_flags.front().first) +
                   " is for --engine=varve and rocksdb only");
  }
  Options options;
  Status status = SetOption("compression", FLAGS_compression_type, &options);
  if (!status.ok()) {
    return Invalid("--compression_type=" + FLAGS_compression_type +
                   ": must be none, snappy, lz4, lz4hc or zstd");
  }
  AblationOptions ablation;
  status = ablation.Parse(FLAGS_ablate);
  if (!status.ok()) return status.Annotate("--ablate=" + FLAGS_ablate);
  if (!FLAGS_ablate.empty() && FLAGS_engine != "varve") {
    return Invalid("--ablate is for --engine=varve only");
  }
  if (!FLAGS_trace.empty() && FLAGS_engine != "varve") {
    return Invalid("--trace is for --engine=varve only");
  }
  if (FLAGS_trace.empty() && (ablation.trace_clock != TraceClockMode() ||
                              ablation.trace_collect != TraceCollectMode())) {
    return Invalid("--ablate=trace_...: nothing is traced without --trace");
  }
  if (FLAGS_case_insensitive_keys && FLAGS_engine != "varve") {
    return Invalid("--case_insensitive_keys is for --engine=varve only");
  }
  if (FLAGS_case_insensitive_keys && !FLAGS_text_keys) {
    return Invalid("--case_insensitive_keys needs --text_keys");
  }
  return status;
}

void AppendSplit(const std::string& list, std::vector<std::string>* names) {
  size_t start = 0;
  while (start <= list.size()) {
    const size_t comma = std::min(list.find(',', start), list.size());
    if (comma > start) names->push_back(list.substr(start, comma - start));
    start = comma + 1;
  }
}

std::string DescribeAll() {
  return DescribeBenchmarks() +
         "\nSeeks over deleted entries, and the files that these leave; each "
         "on databases of\nits own, with keys of 16 bytes:\n" +
         DescribeSeekRuns();
}

// A benchmark, and how often it is run: without a report first, and then with.
struct BenchmarkTurns {
  const Benchmark* benchmark = nullptr;
  int warmups = 0;
  int runs = 1;
};

// Removes "[X3-W2]", three runs after two without a report, from a name.
Status TakeTurns(std::string* name, BenchmarkTurns* turns) {
  const std::string all = *name;
  const size_t open = all.find('[');
  if (open == std::string::npos) return Status::OK();
  name->resize(open);
  const char* at = all.c_str() + open;
  do {
    const char letter = at[1];
    char* end = nullptr;
    const long count = strtol(at + 2, &end, 10);
    if ((letter != 'X' && letter != 'W') || count < 1 || count > 1000) break;
    (letter == 'X' ? turns->runs : turns->warmups) = static_cast<int>(count);
    at = end;
  } while (*at == '-');
  if (strcmp(at, "]") == 0) return Status::OK();
  return Invalid(all + ": must be as " + *name + "[X3-W2]");
}

// The benchmarks to run: all of one kind, since `benchmarks` share a
// database, and each of `seeks` has one of its own.
struct Chosen {
  std::vector<BenchmarkTurns> benchmarks;
  std::vector<const SeekRun*> seeks;
};

// Finds the benchmarks of --benchmarks and of the plain arguments.
Status Choose(int argc, char** argv, Chosen* chosen) {
  std::vector<std::string> names;
  AppendSplit(FLAGS_benchmarks, &names);
  for (int i = 1; i < argc; ++i) AppendSplit(argv[i], &names);
  if (names.empty()) names = {"fillrandom", "readrandom", "readwhilewriting"};
  for (std::string& name : names) {
    BenchmarkTurns turns;
    const Status status = TakeTurns(&name, &turns);
    if (!status.ok()) return status;
    if (const Benchmark* const benchmark = FindBenchmark(name)) {
      if (FLAGS_readonly && WritesTo(*benchmark)) {
        return Invalid(name + " writes, which --readonly excludes");
      }
      turns.benchmark = benchmark;
      chosen->benchmarks.push_back(turns);
    } else if (const SeekRun* const seeks = FindSeekRun(name)) {
      chosen->seeks.push_back(seeks);
    } else if (const char* const reason = ReasonOfLack(name)) {
      return Invalid("benchmark '" + name + "' is missing: " + reason);
    } else {
      return Invalid("unknown benchmark '" + name + "'; there are:\n" +
                     DescribeAll());
    }
  }
  if (chosen->seeks.empty()) {
    if (FLAGS_engine != "pebble") return Status::OK();
    return Invalid("--engine=pebble is for seeks over deleted entries only");
  }
  if (!chosen->benchmarks.empty()) {
    return Invalid(chosen->seeks.front()->name +
                   " has databases of its own: run it apart from the others");
  }
  return CheckBound("num", static_cast<double>(FLAGS_num), 1000, 1e8);
}

WorkloadConfig MakeWorkloadConfig() {
  WorkloadConfig config;
  config.entries = static_cast<uint64_t>(FLAGS_num);
  config.reads =
      static_cast<uint64_t>(FLAGS_reads < 0 ? FLAGS_num : FLAGS_reads);
  config.writes =
      static_cast<uint64_t>(FLAGS_writes < 0 ? FLAGS_num : FLAGS_writes);
  config.mixed =
      static_cast<uint64_t>(FLAGS_writes < 0 && FLAGS_reads < 0
                                ? FLAGS_num
                                : std::max(FLAGS_reads, FLAGS_writes));
  config.deletes =
      static_cast<uint64_t>(FLAGS_deletes < 0 ? FLAGS_num : FLAGS_deletes);
  config.threads = FLAGS_threads;
  config.duration = std::chrono::seconds(FLAGS_duration);
  config.seed = static_cast<uint64_t>(FLAGS_seed);
  if (config.seed == 0) {
    config.seed = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::system_clock::now().time_since_epoch())
            .count());
  }
  config.key_bytes = static_cast<size_t>(FLAGS_key_size);
  if (FLAGS_keys_per_prefix > 0) {
    config.key_prefix.bytes = static_cast<size_t>(FLAGS_prefix_size);
    config.key_prefix.count =
        static_cast<uint64_t>(FLAGS_num / FLAGS_keys_per_prefix);
  }
  config.text_keys = FLAGS_text_keys;
  config.value_bytes = static_cast<size_t>(FLAGS_value_size);
  config.compression_ratio = FLAGS_compression_ratio;
  config.column_families = static_cast<uint32_t>(FLAGS_num_column_families);
  config.write_batch = static_cast<uint64_t>(FLAGS_batch_size);
  config.batch_families = static_cast<uint32_t>(FLAGS_batch_families);
  config.read_batch =
      gflags::GetCommandLineFlagInfoOrDie("batch_size").is_default
          ? kDefaultReadBatch
          : config.write_batch;
  config.merge_keys = static_cast<uint64_t>(
      FLAGS_merge_keys < 0 ? FLAGS_num : FLAGS_merge_keys);
  config.merge_percent = static_cast<uint64_t>(FLAGS_mergereadpercent);
  config.seek_nexts = static_cast<uint64_t>(FLAGS_seek_nexts);
  config.value_sizes = {
      .kind = FLAGS_value_size_distribution_type == "fixed" ? ValueSizes::kFixed
              : FLAGS_value_size_distribution_type == "uniform"
                  ? ValueSizes::kUniform
                  : ValueSizes::kNormal,
      .min = static_cast<size_t>(FLAGS_value_size_min),
      .max = static_cast<size_t>(FLAGS_value_size_max)};
  config.read_skew = FLAGS_read_random_exp_range;
  config.reads_per_second =
      static_cast<uint64_t>(FLAGS_benchmark_read_rate_limit);
  config.range_deletions = {
      .interval = static_cast<uint64_t>(FLAGS_writes_per_range_tombstone),
      .writes_before = static_cast<uint64_t>(FLAGS_writes_before_delete_range),
      .keys = static_cast<uint64_t>(FLAGS_range_tombstone_width),
      .most = static_cast<uint64_t>(FLAGS_max_num_range_tombstones),
      .single = FLAGS_expand_range_tombstones};
  config.reverse = FLAGS_reverse_iterator;
  config.read_stride = static_cast<uint64_t>(FLAGS_multiread_stride);
  config.read_percent = static_cast<uint64_t>(FLAGS_readwritepercent);
  config.delete_percent = static_cast<uint64_t>(FLAGS_deletepercent);
  config.rate = static_cast<uint64_t>(FLAGS_rate);
  config.put_percent = static_cast<uint64_t>(FLAGS_put_percent);
  config.distinct_keys = static_cast<uint64_t>(FLAGS_numdistinct);
  config.finish_after_writes = FLAGS_finish_after_writes;
  config.transaction_sets = FLAGS_transaction_sets;
  config.transaction_snapshots = FLAGS_transaction_set_snapshot;
  config.block_bytes = static_cast<size_t>(FLAGS_block_size);
  config.compression = FLAGS_compression_type;
  config.use_existing_keys = FLAGS_use_existing_keys;
  config.stats_operations = static_cast<uint64_t>(FLAGS_stats_interval);
  config.engine_stats = FLAGS_stats_per_interval != 0;
  config.report_interval = std::chrono::seconds(FLAGS_report_interval_seconds);
  config.report_file = FLAGS_report_file;
  config.write_bytes_per_second =
      static_cast<uint64_t>(FLAGS_benchmark_write_rate_limit);
  config.histogram = FLAGS_histogram;
  config.stats_interval = std::chrono::seconds(FLAGS_stats_interval_seconds);
  if (FLAGS_cpu_time) {
    config.report_cpu_time = [](const CpuTime& used) {
      fputs(FormatCpuTime(used).c_str(), stdout);
      fflush(stdout);
    };
  }
  config.progress = FLAGS_progress_reports && isatty(STDERR_FILENO) != 0;
  config.use_existing_db = FLAGS_use_existing_db;
  return config;
}

EngineConfig MakeEngineConfig() {
  EngineConfig config;
  config.path = FLAGS_db;
  if (config.path.empty()) {
    const char* parent = getenv("TEST_TMPDIR");
    config.path =
        std::string(parent != nullptr ? parent : "/tmp") + "/varve_bench";
    // Their files do not mix.
    if (FLAGS_engine != "varve") config.path += "_" + FLAGS_engine;
  }
  config.entries = static_cast<uint64_t>(FLAGS_num);
  config.key_bytes = static_cast<size_t>(FLAGS_key_size);
  config.value_bytes = static_cast<size_t>(
      FLAGS_value_size_distribution_type == "fixed" ? FLAGS_value_size
                                                    : FLAGS_value_size_max);
  config.column_families = static_cast<uint32_t>(FLAGS_num_column_families);
  config.compression = FLAGS_compression_type;
  config.cache_bytes = static_cast<size_t>(FLAGS_cache_size);
  config.block_bytes = static_cast<size_t>(FLAGS_block_size);
  config.bloom_bits = FLAGS_bloom_bits;
  config.open_files = FLAGS_open_files;
  config.target_file_bytes = static_cast<uint64_t>(FLAGS_target_file_size_base);
  config.write_buffer_bytes = static_cast<size_t>(FLAGS_write_buffer_size);
  config.max_write_buffers = FLAGS_max_write_buffer_number;
  config.max_background_jobs = FLAGS_max_background_jobs;
  if (gflags::GetCommandLineFlagInfoOrDie("max_background_jobs").is_default &&
      (FLAGS_max_background_compactions > 0 ||
       FLAGS_max_background_flushes > 0)) {
    config.max_background_jobs =
        std::min(64, std::max(1, FLAGS_max_background_compactions) +
                         std::max(1, FLAGS_max_background_flushes));
  }
  config.subcompactions = FLAGS_subcompactions;
  config.threads = FLAGS_threads;
  config.sync = FLAGS_sync;
  config.disable_wal = FLAGS_disable_wal;
  config.manual_wal_flush = FLAGS_manual_wal_flush;
  config.mmap_write = FLAGS_mmap_write;
  config.wal_write = FLAGS_mmap_write ? "map" : FLAGS_wal_write;
  config.use_direct_reads = FLAGS_use_direct_reads;
  config.mmap_read = FLAGS_mmap_read;
  config.cache_metadata = FLAGS_cache_index_and_filter_blocks;
  config.partition_metadata = FLAGS_partition_index_and_filters;
  config.metadata_block_bytes = static_cast<size_t>(FLAGS_metadata_block_size);
  config.verify_checksums = FLAGS_verify_checksum;
  config.merge_operator = FLAGS_merge_operator;
  config.options_file = FLAGS_options_file;
  if (!FLAGS_options_file.empty()) CollectDefinedFlags(&config.options);
  if (FLAGS_min_level_to_compress >= 0) {
    std::string levels;
    for (int i = 0; i < FLAGS_min_level_to_compress; ++i) levels += "none:";
    config.options.emplace_back("compression_per_level",
                                levels + FLAGS_compression_type);
  }
  config.options.insert(config.options.end(), option_flags.begin(),
                        option_flags.end());
  config.read_only = FLAGS_readonly;
  config.readahead_bytes = static_cast<size_t>(FLAGS_readahead_size);
  config.total_order_seek = FLAGS_total_order_seek;
  config.prefix_same_as_start = FLAGS_prefix_same_as_start;
  config.auto_prefix_mode = FLAGS_auto_prefix_mode;
  config.tailing = FLAGS_use_tailing_iterator;
  config.transactions = FLAGS_transaction_db ? TransactionKind::kLocking
                        : FLAGS_optimistic_transaction_db
                            ? TransactionKind::kOptimistic
                            : TransactionKind::kNone;
  config.lock_timeout_ms = FLAGS_transaction_lock_timeout;
  if (!FLAGS_compaction_filter.empty()) config.drops = DropsKey;
  config.deletion_options = FLAGS_deletion_options;
  config.statistics = FLAGS_statistics;
  config.stats_level = FLAGS_stats_level;
  config.case_insensitive_keys = FLAGS_case_insensitive_keys;
  config.ablation.Parse(FLAGS_ablate).IgnoreError();  // Checked before.
  return config;
}

SeekConfig MakeSeekConfig(const BenchRun& run) {
  SeekConfig config;
  config.engine = FLAGS_engine;
  config.pebble_library = FLAGS_pebble_library;
  config.engine_config = run.engine_config;
  config.size.num = run.workload.entries;
  config.seed = run.workload.seed;
  config.Scale(FLAGS_seek_scale);
  return config;
}

// The flags of this file, with their values.
std::vector<std::pair<std::string, std::string>> ListFlags() {
  std::vector<gflags::CommandLineFlagInfo> all;
  gflags::GetAllFlags(&all);
  std::vector<std::pair<std::string, std::string>> flags;
  for (const gflags::CommandLineFlagInfo& flag : all) {
    if (flag.filename.ends_with("db_bench.cc")) {
      flags.emplace_back(flag.name, flag.current_value);
    }
  }
  for (auto& given : GivenFlags()) flags.push_back(std::move(given));
  return flags;
}

// Makes the parent of the database's directory and the files for report and
// traces, so that a path that cannot be is known before anything runs.
Status PreparePaths(const EngineConfig& config) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::absolute(config.path, error);
  if (!error && path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), error);
  }
  if (error) return Status::FromErrno(config.path, error.value());
  const std::string report =
      FLAGS_report_interval_seconds > 0 ? FLAGS_report_file : "";
  for (const std::string& name : {FLAGS_report_json, FLAGS_trace, report}) {
    if (name.empty()) continue;
    FILE* file = fopen(name.c_str(), "a");
    if (file == nullptr) return Status::FromErrno(name, errno);
    fclose(file);
  }
  return Status::OK();
}

Status WriteFile(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return Status::FromErrno(path, errno);
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  if (fclose(file) != 0 || !written) return Status::FromErrno(path, errno);
  return Status::OK();
}

void Report(const BenchmarkResult& result) {
  fputs(FormatResult(result).c_str(), stdout);
  if (FLAGS_histogram && result.peak_rss_bytes > 0) {
    printf("Peak RSS: %.1f MB\n",
           static_cast<double>(result.peak_rss_bytes) / 1048576.0);
  }
  fflush(stdout);
}

// Begins what --trace asks for.
Status StartTrace() {
  if (FLAGS_trace.empty()) return Status::OK();
  trace::TraceOptions options;
  options.sampling = FLAGS_trace_sampling;
  options.slower_than_us = static_cast<uint64_t>(FLAGS_trace_slower_than_us);
  // Spans are written out between benchmarks, if there is space until then.
  options.buffer_bytes = kTraceBufferBytes;
  options.export_interval_ms = 0;
  Status status = FLAGS_trace.ends_with(".otlp.json")
                      ? trace::NewOtlpSink(FLAGS_trace, &options.sink)
                      : trace::NewChromeSink(FLAGS_trace, &options.sink);
  return status.ok() ? trace::Start(options) : status;
}

Status StopTrace() {
  if (FLAGS_trace.empty()) return Status::OK();
  const Status status = trace::Stop();
  const trace::Counts counts = trace::GetCounts();
  printf("Traces: %" PRIu64 " with %" PRIu64 " spans, %" PRIu64
         " discarded; spans dropped: %" PRIu64
         " beyond a trace's maximum, "
         "%" PRIu64 " without space, %" PRIu64 " late\n",
         counts.traces, counts.spans, counts.discarded,
         counts.dropped_trace_full, counts.dropped_buffer_full,
         counts.dropped_late);
  return status.Annotate(FLAGS_trace);
}

Status RunEach(const std::vector<BenchmarkTurns>& benchmarks,
               Workload* workload, std::vector<BenchmarkResult>* all) {
  std::vector<BenchmarkResult>& results = *all;
  for (const auto& [benchmark, warmups, runs] : benchmarks) {
    if (workload->NeedsFill(*benchmark)) {
      printf(
          "The database is new: filling it first "
          "(--use_existing_db keeps the one there is)\n");
      Status status = workload->Fill(&results.emplace_back());
      if (!status.ok()) return status.Annotate(results.back().name);
      Report(results.back());
    }
    for (int turn = -warmups; turn < runs; ++turn) {
      Status status = workload->Run(*benchmark, &results.emplace_back());
      if (!status.ok()) return status.Annotate(results.back().name);
      if (turn < 0) {
        results.pop_back();
      } else {
        Report(results.back());
      }
      status = trace::Flush();
      if (!status.ok()) return status.Annotate(FLAGS_trace);
    }
    if (runs > 1) {
      fputs(FormatRuns(results.data() + results.size() - runs, runs,
                       workload->config().bounds_only)
                .c_str(),
            stdout);
    }
  }
  return Status::OK();
}

Status RunAll(const std::vector<BenchmarkTurns>& benchmarks,
              const BenchRun& run, Engine* engine, Workload* workload) {
  std::vector<BenchmarkResult> results;
  const Status status = RunEach(benchmarks, workload, &results);
  if (FLAGS_statistics && status.ok()) {
    printf("STATISTICS:\n%s", engine->StatisticsText().c_str());
  }
  if (FLAGS_report_json.empty()) return status;
  // Drops the benchmark that failed.
  if (!status.ok() && !results.empty()) results.pop_back();
  const Status written = WriteFile(FLAGS_report_json, FormatJson(run, results));
  return status.ok() ? written : status;
}

Status RunSeeks(const std::vector<const SeekRun*>& seeks, const BenchRun& run) {
  const SeekConfig config = MakeSeekConfig(run);
  JsonWriter json;
  BeginJson(run, &json);
  for (const SeekRun* each : seeks) {
    json.Open(nullptr, '{');
    json.Text("workload", each->name);
    json.Text("what", each->what);
    const Status status = each->run(config, each->name, &json);
    if (!status.ok()) return status;
    json.Close('}');
  }
  if (FLAGS_report_json.empty()) return Status::OK();
  return WriteFile(FLAGS_report_json, FinishJson(&json));
}

Status Main(int argc, char** argv) {
  // All that can be wrong with the flags comes before any file is touched.
  Chosen chosen;
  std::string notices;
  Status status = CollectFlags(&option_flags, &notices);
  if (status.ok()) status = Choose(argc, argv, &chosen);
  if (status.ok()) status = CheckBounds();
  if (status.ok()) status = CheckTogether();
  if (!status.ok()) return status;

  BenchRun run;
  run.workload = MakeWorkloadConfig();
  run.engine_config = MakeEngineConfig();
  ApplyBenchmarkFlags(&run.workload, &run.engine_config);
  const bool seeks = !chosen.seeks.empty();
  if (seeks) {
    run.workload.key_bytes = run.engine_config.key_bytes = kSeekKeyBytes;
  }
  std::unique_ptr<Engine> engine;
  status = NewSeekEngine(MakeSeekConfig(run), &engine);
  if (status.ok()) status = engine->Check(run.engine_config);
  if (status.ok()) status = PreparePaths(run.engine_config);
  if (!status.ok()) return status;
  fputs(notices.c_str(), stderr);
  if (FLAGS_use_existing_db && !seeks &&
      gflags::GetCommandLineFlagInfoOrDie("num_column_families").is_default) {
    run.workload.column_families = run.engine_config.column_families =
        engine->CountFamilies(run.engine_config);
  }

  Workload workload(run.workload, run.engine_config, engine.get());
  if (!seeks) status = workload.Open();
  if (!status.ok()) return status;
  run.environment = ReadEnvironment();
  run.engine = FLAGS_engine;
  run.engine_version = engine->Version();
  run.engine_remarks = engine->Remarks(run.engine_config);
  if (!seeks) run.io_path = engine->IoPath();
  if (FLAGS_engine == "varve") run.trace_clock = trace::ClockName();
  run.seed_from_clock = FLAGS_seed == 0;
  run.flags = ListFlags();
  fputs(FormatHeader(run).c_str(), stdout);
  fflush(stdout);

  status = StartTrace();
  if (status.ok() && seeks) {
    status = RunSeeks(chosen.seeks, run);
  } else if (status.ok()) {
    status = RunAll(chosen.benchmarks, run, engine.get(), &workload);
  }
  const Status closed = seeks ? Status::OK() : workload.Close();
  if (status.ok()) status = closed;
  const Status traced = StopTrace();
  return status.ok() ? traced : status;
}

// For --version: the engines there are, a line each.
std::string DescribeEngines() {
  std::string text = VersionString();
  for (const std::string& name : EngineNames()) {
    std::unique_ptr<Engine> engine;
    if (!NewEngine(name, &engine).ok()) continue;
    text.append("\nengine ").append(name).append(" ");
    text.append(engine->Version());
  }
  return text;
}

}  // namespace

}  // namespace varve

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "measures a storage engine.\n\n"
      "  db_bench [FLAG...] [BENCHMARK...]\n\n" +
      varve::DescribeAll());
  varve::RegisterBenchmarkFlags();
  varve::RegisterFlags(argc, argv);
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, true);
  if (FLAGS_rocksdb_flags) {
    fputs(varve::DescribeRocksDbFlags().c_str(), stdout);
    return 0;
  }
  if (FLAGS_version) gflags::SetVersionString(varve::DescribeEngines());
  if (FLAGS_help || FLAGS_helpshort) {
    // Without the flags of the flag library.
    gflags::ShowUsageWithFlagsRestrict(argv[0], "tools/db_bench/db_bench.cc");
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();
  const varve::Status status = varve::Main(argc, argv);
  const bool printed = fflush(stdout) == 0 && ferror(stdout) == 0;
  if (status.ok() && printed) return 0;
  if (status.ok()) {
    fprintf(stderr, "db_bench: cannot write the output\n");
    return 1;
  }
  fprintf(stderr, "db_bench: %s\n", status.ToString().c_str());
  return 1;
}
