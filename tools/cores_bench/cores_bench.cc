// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Simulates many cores that execute operations of the engine: see
// docs/cores.md.

#include <gflags/gflags.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tools/cores_bench/code_names.h"
#include "tools/cores_bench/coherence_model.h"
#include "tools/cores_bench/step_tracer.h"
#include "tools/cores_bench/topics.h"
#include "tools/db_bench/json_writer.h"
#include "util/threads/per_cpu.h"

DEFINE_int32(cores, 128, "The most that are simulated: 1 to 256");
DEFINE_int32(rounds, 4, "Operations of each core that are recorded");
DEFINE_int32(operations, 60, "Operations of each core that are counted");
DEFINE_int32(seeds, 3, "Schedules of each number of cores");
DEFINE_string(topics, "", "Separated by commas; all without any");
DEFINE_bool(list, false, "List the topics and their variants, and end");
DEFINE_double(seconds, .2,
              "Of each measurement on this machine, by 1 and by 2 threads; 0: "
              "none");
DEFINE_string(report_json, "", "File to write all results to, as JSON");
DEFINE_string(db, "",
              "Empty directory for databases. Default: one in $TEST_TMPDIR or "
              "/tmp");

namespace varve::cores {
namespace {

constexpr const char* kAnotherTopic = ",";

bool IsChosen(const std::string& name) {
  if (FLAGS_topics.empty()) return true;
  const std::string all = kAnotherTopic + FLAGS_topics + kAnotherTopic;
  return all.find(kAnotherTopic + name + kAnotherTopic) != std::string::npos;
}

template <typename Value>
Value Median(std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// ---- On this machine --------------------------------------------------------

struct Round {
  double operations_a_second = 0;  // Of all threads together.
  double processors = 0;           // That the threads got, on average.
};

// The rounds that count, and the most that are run to get as many in which each
// thread had a processor.
constexpr size_t kRounds = 3;
constexpr size_t kMostRounds = 9;
constexpr double kWholeProcessor = .98;

double CpuSeconds() {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

Round Measure(Fixture* fixture, int threads) {
  std::atomic<bool> stop = false;
  std::atomic<int> ready = 0;
  std::vector<uint64_t> counts(static_cast<size_t>(threads));
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const std::unique_ptr<Worker> worker(
          fixture->NewWorker(static_cast<size_t>(i)));
      for (size_t round = 0; round < 8; ++round) worker->Run(round);
      ++ready;
      while (ready < threads) sched_yield();
      uint64_t count = 0;
      // relaxed: a flag alone.
      while (!stop.load(std::memory_order_relaxed)) {
        for (size_t round = 0; round < 64; ++round) worker->Run(round);
        count += 64;
      }
      counts[static_cast<size_t>(i)] = count;
    });
  }
  while (ready < threads) sched_yield();
  const double cpu_seconds = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_seconds));
  stop = true;
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  const double used_seconds = CpuSeconds() - cpu_seconds;
  for (std::thread& thread : all) thread.join();
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return {static_cast<double>(sum) / took.count(), used_seconds / took.count()};
}

// Returns kRounds rates. If others use the processors, these are the rounds
// that got most of them: threads that take turns do not contend. Threads that
// wait for a mutex use less, but equally in all rounds.
std::vector<double> LeastDisturbedRates(Fixture* fixture, int threads) {
  std::vector<Round> rounds;
  size_t undisturbed = 0;
  while (undisturbed < kRounds && rounds.size() < kMostRounds) {
    rounds.push_back(Measure(fixture, threads));
    if (rounds.back().processors >= kWholeProcessor * threads) ++undisturbed;
  }
  std::stable_sort(rounds.begin(), rounds.end(),
                   [](const Round& a, const Round& b) {
                     return a.processors > b.processors;
                   });
  rounds.resize(kRounds);
  std::vector<double> rates;
  for (const Round& round : rounds) rates.push_back(round.operations_a_second);
  return rates;
}

void MeasureHere(Fixture* fixture, JsonWriter* json) {
  json->Open("measured", '[');
  for (const int threads : {1, 2}) {
    const std::vector<double> rates = LeastDisturbedRates(fixture, threads);
    json->Open(nullptr, '{');
    json->Integer("threads", static_cast<uint64_t>(threads));
    json->Number("operations_a_second", Median(rates));
    json->Number("least", *std::min_element(rates.begin(), rates.end()));
    json->Number("most", *std::max_element(rates.begin(), rates.end()));
    json->Close('}');
  }
  json->Close(']');
}

// ---- Simulated --------------------------------------------------------------

// Simulates several schedules of one number of cores. Reports the one of the
// median rate, and the ranges of rates and P99.
void SimulateAll(const Recording& recording, size_t cores, size_t sockets,
                 const CodeNames& names, JsonWriter* json) {
  std::vector<ModelReport> reports;
  for (int seed = 1; seed <= FLAGS_seeds; ++seed) {
    const Schedule schedule = {
        .cores = cores,
        .sockets = sockets,
        .seed = static_cast<uint64_t>(seed),
        .warm_operations = 8 * static_cast<size_t>(FLAGS_rounds),
        .operations = static_cast<size_t>(FLAGS_operations)};
    reports.push_back(Simulate({}, recording, schedule));
  }
  std::sort(reports.begin(), reports.end(),
            [](const ModelReport& a, const ModelReport& b) {
              return a.operations_a_second < b.operations_a_second;
            });
  const ModelReport& report = reports[reports.size() / 2];
  json->Open(nullptr, '{');
  json->Integer("cores", cores);
  json->Integer("sockets", sockets);
  json->Number("operations_a_second", report.operations_a_second);
  json->Number("least", reports.front().operations_a_second);
  json->Number("most", reports.back().operations_a_second);
  json->Number("nanoseconds", report.nanoseconds);
  json->Number("p99_ns", report.p99_ns);
  const auto [least, most] =
      std::minmax_element(reports.begin(), reports.end(),
                          [](const ModelReport& a, const ModelReport& b) {
                            return a.p99_ns < b.p99_ns;
                          });
  json->Number("p99_least_ns", least->p99_ns);
  json->Number("p99_most_ns", most->p99_ns);
  json->Number("transfers", report.transfers);
  json->Number("invalidations", report.invalidations);
  json->Number("cold_misses", report.cold_misses);
  json->Number("coherence_misses", report.coherence_misses);
  json->Number("capacity_misses", report.capacity_misses);
  json->Number("sleeps", report.sleeps);
  json->Number("atomics", report.atomics);
  json->Number("serial_bound", report.serial_bound);
  json->Open("hottest", '[');
  for (const LineReport& line : report.hottest) {
    json->Open(nullptr, '{');
    json->Text("variable", names.NameOf(line.line * kLineBytes));
    json->Text("function", names.NameOf(line.code));
    json->Number("transfers", line.transfers);
    json->Number("busy_ns", line.busy_ns);
    json->Close('}');
  }
  json->Close(']');
  json->Close('}');
  if (cores == 1 || cores == 32 || cores == recording.threads.size()) {
    printf(
        "  %3zu cores, %zu sockets: %12.0f a second, P99 %8.1f ns, %6.3f "
        "lines transferred, %6.3f invalidations, bound %.3g\n",
        cores, sockets, report.operations_a_second, report.p99_ns,
        report.transfers, report.invalidations, report.serial_bound);
    fflush(stdout);
  }
}

void Run(const Topic& topic, const Variant& variant, StepTracer* tracer,
         const CodeNames& names, JsonWriter* json) {
  printf("%s, %s\n", topic.name.c_str(), variant.name.c_str());
  const std::unique_ptr<Fixture> fixture = variant.make();
  json->Open(nullptr, '{');
  json->Text("variant", variant.name);
  if (FLAGS_seconds > 0) MeasureHere(fixture.get(), json);
  const RecordingPlan plan = {.cores = static_cast<size_t>(FLAGS_cores),
                              .rounds = static_cast<size_t>(FLAGS_rounds)};
  const Recording recording = {
      .name = topic.name,
      .threads = RecordWorkers(
          plan, tracer, [&](size_t core) { return fixture->NewWorker(core); })};
  double instructions = 0;
  double accesses = 0;
  for (const OperationTrace& trace : recording.threads[0]) {
    instructions += trace.instructions;
    accesses += static_cast<double>(trace.accesses.size());
  }
  json->Number("instructions", instructions / FLAGS_rounds);
  json->Number("accesses", accesses / FLAGS_rounds);
  json->Open("simulated", '[');
  for (size_t sockets = 1; sockets <= 2; ++sockets) {
    for (size_t cores = sockets; cores <= plan.cores; cores *= 2) {
      SimulateAll(recording, cores, sockets, names, json);
    }
  }
  json->Close(']');
  json->Close('}');
}

int Main() {
  if (!FLAGS_list && BestPerCpuPath() == PerCpuPath::kAtomic) {
    fprintf(stderr,
            "cores_bench: needs restartable sequences, which this kernel or C "
            "library does not have\n");
    return 1;
  }
  std::string directory = FLAGS_db;
  if (directory.empty()) {
    directory = (std::filesystem::temp_directory_path() / "varve-cores-XXXXXX")
                    .string();
    if (mkdtemp(directory.data()) == nullptr) {
      perror("cores_bench: a directory");
      return 1;
    }
  }
  std::vector<Topic> topics = KernelTopics();
  for (Topic& topic : EngineTopics(directory))
    topics.push_back(std::move(topic));
  JsonWriter json;
  json.Open(nullptr, '{');
  json.Open("topics", '[');
  {
    // Before the first statistics, which have a set for each of them.
    PretendPossibleCpus(static_cast<size_t>(FLAGS_cores));
    StepTracer tracer;
    const CodeNames names;
    for (const Topic& topic : topics) {
      if (!IsChosen(topic.name)) continue;
      if (FLAGS_list) {
        printf("%s: %s\n", topic.name.c_str(), topic.operation.c_str());
        for (const Variant& variant : topic.variants) {
          printf("  %s\n", variant.name.c_str());
        }
        continue;
      }
      json.Open(nullptr, '{');
      json.Text("topic", topic.name);
      json.Text("operation", topic.operation);
      json.Open("variants", '[');
      for (const Variant& variant : topic.variants) {
        Run(topic, variant, &tracer, names, &json);
      }
      json.Close(']');
      json.Close('}');
    }
  }
  json.Close(']');
  json.Close('}');
  std::error_code ignored;  // A leftover is harmless.
  if (FLAGS_db.empty()) std::filesystem::remove_all(directory, ignored);
  if (FLAGS_report_json.empty()) return 0;
  FILE* const file = fopen(FLAGS_report_json.c_str(), "w");
  const std::string text = json.Finish();
  if (file == nullptr || fputs(text.c_str(), file) < 0 || fclose(file) != 0) {
    perror("cores_bench: --report_json");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace varve::cores

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "simulates many cores that execute operations of the engine.\n\n"
      "  cores_bench [FLAG...]");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc != 1 || FLAGS_cores < 1 ||
      static_cast<size_t>(FLAGS_cores) > varve::cores::kMaxCores ||
      FLAGS_rounds < 1 || FLAGS_operations < 1 || FLAGS_seeds < 1) {
    fprintf(stderr, "cores_bench: see --help\n");
    return 2;
  }
  return varve::cores::Main();
}
