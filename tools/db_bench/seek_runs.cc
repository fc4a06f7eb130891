// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/seek_runs.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "tools/db_bench/engine_pebble.h"
#include "tools/db_bench/seek_database.h"
#include "util/base/append_format.h"

namespace varve {

// ---- What the runs share ----------------------------------------------------

double SecondsNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
             1e6;
}

double ThreadCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) / 1e9;
}

double Times::Seconds() const {
  double sum = 0;
  for (const uint64_t ns : ns_) sum += static_cast<double>(ns) / 1e9;
  return sum;
}

double Times::LastTenthRate() const {
  const size_t count = std::max<size_t>(1, ns_.size() / 10);
  if (ns_.size() < count) return 0;
  Times last;
  last.ns_.assign(ns_.end() - static_cast<ptrdiff_t>(count), ns_.end());
  return static_cast<double>(count) / std::max(last.Seconds(), 1e-9);
}

uint64_t Times::Percentile(double part) const {
  if (ns_.empty()) return 0;
  std::vector<uint64_t> sorted = ns_;
  const auto place =
      static_cast<size_t>(part * static_cast<double>(sorted.size() - 1) + .5);
  std::nth_element(sorted.begin(),
                   sorted.begin() + static_cast<ptrdiff_t>(place),
                   sorted.end());
  return sorted[place];
}

double Times::CpuMeanNs() const {
  return cpu_seconds_ * 1e9 /
         static_cast<double>(std::max<size_t>(1, ns_.size()));
}

void Times::Write(const char* name, JsonWriter* json) const {
  json->Open(name, '{');
  json->Integer("count", ns_.size());
  json->Integer("first_ns", ns_.empty() ? 0 : ns_.front());
  json->Integer("p50_ns", Percentile(.5));
  json->Integer("p99_ns", Percentile(.99));
  json->Integer("max_ns", Percentile(1));
  if (cpu_seconds_ > 0) {
    json->Number("cpu_mean_ns", CpuMeanNs());
  }
  json->Close('}');
}

std::string Times::Summary() const {
  char text[100];
  snprintf(text, sizeof(text), "%.1f us (P99 %.1f",
           static_cast<double>(Percentile(.5)) / 1e3,
           static_cast<double>(Percentile(.99)) / 1e3);
  std::string summary = text;
  if (cpu_seconds_ > 0) {
    snprintf(text, sizeof(text), ", CPU %.1f", CpuMeanNs() / 1e3);
    summary.append(text);
  }
  return summary + ")";
}

Status NewSeekEngine(const SeekConfig& config,
                     std::unique_ptr<Engine>* engine) {
  if (config.engine == "pebble") {
    return NewPebbleEngine(config.pebble_library, engine);
  }
  return NewEngine(config.engine, engine);
}

void SeekConfig::Scale(double part) {
  const auto scale = [part](uint64_t* count, double least) {
    *count = static_cast<uint64_t>(
        std::max(least, part * static_cast<double>(*count)));
  };
  scale(&seeks, 5);
  scale(&load_operations, 10);
  scale(&space_num, 1000);
  for (double* const seconds : {&phase_seconds, &quiet_seconds, &queue_seconds,
                                &space_seconds, &worst_seconds}) {
    *seconds *= part;
  }
}

// ---- Seeks ------------------------------------------------------------------

namespace {

// Seeks of one workload, each with an iterator of its own.
class Seeker {
 public:
  Seeker(SeekDatabase* database, const SeekTargets& targets, uint64_t seed)
      : database_(database),
        targets_(targets),
        random_(seed),
        session_(database->engine()->NewSession()) {}

  // Returns false on an error.
  bool SeekOnce(Times* times) {
    const SeekTarget target = targets_(&random_);
    if (reader_ == nullptr) {
      reader_ = std::make_unique<KeyReader>(session_.get());
    }
    const auto start = std::chrono::steady_clock::now();
    uint64_t found = target.last            ? reader_->SeekToLast()
                     : target.key == kNoKey ? reader_->SeekToFirst()
                                            : reader_->Seek(target.key);
    for (int i = 0; i < target.nexts; ++i) found = reader_->Next();
    const auto end = std::chrono::steady_clock::now();
    times->Add(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(end - start)
            .count()));
    if (found == target.expected) return true;
    database_->Fail(reader_->status());
    database_->Fail(Status::Corruption("a seek to " +
                                       std::to_string(target.key) + " found " +
                                       std::to_string(found) + " instead of " +
                                       std::to_string(target.expected)));
    return false;
  }

  // A slow engine makes at least five seeks. No iterator is left open.
  Times SeekMany(uint64_t count, double seconds) {
    Times times;
    const double start = SecondsNow();
    const double cpu_start = ThreadCpuSeconds();
    while (times.count() < count && SeekOnce(&times)) {
      // The clock of each seek is read anyway, this one seldom.
      const bool due = times.count() % 16 == 10 || times.last_ns() > 100000;
      if (due && times.count() >= 5 && SecondsNow() - start > seconds) break;
    }
    times.SetCpuSeconds(ThreadCpuSeconds() - cpu_start);
    reader_.reset();
    return times;
  }

 private:
  SeekDatabase* const database_;
  const SeekTargets& targets_;
  Random random_;
  const std::unique_ptr<EngineSession> session_;
  std::unique_ptr<KeyReader> reader_;  // May be null.
};

// The phases of a database.
struct SeekPhases {
  Times held;  // While a snapshot needs the deleted entries.
  Times at_once;
  Times after_quiet;
  Times under_load;
  Times after_load;
  uint64_t user_bytes = 0;
  // Tables written until the deletions were done, and in each part after it.
  uint64_t make_table_bytes = 0;
  uint64_t quiet_table_bytes = 0;
  uint64_t load_table_bytes = 0;
  uint64_t missed_tables = 0;
  double quiet_cpu_seconds = 0;
  double load_cpu_seconds = 0;
};

class SeekMeasurement {
 public:
  SeekMeasurement(const SeekConfig& config, const SeekWorkload& workload)
      : config_(config),
        workload_(workload),
        targets_(workload.targets(config.size)) {}

  Status Run(bool dead, SeekPhases* phases) {
    std::unique_ptr<Engine> engine;
    Status status = NewSeekEngine(config_, &engine);
    if (status.ok()) status = MeasureQuiet(engine.get(), dead, phases);
    if (status.ok()) status = MeasureLoad(engine.get(), dead, phases);
    return status;
  }

 private:
  EngineConfig MakeEngineConfig() const {
    constexpr uint64_t kMinWriteBuffer = uint64_t{64} << 10;
    // Of an entry and its deletion in memory, without key and value.
    constexpr uint64_t kOverhead = 150;
    EngineConfig engine_config = config_.engine_config;
    if (workload_.value_bytes > 0) {
      engine_config.value_bytes = workload_.value_bytes;
    }
    const uint64_t data_bytes =
        config_.size.num * (kSeekKeyBytes + engine_config.value_bytes);
    if (workload_.write_buffer_part > 0) {
      engine_config.write_buffer_bytes =
          std::max(kMinWriteBuffer, data_bytes / workload_.write_buffer_part);
    }
    if (workload_.in_memory) {
      engine_config.write_buffer_bytes =
          std::max<uint64_t>(engine_config.write_buffer_bytes,
                             2 * data_bytes + config_.size.num * kOverhead);
    }
    return engine_config;
  }

  Status Make(bool dead, SeekDatabase* database) {
    const Status status = database->Create();
    if (!status.ok()) return status;
    workload_.make(config_.size, dead, database);
    return database->status();
  }

  // Seeks while the snapshot is held, and releases it.
  void ReleaseSnapshot(SeekDatabase* database, Seeker* seeker, Times* held) {
    if (!workload_.snapshot) return;
    *held = seeker->SeekMany(config_.seeks, config_.phase_seconds);
    database->engine()->ReleaseSnapshot();
  }

  Status MeasureQuiet(Engine* engine, bool dead, SeekPhases* phases) {
    SeekDatabase database(engine, MakeEngineConfig(), config_.seed);
    Status status = Make(dead, &database);
    if (!status.ok()) return status;
    {
      const TableCounts before = database.tables();
      const double cpu_before = CpuSeconds();
      Seeker seeker(&database, targets_, config_.seed);
      ReleaseSnapshot(&database, &seeker, &phases->held);
      phases->at_once = seeker.SeekMany(config_.seeks, config_.phase_seconds);
      std::this_thread::sleep_for(
          std::chrono::duration<double>(config_.quiet_seconds));
      phases->after_quiet =
          seeker.SeekMany(config_.seeks, config_.phase_seconds);
      const TableCounts after = database.tables();
      phases->user_bytes = database.user_bytes();
      phases->make_table_bytes = before.bytes;
      phases->quiet_table_bytes = after.bytes - before.bytes;
      phases->missed_tables += after.missed;
      phases->quiet_cpu_seconds = CpuSeconds() - cpu_before;
    }
    return database.Destroy();
  }

  Status MeasureLoad(Engine* engine, bool dead, SeekPhases* phases) {
    SeekDatabase database(engine, MakeEngineConfig(), config_.seed);
    Status status = Make(dead, &database);
    if (!status.ok()) return status;
    {
      const TableCounts before = database.tables();
      const double cpu_before = CpuSeconds();
      Seeker seeker(&database, targets_, config_.seed);
      if (workload_.snapshot) database.engine()->ReleaseSnapshot();
      LoadThread load(&database, config_.size.live, config_.load_rate);
      Random random(config_.seed);
      const double start = SecondsNow();
      // Of ten operations one is a seek, and the others are puts.
      for (uint64_t i = 0; i < config_.load_operations; ++i) {
        if (i % 10 == 0) {
          // A slow engine would take minutes.
          if (SecondsNow() - start > 3 * config_.phase_seconds) break;
          if (!seeker.SeekOnce(&phases->under_load)) break;
        } else {
          database.writer().Put(kLiveKeys + random.Uniform(config_.size.live));
        }
      }
      phases->after_load =
          seeker.SeekMany(config_.seeks, config_.phase_seconds);
      load.Stop();
      const TableCounts after = database.tables();
      phases->load_table_bytes = after.bytes - before.bytes;
      phases->missed_tables += after.missed;
      phases->load_cpu_seconds = CpuSeconds() - cpu_before;
    }
    return database.Destroy();
  }

  const SeekConfig& config_;
  const SeekWorkload& workload_;
  const SeekTargets targets_;
};

void WritePhases(const char* name, const SeekWorkload& workload,
                 const SeekPhases& phases, JsonWriter* json) {
  json->Open(name, '{');
  if (workload.snapshot) phases.held.Write("held", json);
  phases.at_once.Write("at_once", json);
  phases.after_quiet.Write("after_quiet", json);
  phases.under_load.Write("under_load", json);
  phases.after_load.Write("after_load", json);
  json->Integer("user_bytes", phases.user_bytes);
  json->Integer("make_table_bytes", phases.make_table_bytes);
  json->Integer("quiet_table_bytes", phases.quiet_table_bytes);
  json->Integer("load_table_bytes", phases.load_table_bytes);
  json->Integer("missed_tables", phases.missed_tables);
  json->Number("quiet_cpu_seconds", phases.quiet_cpu_seconds);
  json->Number("load_cpu_seconds", phases.load_cpu_seconds);
  json->Close('}');
}

void PrintPhases(const std::string& name, const char* which,
                 const SeekPhases& phases) {
  printf(
      "%-15s %-5s: at once %s, after quiet %s, after load %s, "
      "%.1f MB rewritten\n",
      name.c_str(), which, phases.at_once.Summary().c_str(),
      phases.after_quiet.Summary().c_str(), phases.after_load.Summary().c_str(),
      static_cast<double>(phases.quiet_table_bytes) / 1e6);
  fflush(stdout);
}

}  // namespace

Status RunSeeks(const SeekConfig& config, const std::string& name,
                JsonWriter* json) {
  const SeekWorkload* workload = nullptr;
  for (const SeekWorkload& each : SeekWorkloads()) {
    if (each.name == name) workload = &each;
  }
  if (workload == nullptr) return Status::InvalidArgument(name);
  SeekMeasurement measurement(config, *workload);
  json->Text("kind", "seeks");
  for (const bool dead : {true, false}) {
    const char* const which = dead ? "dead" : "clean";
    SeekPhases phases;
    const Status status = measurement.Run(dead, &phases);
    if (!status.ok()) return status.Annotate(name);
    WritePhases(which, *workload, phases, json);
    PrintPhases(name, which, phases);
  }
  return Status::OK();
}

namespace {

const std::vector<SeekRun>& SeekRuns() {
  static const std::vector<SeekRun> runs = [] {
    std::vector<SeekRun> all;
    for (const SeekWorkload& workload : SeekWorkloads()) {
      all.push_back({workload.name, workload.what, RunSeeks});
    }
    for (const char* bytes : {"1", "100", "1000"}) {
      all.push_back(
          {std::string("queue-") + bytes,
           std::string("num values of ") + bytes + " bytes pushed, then popped",
           RunQueue});
    }
    all.push_back({"queue-producer",
                   "num values popped while another thread pushes them",
                   RunQueue});
    all.push_back({"space", "files after deletions of 9 in 10 keys", RunSpace});
    all.push_back({"worst-live",
                   "runs of keys deleted, walked over and put again, forever",
                   RunWorst});
    all.push_back({"worst-snapshot",
                   "runs of keys deleted under snapshots and walked over",
                   RunWorst});
    all.push_back({"worst-spread",
                   "short runs of deleted keys in much live data, walked over",
                   RunWorst});
    return all;
  }();
  return runs;
}

}  // namespace

const SeekRun* FindSeekRun(const std::string& name) {
  for (const SeekRun& run : SeekRuns()) {
    if (run.name == name) return &run;
  }
  return nullptr;
}

std::string DescribeSeekRuns() {
  std::string text;
  for (const SeekRun& run : SeekRuns()) {
    AppendFormat(&text, "  %-22s %s\n", run.name.c_str(), run.what.c_str());
  }
  return text;
}

}  // namespace varve
