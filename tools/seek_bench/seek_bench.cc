// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// seek_bench measures seeks over deleted and overwritten entries, and the files
// that they leave, on the engines of db_bench:
//
//   seek_bench --engine=varve --workloads=delete-memory,queue-100
//
// Each seek has an iterator of its own, and its result is verified. Each
// workload also runs on an equal database that never had the deleted keys.

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/db_bench_environment.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/json_writer.h"
#include "tools/seek_bench/seek_runs.h"
#include "experimental/ablation.h"

DEFINE_string(engine, "varve", "varve, rocksdb, leveldb or pebble");
DEFINE_string(pebble_library, "build/peers/libpebble_library.so",
              "The library for --engine=pebble, which tools/peers/build makes");
DEFINE_bool(deletion_options, false,
            "RocksDB's options that compact tables with many deletions, and "
            "flush memtables over which iterators walk far");
DEFINE_string(ablate, "",
              "Varve's optimizations to switch back: NAME=VALUE, separated by "
              "commas");
DEFINE_string(workloads, "", "Separated by commas; all without any");
DEFINE_bool(list, false, "Check the flags, list the workloads, and end");
DEFINE_string(db, "",
              "Directory of the databases, which are removed. Default: "
              "$TEST_TMPDIR/varve_seek_bench, or one in /tmp");
DEFINE_string(report_json, "", "File to write all results to, as JSON");

DEFINE_int64(num, 200000, "Keys or updates of a workload");
DEFINE_int64(live, 1000, "Keys after those of the workload");
DEFINE_int64(value_size, 100, "Bytes of a value");
DEFINE_int64(write_buffer_size, 64 << 20,
             "Bytes of updates in memory before they become a table");
DEFINE_int64(cache_size, 256 << 20, "Bytes of the block cache");
DEFINE_int32(max_background_jobs, 2, "Flushes and compactions at a time");
DEFINE_int64(seeks, 500, "Seeks of a phase, at most");
DEFINE_double(phase_seconds, 1, "Of the seeks of a phase, about, at most");
DEFINE_double(quiet_seconds, 1, "Without any operation, before seeks");
DEFINE_int64(load_operations, 1000,
             "Under load before the last seeks: one in ten is a seek, and the "
             "others are puts");
DEFINE_int64(load_rate, 10000, "Puts a second of the thread that makes load");
DEFINE_double(queue_seconds, 10, "Of emptying a queue, at most");
DEFINE_int64(space_num, 1000000, "Keys of the workload space");
DEFINE_double(space_seconds, 60, "For which files are watched");
DEFINE_double(worst_seconds, 10, "Of the workloads worst-...");
DEFINE_int64(seed, 1, "Of all random choices");

DECLARE_bool(help);
DECLARE_bool(helpshort);

namespace varve {

namespace {

Status CheckBounds() {
  const struct {
    const char* name;
    double value;
    double min;
    double max;
  } bounds[] = {
      {"num", static_cast<double>(FLAGS_num), 1000, 1e8},
      {"live", static_cast<double>(FLAGS_live), 1, 1e8},
      {"value_size", static_cast<double>(FLAGS_value_size), 0, 1 << 20},
      {"write_buffer_size", static_cast<double>(FLAGS_write_buffer_size),
       64 << 10, 68719476736.0},
      {"cache_size", static_cast<double>(FLAGS_cache_size), 0, 1e15},
      {"max_background_jobs", static_cast<double>(FLAGS_max_background_jobs), 1,
       64},
      {"seeks", static_cast<double>(FLAGS_seeks), 1, 1e7},
      {"phase_seconds", FLAGS_phase_seconds, 0, 1e5},
      {"quiet_seconds", FLAGS_quiet_seconds, 0, 1e5},
      {"load_operations", static_cast<double>(FLAGS_load_operations), 1, 1e8},
      {"load_rate", static_cast<double>(FLAGS_load_rate), 1, 1e8},
      {"queue_seconds", FLAGS_queue_seconds, 0, 1e5},
      {"space_num", static_cast<double>(FLAGS_space_num), 1000, 1e8},
      {"space_seconds", FLAGS_space_seconds, 0, 1e5},
      {"worst_seconds", FLAGS_worst_seconds, 0, 1e5},
  };
  for (const auto& bound : bounds) {
    if (bound.value >= bound.min && bound.value <= bound.max) continue;
    char text[160];
    snprintf(text, sizeof(text), "--%s=%.15g: must be from %.15g to %.15g",
             bound.name, bound.value, bound.min, bound.max);
    return Status::InvalidArgument(text);
  }
  return Status::OK();
}

Status FindRuns(std::vector<const SeekRun*>* runs) {
  if (FLAGS_workloads.empty()) {
    for (const SeekRun& run : SeekRuns()) runs->push_back(&run);
    return Status::OK();
  }
  size_t start = 0;
  while (start <= FLAGS_workloads.size()) {
    const size_t comma =
        std::min(FLAGS_workloads.find(',', start), FLAGS_workloads.size());
    const std::string name = FLAGS_workloads.substr(start, comma - start);
    const size_t before = runs->size();
    for (const SeekRun& run : SeekRuns()) {
      if (run.name == name) runs->push_back(&run);
    }
    if (runs->size() == before) {
      return Status::InvalidArgument("unknown workload '" + name +
                                     "'; --list lists them");
    }
    start = comma + 1;
  }
  return Status::OK();
}

Status MakeConfig(SeekBenchConfig* config) {
  Status status = CheckBounds();
  if (!status.ok()) return status;
  EngineConfig& engine_config = config->engine_config;
  status = engine_config.ablation.Parse(FLAGS_ablate);
  if (!status.ok()) return status.Annotate("--ablate=" + FLAGS_ablate);
  if (!FLAGS_ablate.empty() && FLAGS_engine != "varve") {
    return Status::InvalidArgument("--ablate is for --engine=varve only");
  }
  if (FLAGS_deletion_options && FLAGS_engine != "rocksdb") {
    return Status::InvalidArgument(
        "--deletion_options is for --engine=rocksdb only");
  }
  engine_config.path = FLAGS_db;
  if (engine_config.path.empty()) {
    const char* parent = getenv("TEST_TMPDIR");
    engine_config.path =
        std::string(parent != nullptr ? parent : "/tmp") + "/varve_seek_bench";
  }
  engine_config.entries = static_cast<uint64_t>(FLAGS_num);
  engine_config.key_bytes = kSeekKeyBytes;
  engine_config.value_bytes = static_cast<size_t>(FLAGS_value_size);
  engine_config.cache_bytes = static_cast<size_t>(FLAGS_cache_size);
  engine_config.block_bytes = 4096;
  engine_config.bloom_bits = 10;
  engine_config.write_buffer_bytes =
      static_cast<size_t>(FLAGS_write_buffer_size);
  engine_config.max_background_jobs = FLAGS_max_background_jobs;
  engine_config.deletion_options = FLAGS_deletion_options;

  config->engine = FLAGS_engine;
  config->pebble_library = FLAGS_pebble_library;
  config->size.num = static_cast<uint64_t>(FLAGS_num);
  config->size.live = static_cast<uint64_t>(FLAGS_live);
  config->seeks = static_cast<uint64_t>(FLAGS_seeks);
  config->phase_seconds = FLAGS_phase_seconds;
  config->quiet_seconds = FLAGS_quiet_seconds;
  config->load_operations = static_cast<uint64_t>(FLAGS_load_operations);
  config->load_rate = static_cast<uint64_t>(FLAGS_load_rate);
  config->queue_seconds = FLAGS_queue_seconds;
  config->space_num = static_cast<uint64_t>(FLAGS_space_num);
  config->space_seconds = FLAGS_space_seconds;
  config->worst_seconds = FLAGS_worst_seconds;
  config->seed = static_cast<uint64_t>(FLAGS_seed);
  return Status::OK();
}

void WriteHead(const SeekBenchConfig& config, const Engine& engine,
               JsonWriter* json) {
  const BenchEnvironment environment = ReadEnvironment();
  json->Text("date", environment.date);
  json->Text("cpu", environment.cpu_model);
  json->Integer("cores", static_cast<uint64_t>(environment.cores));
  json->Text("engine", config.engine);
  json->Text("engine_version", engine.Version());
  json->Text("ablate", FLAGS_ablate);
  json->Integer("num", config.size.num);
  json->Integer("live", config.size.live);
  json->Integer("value_size", config.engine_config.value_bytes);
}

Status WriteText(const std::string& path, const std::string& text) {
  FILE* const file = fopen(path.c_str(), "w");
  if (file == nullptr) return Status::FromErrno(path, errno);
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  if (fclose(file) != 0 || !written) return Status::FromErrno(path, errno);
  return Status::OK();
}

Status Main() {
  SeekBenchConfig config;
  Status status = MakeConfig(&config);
  std::vector<const SeekRun*> runs;
  if (status.ok()) status = FindRuns(&runs);
  std::unique_ptr<Engine> engine;
  if (status.ok()) status = NewSeekEngine(config, &engine);
  if (status.ok()) status = engine->Check(config.engine_config);
  if (!status.ok()) return status;
  if (FLAGS_list) {
    for (const SeekRun* run : runs) {
      printf("%-15s %s\n", run->name.c_str(), run->what.c_str());
    }
    return status;
  }

  JsonWriter json;
  json.Open(nullptr, '{');
  WriteHead(config, *engine, &json);
  json.Open("results", '[');
  for (const SeekRun* run : runs) {
    json.Open(nullptr, '{');
    json.Text("workload", run->name);
    json.Text("what", run->what);
    status = run->run(config, run->name, &json);
    if (!status.ok()) return status;
    json.Close('}');
  }
  json.Close(']');
  json.Close('}');
  if (FLAGS_report_json.empty()) return status;
  return WriteText(FLAGS_report_json, json.Finish());
}

}  // namespace

}  // namespace varve

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "measures seeks over deleted entries.\n\n  seek_bench [FLAG...]");
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, true);
  if (FLAGS_help || FLAGS_helpshort) {
    // Without the flags of the flag library.
    gflags::ShowUsageWithFlagsRestrict(argv[0], "seek_bench.cc");
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();
  if (argc > 1) {
    fprintf(stderr, "seek_bench: unexpected argument '%s'\n", argv[1]);
    return 1;
  }
  const varve::Status status = varve::Main();
  if (status.ok()) return 0;
  fprintf(stderr, "seek_bench: %s\n", status.ToString().c_str());
  return 1;
}
