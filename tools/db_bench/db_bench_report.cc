// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/db_bench_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "util/base/append_format.h"
#include "varve/version.h"

namespace varve {

namespace {

constexpr double kMebibyte = 1048576.0;

double PerSecond(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

double MicrosPerOperation(const BenchmarkResult& result) {
  return result.operations == 0 ? 0
                                : result.thread_seconds * 1e6 /
                                      static_cast<double>(result.operations);
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Returns how far the mean may be off, in 95 of 100 cases.
double ErrorOf(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  const double count = static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return 1.96 * std::sqrt(squares / (count - 1) / count);
}

// Scripts find the percentiles by their places in the line, so it has those
// that RocksDB prints, without P95.
std::string PercentilesOfRocksDb(std::string text) {
  const size_t start = text.find(" P95: ");
  if (start == std::string::npos) return text;
  const size_t end = text.find(" P99: ", start);
  return end == std::string::npos ? text : text.erase(start, end - start);
}

// A date as ctime(3) has it, for the same reason. `date` is ISO 8601; another
// form is left as it is.
std::string DateOfRocksDb(const std::string& date) {
  tm time = {};
  if (strptime(date.c_str(), "%Y-%m-%d %H:%M:%S", &time) == nullptr) {
    return date;
  }
  char text[64];
  return strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &time) > 0 ? text
                                                                         : date;
}

void WriteEnvironment(const BenchRun& run, JsonWriter* json) {
  const BenchEnvironment& environment = run.environment;
  json->Open("environment", '{');
  json->Text("date", environment.date);
  json->Text("cpu", environment.cpu_model);
  json->Integer("cores", static_cast<uint64_t>(environment.cores));
  json->Text("clock_source", environment.clock_source);
  json->Text("kernel", environment.kernel);
  json->Text("compiler", environment.compiler);
  if (!run.io_path.empty()) json->Text("io_path", run.io_path);
  if (!run.trace_clock.empty()) json->Text("trace_clock", run.trace_clock);
  json->Open("warnings", '[');
  for (const std::string& warning : environment.warnings) {
    json->Text(nullptr, warning);
  }
  json->Close(']');
  json->Close('}');
}

void WriteLatency(const char* name, const Histogram& latency,
                  JsonWriter* json) {
  json->Open(name, '{');
  json->Integer("count", latency.Count());
  json->Number("average", latency.Average());
  json->Integer("min", latency.Min());
  json->Integer("p50", latency.Percentile(50));
  json->Integer("p75", latency.Percentile(75));
  json->Integer("p95", latency.Percentile(95));
  json->Integer("p99", latency.Percentile(99));
  json->Integer("p99.9", latency.Percentile(99.9));
  json->Integer("p99.99", latency.Percentile(99.99));
  json->Integer("max", latency.Max());
  json->Close('}');
}

// Returns the line of the puts or gets of openloop.
std::string FormatOpenLoop(const BenchmarkResult& result, const char* kind,
                           const Histogram& latency_ns) {
  const auto micros = [&latency_ns](double percent) {
    return static_cast<double>(latency_ns.Percentile(percent)) / 1000;
  };
  std::string text;
  AppendFormat(
      &text,
      "%s %s : %" PRIu64 " operations; %" PRIu64
      " ops/sec; P50: %.3f P99: %.3f P99.9: %.3f P99.99: %.3f Max: %.3f "
      "micros\n",
      result.name.c_str(), kind, latency_ns.Count(),
      static_cast<uint64_t>(PerSecond(static_cast<double>(latency_ns.Count()),
                                      result.elapsed_seconds)),
      micros(50), micros(99), micros(99.9), micros(99.99),
      static_cast<double>(latency_ns.Max()) / 1000);
  return text;
}

void WriteResult(const BenchmarkResult& result, JsonWriter* json) {
  json->Open(nullptr, '{');
  json->Text("name", result.name);
  json->Integer("threads", static_cast<uint64_t>(result.threads));
  json->Integer("operations", result.operations);
  json->Number("seconds", result.elapsed_seconds);
  json->Number("micros_per_op", MicrosPerOperation(result));
  json->Number("ops_per_sec", PerSecond(static_cast<double>(result.operations),
                                        result.elapsed_seconds));
  json->Number("mb_per_sec",
               PerSecond(static_cast<double>(result.bytes) / kMebibyte,
                         result.elapsed_seconds));
  if (result.lookups > 0) {
    json->Integer("found", result.found);
    json->Integer("lookups", result.lookups);
  }
  if (result.background_operations > 0) {
    json->Integer("background_writes", result.background_operations);
  }
  if (result.latency_ns != nullptr) {
    WriteLatency("latency_ns", *result.latency_ns, json);
  }
  if (result.open_loop != nullptr) {
    WriteLatency("puts_ns", result.open_loop->puts_ns, json);
    WriteLatency("gets_ns", result.open_loop->gets_ns, json);
  }
  json->Integer("peak_rss_bytes", result.peak_rss_bytes);
  json->Number("open_seconds", result.open_seconds);
  json->Text("levels", result.levels);
  json->Close('}');
}

}  // namespace

std::string FormatHeader(const BenchRun& run) {
  const WorkloadConfig& workload = run.workload;
  const EngineConfig& engine = run.engine_config;
  const double entries = static_cast<double>(workload.entries);
  const double key_bytes = static_cast<double>(workload.key_bytes);
  const double value_bytes = static_cast<double>(workload.value_bytes);
  const double stored_bytes = value_bytes * workload.compression_ratio;
  std::string text;
  if (run.engine == "varve") {
    AppendFormat(&text, "Varve:       version %s\n",
                 run.engine_version.c_str());
  } else {
    AppendFormat(&text, "Engine:      %s %s, in Varve's db_bench %s\n",
                 run.engine.c_str(), run.engine_version.c_str(),
                 VersionString());
  }
  if (!run.engine_remarks.empty()) {
    AppendFormat(&text, "             (%s)\n", run.engine_remarks.c_str());
  }
  AppendFormat(&text, "Date:        %s\n",
               DateOfRocksDb(run.environment.date).c_str());
  AppendFormat(&text, "CPU:         %d * %s\n", run.environment.cores,
               run.environment.cpu_model.c_str());
  AppendFormat(&text, "Clock:       %s\n",
               run.environment.clock_source.c_str());
  AppendFormat(&text, "DB path:     %s\n", engine.path.c_str());
  if (!run.io_path.empty()) {
    AppendFormat(&text, "I/O path:    %s\n", run.io_path.c_str());
  }
  if (!run.trace_clock.empty()) {
    AppendFormat(&text, "Trace clock: %s\n", run.trace_clock.c_str());
  }
  AppendFormat(
      &text, "Seed:        %" PRIu64 "%s\n", workload.seed,
      run.seed_from_clock ? " (from the clock; --seed repeats a run)" : "");
  AppendFormat(&text, "Threads:     %d\n", workload.threads);
  AppendFormat(&text, "Keys:        %zu bytes each\n", workload.key_bytes);
  if (workload.key_prefix.count > 0) {
    AppendFormat(&text, "Prefixes:    %" PRIu64 " of %zu bytes\n",
                 workload.key_prefix.count, workload.key_prefix.bytes);
  }
  AppendFormat(&text,
               "Values:      %zu bytes each (%.0f bytes after compression)\n",
               workload.value_bytes, stored_bytes);
  AppendFormat(&text, "Entries:     %" PRIu64 "\n", workload.entries);
  AppendFormat(&text, "RawSize:     %.1f MB (estimated)\n",
               entries * (key_bytes + value_bytes) / kMebibyte);
  AppendFormat(&text, "FileSize:    %.1f MB (estimated)\n",
               entries * (key_bytes + stored_bytes) / kMebibyte);
  AppendFormat(&text, "Compression: %s\n", engine.compression.c_str());
  AppendFormat(&text, "Block cache: %.1f MB, blocks of %zu bytes\n",
               static_cast<double>(engine.cache_bytes) / kMebibyte,
               engine.block_bytes);
  if (engine.bloom_bits >= 1) {
    AppendFormat(&text, "Filter:      Bloom, %d bits a key\n",
                 engine.bloom_bits);
  } else {
    AppendFormat(&text, "Filter:      none\n");
  }
  for (const std::string& warning : run.environment.warnings) {
    AppendFormat(&text, "WARNING: %s\n", warning.c_str());
  }
  text.append("------------------------------------------------\n");
  return text;
}

std::string FormatResult(const BenchmarkResult& result) {
  std::string text;
  if (!result.text.empty()) {
    const bool table = result.text.find('\n') != std::string::npos;
    AppendFormat(&text, "%-12s :%c", result.name.c_str(), table ? '\n' : ' ');
    text.append(result.text);
    if (text.back() != '\n') text.push_back('\n');
    return text;
  }
  const double seconds = result.elapsed_seconds;
  AppendFormat(&text,
               "%-12s : %7.3f micros/op %" PRIu64
               " ops/sec %.3f seconds %" PRIu64 " operations;",
               result.name.c_str(), MicrosPerOperation(result),
               static_cast<uint64_t>(
                   PerSecond(static_cast<double>(result.operations), seconds)),
               seconds, result.operations);
  if (result.bytes > 0) {
    AppendFormat(
        &text, " %6.1f MB/s",
        PerSecond(static_cast<double>(result.bytes) / kMebibyte, seconds));
  }
  if (result.lookups > 0) {
    AppendFormat(&text, " (%" PRIu64 " of %" PRIu64 " found)", result.found,
                 result.lookups);
  }
  if (result.background_operations > 0) {
    AppendFormat(&text, " (%" PRIu64 " %s beside)",
                 result.background_operations, result.background.c_str());
  }
  if (!result.message.empty()) text += " " + result.message;
  text.push_back('\n');
  if (result.open_loop != nullptr) {
    text += FormatOpenLoop(result, "puts", result.open_loop->puts_ns);
    text += FormatOpenLoop(result, "gets", result.open_loop->gets_ns);
  }
  if (result.latency_ns != nullptr) {
    AppendFormat(&text, "Microseconds per %s:\n", result.operation.c_str());
    text.append(PercentilesOfRocksDb(result.latency_ns->ToString(1000)));
  }
  return text;
}

std::string FormatRuns(const BenchmarkResult* results, int count,
                       bool bounds_only) {
  std::vector<double> rates;
  std::vector<double> byte_rates;
  for (int i = 0; i < count; ++i) {
    const BenchmarkResult& result = results[i];
    rates.push_back(PerSecond(static_cast<double>(result.operations),
                              result.elapsed_seconds));
    byte_rates.push_back(PerSecond(
        static_cast<double>(result.bytes) / kMebibyte, result.elapsed_seconds));
  }
  const double mean = MeanOf(rates);
  const double bytes = MeanOf(byte_rates);
  const double error = ErrorOf(rates);
  std::string text;
  if (bounds_only) {
    const double bytes_error = ErrorOf(byte_rates);
    AppendFormat(
        &text,
        "%s [CI95 %d runs] : (%.0f, %.0f) ops/sec; (%.1f, %.1f) MB/sec\n",
        results->name.c_str(), count, mean - error, mean + error,
        bytes - bytes_error, bytes + bytes_error);
    return text;
  }
  std::sort(rates.begin(), rates.end());
  const size_t middle = rates.size() / 2;
  const double median =
      count % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  AppendFormat(&text,
               "%s [AVG    %d runs] : %.0f (\xC2\xB1 %.0f) ops/sec; %6.1f "
               "MB/sec\n%s [MEDIAN %d runs] : %.0f ops/sec\n",
               results->name.c_str(), count, mean, error, bytes,
               results->name.c_str(), count, median);
  return text;
}

std::string FormatCpuTime(const CpuTime& used) {
  const double operations =
      static_cast<double>(std::max<uint64_t>(used.operations, 1));
  const double user_us = used.user_seconds * 1e6 / operations;
  const double system_us = used.system_seconds * 1e6 / operations;
  std::string text;
  AppendFormat(&text, "%-12s : CPU %.3f micros/op (user %.3f, system %.3f)\n",
               used.name.c_str(), user_us + system_us, user_us, system_us);
  return text;
}

void BeginJson(const BenchRun& run, JsonWriter* json) {
  json->Open(nullptr, '{');
  json->Text("db_bench_version", VersionString());
  json->Text("engine", run.engine);
  json->Text("engine_version", run.engine_version);
  json->Text("engine_remarks", run.engine_remarks);
  json->Integer("seed", run.workload.seed);
  WriteEnvironment(run, json);
  json->Open("config", '{');
  for (const auto& [name, value] : run.flags) json->Text(name.c_str(), value);
  json->Close('}');
  json->Open("results", '[');
}

std::string FinishJson(JsonWriter* json) {
  json->Close(']');
  json->Close('}');
  return json->Finish();
}

std::string FormatJson(const BenchRun& run,
                       const std::vector<BenchmarkResult>& results) {
  JsonWriter json;
  BeginJson(run, &json);
  for (const BenchmarkResult& result : results) {
    if (result.text.empty()) WriteResult(result, &json);
  }
  return FinishJson(&json);
}

}  // namespace varve
