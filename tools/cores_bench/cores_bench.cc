// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Simulates many cores that execute operations of the engine: see
// docs/cores.md.

#include <gflags/gflags.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/cores_bench/code_names.h"
#include "tools/cores_bench/coherence_model.h"
#include "tools/cores_bench/measurement.h"
#include "tools/cores_bench/step_tracer.h"
#include "tools/cores_bench/topics.h"
#include "tools/db_bench/json_writer.h"
#include "util/threads/per_cpu.h"

DEFINE_int32(cores, 128, "The most that are simulated: 1 to 256");
DEFINE_int32(rounds, 2,
             "Operations of each core that are recorded; one of those beyond "
             "8");
DEFINE_int32(operations, 60,
             "Operations of each core that are counted; of more than 32 cores "
             "fewer, but at least a fifth of them");
DEFINE_int32(seeds, 3,
             "Schedules of each number of cores; fewer if the first two agree");
DEFINE_int32(lines, 0,
             "Lines that are printed of each simulation, the busiest first, "
             "with the functions that move them");
DEFINE_string(topics, "", "Separated by commas; all without any");
DEFINE_string(
    kernel, "",
    "Library of kernels (tools/cores_bench/cores_kernel.h) to execute "
    "instead of the topics");
DEFINE_bool(list, false, "List the topics and their variants, and end");
DEFINE_double(seconds, .05,
              "Of each measurement on this machine, by 1 and by 2 threads; 0: "
              "none");
DEFINE_string(report_json, "", "File to write all results to, as JSON");
DEFINE_string(db, "",
              "Empty directory for databases. Default: one in $TEST_TMPDIR or "
              "/tmp");

namespace varve::cores {
namespace {

constexpr const char* kAnotherTopic = ",";
// The busiest lines of each simulation.
constexpr size_t kLinesOfTheReport = 5;

bool IsChosen(const std::string& name) {
  if (FLAGS_topics.empty()) return true;
  const std::string all = kAnotherTopic + FLAGS_topics + kAnotherTopic;
  return all.find(kAnotherTopic + name + kAnotherTopic) != std::string::npos;
}

// ---- On this machine --------------------------------------------------------

void MeasureHere(Fixture* fixture, JsonWriter* json) {
  Rates rates[2];
  json->Open("measured", '[');
  for (const int threads : {1, 2}) {
    Rates& measured = rates[threads - 1];
    measured = LeastDisturbedRates(fixture, threads, FLAGS_seconds);
    json->Open(nullptr, '{');
    json->Integer("threads", static_cast<uint64_t>(threads));
    json->Number("operations_a_second", measured.median);
    json->Number("least", measured.least);
    json->Number("most", measured.most);
    json->Close('}');
  }
  json->Close(']');
  const std::optional<double> gain = GainOfTwoThreads(rates[0], rates[1]);
  if (gain.has_value()) {
    json->Number("gain", *gain);
    printf("  measured here: 2 threads do %.2f times as much as 1\n", *gain);
  } else {
    json->Text("gain", "noise");
    printf("  measured here: noise\n");
  }
}

// ---- Simulated --------------------------------------------------------------

// Numbers of cores that are printed. Others are the points of a curve, which
// one socket has alone.
bool IsShown(size_t cores) {
  return cores == 1 || cores == 32 || cores == static_cast<size_t>(FLAGS_cores);
}

// Operations of each core that are counted. A mean is as certain as they are
// many in all, so that many cores need fewer each.
size_t CountedOperations(size_t cores) {
  constexpr size_t kCores = 32;
  const auto most = static_cast<size_t>(FLAGS_operations);
  return cores <= kCores ? most
                         : std::max(most * kCores / cores, (most + 4) / 5);
}

// Operations of each core before they are counted, so that all that are
// recorded were executed; several times if they are short, since some cores
// begin with misses while the others go on.
size_t WarmOperations(const Recording& recording) {
  constexpr size_t kLong = 100;
  // A kernel has no threads here.
  const bool is_short = !recording.threads.empty() &&
                        recording.threads[0][0].accesses.size() < kLong;
  return (is_short ? 48 : 3) * static_cast<size_t>(FLAGS_rounds);
}

size_t ReportedLines() {
  return std::max(kLinesOfTheReport, static_cast<size_t>(FLAGS_lines));
}

// Schedules of one number of cores: no more once they agree within one in a
// hundred. Empty if a kernel is stuck.
std::vector<ModelReport> Schedules(const varve_kernel* kernel,
                                   const Recording& recording, size_t cores,
                                   size_t sockets) {
  std::vector<ModelReport> reports;
  for (int seed = 1; seed <= FLAGS_seeds; ++seed) {
    const Schedule schedule = {.cores = cores,
                               .sockets = sockets,
                               .seed = static_cast<uint64_t>(seed),
                               .warm_operations = WarmOperations(recording),
                               .operations = CountedOperations(cores),
                               .lines = ReportedLines()};
    reports.push_back(kernel != nullptr ? Simulate({}, *kernel, schedule)
                                        : Simulate({}, recording, schedule));
    if (reports.back().is_stuck) return {};
    const double difference = reports.back().operations_a_second /
                                  reports.front().operations_a_second -
                              1;
    if (seed == 2 && std::abs(difference) < .01) break;
  }
  return reports;
}

struct MovingFunction {
  std::string name;
  double transfers;
};

// The functions that move the line, most transfers first.
std::vector<MovingFunction> FunctionsOf(const LineReport& line,
                                        const CodeNames& names) {
  std::vector<MovingFunction> functions;
  for (const LineReport::Mover& mover : line.movers) {
    const std::string name = names.NameOf(mover.code);
    const auto known =
        std::find_if(functions.begin(), functions.end(),
                     [&](const auto& each) { return each.name == name; });
    if (known != functions.end()) {
      known->transfers += mover.transfers;
    } else {
      functions.push_back({name, mover.transfers});
    }
  }
  std::stable_sort(
      functions.begin(), functions.end(),
      [](const auto& a, const auto& b) { return a.transfers > b.transfers; });
  return functions;
}

// The variable, if it is one, and the functions.
std::string OwnersOf(const LineReport& line, const CodeNames& names) {
  std::string text = names.NameOf(line.line * kLineBytes);
  for (const auto& [name, transfers] : FunctionsOf(line, names)) {
    char part[32];
    snprintf(part, sizeof(part), " %.2f", transfers);
    text += (text.empty() ? "" : ", ") + name + part;
  }
  constexpr const char kOurs[] = "varve::";
  for (size_t at; (at = text.find(kOurs)) != std::string::npos;) {
    text.erase(at, sizeof(kOurs) - 1);
  }
  return text;
}

void PrintLines(const ModelReport& report, const CodeNames& names) {
  for (size_t i = 0;
       i < report.hottest.size() && i < static_cast<size_t>(FLAGS_lines); ++i) {
    const LineReport& line = report.hottest[i];
    printf("    %6.2f moves, busy %6.1f ns: %s\n", line.transfers, line.busy_ns,
           OwnersOf(line, names).c_str());
  }
}

// Reports the schedule of the median rate, and the ranges of rates and P99.
// Returns false if a kernel is stuck.
bool SimulateAll(const varve_kernel* kernel, const Recording& recording,
                 size_t cores, size_t sockets, const CodeNames& names,
                 JsonWriter* json) {
  std::vector<ModelReport> reports =
      Schedules(kernel, recording, cores, sockets);
  if (reports.empty()) {
    fprintf(stderr,
            "cores_bench: with %zu cores, the kernel waits for something that "
            "never comes\n",
            cores);
    return false;
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
  json->Number("failures", report.failures);
  json->Number("instructions", report.instructions);
  json->Number("serial_bound", report.serial_bound);
  json->Open("hottest", '[');
  for (const LineReport& line : report.hottest) {
    json->Open(nullptr, '{');
    const uint64_t address = line.line * kLineBytes;
    json->Text("variable", kernel != nullptr
                               ? "address " + std::to_string(address)
                               : names.NameOf(address));
    json->Text("function", names.NameOf(line.code));
    json->Open("functions", '[');
    for (const MovingFunction& function : FunctionsOf(line, names)) {
      json->Open(nullptr, '{');
      json->Text("name", function.name);
      json->Number("transfers", function.transfers);
      json->Close('}');
    }
    json->Close(']');
    json->Number("transfers", line.transfers);
    json->Number("busy_ns", line.busy_ns);
    json->Close('}');
  }
  json->Close(']');
  json->Close('}');
  if (IsShown(cores)) {
    printf(
        "  %3zu cores, %zu sockets: %12.0f a second, P99 %8.1f ns, %6.3f "
        "lines transferred, %6.3f invalidations, bound %.3g\n",
        cores, sockets, report.operations_a_second, report.p99_ns,
        report.transfers, report.invalidations, report.serial_bound);
    PrintLines(report, names);
    fflush(stdout);
  }
  return true;
}

Recording MeasureAndRecord(const Topic& topic, const Variant& variant,
                           StepTracer* tracer, JsonWriter* json) {
  const std::unique_ptr<Fixture> fixture = variant.make();
  if (FLAGS_seconds > 0 && variant.is_measured) {
    MeasureHere(fixture.get(), json);
  }
  const RecordingPlan plan = {.cores = static_cast<size_t>(FLAGS_cores),
                              .rounds = static_cast<size_t>(FLAGS_rounds)};
  Recording recording = {
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
  return recording;
}

bool Run(const Topic& topic, const Variant& variant, StepTracer* tracer,
         const CodeNames& names, JsonWriter* json) {
  printf("%s, %s\n", topic.name.c_str(), variant.name.c_str());
  json->Open(nullptr, '{');
  json->Text("variant", variant.name);
  if (variant.known.has_value()) {
    json->Open("known", '{');
    json->Number("least", variant.known->least);
    json->Number("most", variant.known->most);
    json->Number("least_each", variant.known->least_each);
    json->Number("most_each", variant.known->most_each);
    json->Text("why", variant.known->why);
    json->Close('}');
  }
  const Recording recording =
      variant.kernel != nullptr
          ? Recording()
          : MeasureAndRecord(topic, variant, tracer, json);
  bool good = true;
  json->Open("simulated", '[');
  for (size_t sockets = 1; sockets <= 2; ++sockets) {
    for (auto cores = sockets;
         good && cores <= static_cast<size_t>(FLAGS_cores); cores *= 2) {
      if (sockets == 2 && !IsShown(cores)) continue;
      good =
          SimulateAll(variant.kernel, recording, cores, sockets, names, json);
    }
  }
  json->Close(']');
  json->Close('}');
  return good;
}

// False after a message.
bool GetTopics(const std::string& directory, std::vector<Topic>* topics) {
  if (!FLAGS_kernel.empty()) {
    std::string error;
    topics->emplace_back();
    if (LoadKernels(FLAGS_kernel, &topics->back(), &error)) return true;
    fprintf(stderr, "cores_bench: --kernel: %s\n", error.c_str());
    return false;
  }
  *topics = KernelTopics();
  for (std::vector<Topic> more : {ExecutedTopics(), EngineTopics(directory)}) {
    std::move(more.begin(), more.end(), std::back_inserter(*topics));
  }
  return true;
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
  std::vector<Topic> topics;
  bool good = GetTopics(directory, &topics);
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
        good = good && Run(topic, variant, &tracer, names, &json);
      }
      json.Close(']');
      json.Close('}');
    }
  }
  json.Close(']');
  json.Close('}');
  std::error_code ignored;  // A leftover is harmless.
  if (FLAGS_db.empty()) std::filesystem::remove_all(directory, ignored);
  if (!good) return 1;
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
      FLAGS_rounds < 1 || FLAGS_operations < 1 || FLAGS_seeds < 1 ||
      FLAGS_lines < 0) {
    fprintf(stderr, "cores_bench: see --help\n");
    return 2;
  }
  return varve::cores::Main();
}
