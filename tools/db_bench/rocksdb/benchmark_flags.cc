// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/rocksdb/benchmark_flags.h"

#include <gflags/gflags.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <variant>

#include "tools/db_bench/workload_loops.h"

namespace varve {

namespace {

constexpr double kMost = 1e15;
constexpr double kMostBytes = 1 << 20;  // Of a value of random size.

// Where the flags are stored. Types that the flags library does not know are
// converted by ApplyBenchmarkFlags.
struct Values {
  WorkloadConfig workload;
  SineRate sine;
  bool sine_write = false;
  bool sine_mix = false;
  uint64_t sine_write_ms = 10000;
  uint64_t sine_mix_ms = 10000;
  uint64_t disposable_delay_us = 0;
  uint64_t disposable_bytes = 64;
  uint64_t kept_bytes = 64;
  std::string expire_style = "none";
  std::string backup_dir;
  std::string restore_dir;
  uint64_t backup_rate = 0;
  uint64_t restore_rate = 0;
  uint64_t write_buffers_bytes = 0;
  bool charge_write_buffers = false;
  bool keep_filter = false;
  bool log_to_stderr = false;
};
Values values;
WorkloadConfig& workload = values.workload;
MixConfig& mix = workload.mix;

struct Row {
  const char* name;
  std::variant<double*, int*, int64_t*, uint64_t*, bool*, std::string*> value;
  const char* help;
  // The bounds of a number, if the upper one is not 0.
  double min = 0;
  double max = 0;
};

const Row kRows[] = {
    // ---- mixgraph ----
    {"mix_get_ratio", &mix.get_ratio, "Of mixgraph, the part of gets", 0, 1e9},
    {"mix_put_ratio", &mix.put_ratio, "Of mixgraph, the part of puts", 0, 1e9},
    {"mix_seek_ratio", &mix.seek_ratio, "Of mixgraph, the part of scans", 0,
     1e9},
    {"keyrange_dist_a", &mix.range_a,
     "The heat of range x of keyrange_num is a * e^(b x) + c * e^(d x)"},
    {"keyrange_dist_b", &mix.range_b, "b of keyrange_dist_a"},
    {"keyrange_dist_c", &mix.range_c, "c of keyrange_dist_a"},
    {"keyrange_dist_d", &mix.range_d, "d of keyrange_dist_a"},
    {"key_dist_a", &mix.key_a, "The heat of key x is a * x^b"},
    {"key_dist_b", &mix.key_b, "b of key_dist_a"},
    {"value_theta", &mix.value_theta,
     "Theta of the generalized Pareto distribution of the bytes of values"},
    {"value_k", &mix.value_k, "k of value_theta"},
    {"value_sigma", &mix.value_sigma, "Sigma of value_theta"},
    {"iter_theta", &mix.scan_theta,
     "Theta of the same distribution of the entries of scans"},
    {"iter_k", &mix.scan_k, "k of iter_theta"},
    {"iter_sigma", &mix.scan_sigma, "Sigma of iter_theta"},
    {"keyrange_num", &mix.ranges, "Ranges of keys of mixgraph", 1, 1 << 20},
    {"mix_max_value_size", &mix.max_value_bytes,
     "The most bytes of a value of mixgraph", 1, kMostBytes},
    {"mix_max_scan_len", &mix.max_scan,
     "The most entries of a scan of mixgraph", 1, 1e9},

    // ---- Rates ----
    {"sine_write_rate", &values.sine_write,
     "Writing benchmarks put sine_a * sin(sine_b * x + sine_c) + sine_d bytes "
     "a "
     "second into the engine, x seconds after the start, in place of "
     "benchmark_write_rate_limit. The writer beside others keeps the first "
     "rate"},
    {"sine_write_rate_interval_milliseconds", &values.sine_write_ms,
     "Milliseconds until sine_write_rate has another rate", 1, 1e9},
    {"sine_mix_rate", &values.sine_mix,
     "Mixgraph does so many operations a second"},
    {"sine_mix_rate_interval_milliseconds", &values.sine_mix_ms,
     "Milliseconds until sine_mix_rate has another rate", 1, 1e9},
    {"sine_mix_rate_noise", &workload.mix_noise,
     "The part of sine_a by which mixgraph's rate is off at random, up or down "
     "by half of it",
     0, 1},
    {"sine_a", &values.sine.a, "a of sine_write_rate"},
    {"sine_b", &values.sine.b, "b of sine_write_rate"},
    {"sine_c", &values.sine.c, "c of sine_write_rate"},
    {"sine_d", &values.sine.d, "d of sine_write_rate"},

    // ---- Writes ----
    {"overwrite_probability", &workload.overwrites.probability,
     "The part of filluniquerandom's writes that are of a recent key", 0, 1},
    {"overwrite_window_size", &workload.overwrites.window,
     "The recent keys of overwrite_probability", 1, 1 << 30},
    {"disposable_entries_batch_size", &workload.disposable.batch,
     "Entries that fillanddeleteuniquerandom writes and later deletes "
     "together; 0: it deletes none",
     0, kMost},
    {"disposable_entries_delete_delay", &values.disposable_delay_us,
     "Microseconds from the last of them to the deletions, at least", 0, kMost},
    {"disposable_entries_value_size", &values.disposable_bytes,
     "Bytes of their values", 0, kMostBytes},
    {"persistent_entries_batch_size", &workload.disposable.kept_batch,
     "Entries that it writes before each such series of deletions", 0, kMost},
    {"persistent_entries_value_size", &values.kept_bytes,
     "Bytes of the values of those", 0, kMostBytes},
    {"use_single_deletes", &workload.single_deletes,
     "Randomreplacekeys deletes by SingleDelete"},
    {"stddev", &workload.key_deviation,
     "The standard deviation of randomreplacekeys' numbers, whose mean is half "
     "of numdistinct",
     0, kMost},
    {"same_value_percentage", &workload.same_value_percent,
     "Of 100 values, those that are all the same", 0, 100},
    {"transaction_sleep", &workload.transaction_sleep_us,
     "The most microseconds that a transaction sleeps before it writes a key",
     0, 1e9},
    {"ingest_external_file_batch_size", &workload.ingest_tables,
     "Tables, of num entries each, of a call of ingestexternalfile", 1, 1e6},
    {"ingest_external_file_num_batches", &workload.ingest_calls,
     "Calls of ingestexternalfile", 1, 1e6},

    // ---- Seeks ----
    {"max_scan_distance", &workload.max_scan_distance,
     "Seekrandom's iterators end so many keys after the one sought, or before "
     "it with reverse_iterator; 0: no bound",
     0, kMost},
    {"seek_missing_prefix", &workload.seek_missing,
     "Seekrandom seeks keys with a prefix that no key has. Needs --prefix_size "
     "and --key_size above 8"},
    {"seek_nexts_to_delete", &workload.seek_deletes,
     "Entries that seekrandom deletes after those that it has read", 0, 1e9},

    // ---- timeseries ----
    {"key_id_range", &workload.series.ids, "Series of timeseries", 1, kMost},
    {"time_range", &workload.series.time_range,
     "How many entries later an entry of timeseries is too old", 1, kMost},
    {"expire_style", &values.expire_style,
     "How timeseries removes old entries: none, compaction_filter or delete"},
    {"num_deletion_threads", &workload.series.deleters,
     "Threads that delete with --expire_style=delete", 0, 1024},

    // ---- Reports ----
    {"report_open_timing", &workload.report_open,
     "Print how long each open of the database took"},
    {"confidence_interval_only", &workload.bounds_only,
     "Of NAME[X3], print in which bounds the mean is, in 95 of 100 cases, in "
     "place of mean and median"},
    {"use_stderr_info_logger", &values.log_to_stderr,
     "Write the database's LOG to stderr; varve and rocksdb only"},

    // ---- Others ----
    {"backup_dir", &values.backup_dir,
     "Directory of the benchmark backup. Default: backup in that of the "
     "database"},
    {"restore_dir", &values.restore_dir,
     "Directory that restore restores to. Default: restore in that of the "
     "database"},
    {"backup_rate_limit", &values.backup_rate,
     "Bytes a second that backup writes; 0: no limit", 0, kMost},
    {"restore_rate_limit", &values.restore_rate,
     "Bytes a second that restore writes; 0: no limit", 0, kMost},
    {"truth_db", &workload.truth_path,
     "Directory of the database that verify compares with"},
    {"use_keep_filter", &values.keep_filter,
     "Compactions ask a filter that keeps all; varve and rocksdb only"},
    {"db_write_buffer_size", &values.write_buffers_bytes,
     "Bytes of the memtables of all families together; 0: no limit", 0, kMost},
    {"cost_write_buffer_to_cache", &values.charge_write_buffers,
     "Charge memtables to the block cache"},
};

}  // namespace

void RegisterBenchmarkFlags() {
  for (const Row& row : kRows) {
    std::visit(
        [&row](auto* value) {
          using Type = std::remove_pointer_t<decltype(value)>;
          // The library keeps pointers to the defaults, so they are not freed.
          static auto* const defaults = new std::deque<Type>;
          gflags::FlagRegisterer(row.name, row.help,
                                 "tools/db_bench/db_bench.cc", value,
                                 &defaults->emplace_back(*value));
        },
        row.value);
  }
}

Status CheckBenchmarkFlags() {
  for (const Row& row : kRows) {
    if (row.max == 0) continue;
    double number = 0;
    std::visit(
        [&number](const auto* value) {
          if constexpr (requires { static_cast<double>(*value); }) {
            number = static_cast<double>(*value);
          }
        },
        row.value);
    if (number >= row.min && number <= row.max) continue;
    char text[160];
    snprintf(text, sizeof(text), "--%s=%.15g: must be from %.15g to %.15g",
             row.name, number, row.min, row.max);
    return Status::InvalidArgument(text);
  }
  if (mix.get_ratio + mix.put_ratio + mix.seek_ratio <= 0) {
    return Status::InvalidArgument(
        "--mix_get_ratio, mix_put_ratio and mix_seek_ratio are 0");
  }
  const std::string& style = values.expire_style;
  if (style != "none" && style != "compaction_filter" && style != "delete") {
    return Status::InvalidArgument(
        "--expire_style=" + style +
        ": must be none, compaction_filter or delete");
  }
  if (workload.disposable.batch > 0 && workload.overwrites.probability > 0) {
    return Status::InvalidArgument(
        "--disposable_entries_batch_size and --overwrite_probability exclude "
        "each other");
  }
  const auto number_of = [](const char* flag) {
    std::string text;
    gflags::GetCommandLineOption(flag, &text);
    return strtoll(text.c_str(), nullptr, 10);
  };
  if (workload.seek_missing &&
      (number_of("prefix_size") <= 8 || number_of("key_size") <= 8)) {
    return Status::InvalidArgument(
        "--seek_missing_prefix needs --prefix_size and --key_size above 8");
  }
  return Status::OK();
}

void ApplyBenchmarkFlags(WorkloadConfig* to, EngineConfig* engine) {
  const auto sine = [](uint64_t milliseconds) {
    SineRate rate = values.sine;
    rate.interval = std::chrono::milliseconds(milliseconds);
    return rate;
  };
  if (values.sine_write) {
    to->write_sine = sine(values.sine_write_ms);
    to->write_bytes_per_second = static_cast<uint64_t>(to->write_sine.At(0));
  }
  if (values.sine_mix) to->mix_sine = sine(values.sine_mix_ms);
  to->mix_noise = workload.mix_noise;
  to->mix = mix;
  to->overwrites = workload.overwrites;
  to->disposable = workload.disposable;
  to->disposable.delay = std::chrono::microseconds(values.disposable_delay_us);
  to->disposable.value_bytes = values.disposable_bytes;
  to->disposable.kept_value_bytes = values.kept_bytes;
  to->single_deletes = workload.single_deletes;
  to->key_deviation = workload.key_deviation;
  to->same_value_percent = workload.same_value_percent;
  to->transaction_sleep_us = workload.transaction_sleep_us;
  to->ingest_tables = workload.ingest_tables;
  to->ingest_calls = workload.ingest_calls;
  to->max_scan_distance = workload.max_scan_distance;
  to->seek_missing = workload.seek_missing;
  to->seek_deletes = workload.seek_deletes;
  to->series = workload.series;
  to->series.expiry = values.expire_style == "none" ? Expiry::kNone
                      : values.expire_style == "delete"
                          ? Expiry::kDelete
                          : Expiry::kCompactionFilter;
  to->truth_path = workload.truth_path;
  to->report_open = workload.report_open;
  to->bounds_only = workload.bounds_only;
  engine->backup_dir =
      values.backup_dir.empty() ? engine->path + "/backup" : values.backup_dir;
  engine->restore_dir = values.restore_dir.empty() ? engine->path + "/restore"
                                                   : values.restore_dir;
  engine->backup_bytes_per_second = values.backup_rate;
  engine->restore_bytes_per_second = values.restore_rate;
  engine->all_write_buffers_bytes = values.write_buffers_bytes;
  engine->log_to_stderr = values.log_to_stderr;
  engine->charge_write_buffers = values.charge_write_buffers;
  if (values.keep_filter) engine->drops = [](const Slice&) { return false; };
}

}  // namespace varve
