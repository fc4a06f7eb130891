// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: cores_bench records what operations do to memory, and its model of
// many cores gives what is known of textbook cases. Methods: recorded
// functions of a few instructions; recordings made by hand; kernels that are
// executed, right and wrong ones; the engine's own reads.

#ifdef VARVE_HAVE_CORES_BENCH

#include <sched.h>
#include "test/testing/test_headers.h"

#include "test/testing/temp_dir.h"
#include "tools/cores_bench/code_names.h"
#include "tools/cores_bench/coherence_model.h"
#include "tools/cores_bench/kernel_core.h"
#include "tools/cores_bench/measurement.h"
#include "tools/cores_bench/simulated_core.h"
#include "tools/cores_bench/step_tracer.h"
#include "tools/cores_bench/topics.h"
#include "util/threads/per_cpu.h"

namespace varve::cores {

// Returns an address inside it. Not in the anonymous namespace, whose inlined
// functions have no names that can be linked.
[[gnu::always_inline]] inline uint64_t InlinedFunction() {
  uint64_t address;
  asm volatile("lea -1(%%rip), %0" : "=r"(address));
  return address;
}

namespace {

constexpr size_t kCores = 8;

// Before anything asks for them.
[[maybe_unused]] const bool pretended = [] {
  PretendPossibleCpus(kCores);
  return true;
}();

// ---- Recording --------------------------------------------------------------

uint64_t LineOf(const void* address) {
  return reinterpret_cast<uint64_t>(address) / kLineBytes;
}

size_t CountOf(const OperationTrace& trace, const void* address,
               AccessKind kind) {
  size_t count = 0;
  for (const Access& access : trace.accesses) {
    count += access.line == LineOf(address) && access.kind == kind ? 1 : 0;
  }
  return count;
}

struct alignas(64) OneLine {
  std::atomic<uint64_t> value{0};
  char rest[56];
};

struct Places {
  OneLine loaded;
  OneLine stored;
  OneLine added;
  alignas(64) std::mutex mutex;
  alignas(64) char text[256];
};

TEST(StepTracerTest, TellsLoadsStoresAndAtomics) {
  const auto places = std::make_unique<Places>();
  StepTracer tracer;
  const OperationTrace trace = tracer.Trace(
      [](void* argument) {
        auto* const to = static_cast<Places*>(argument);
        // relaxed, all: one thread.
        to->stored.value.store(
            to->loaded.value.load(std::memory_order_relaxed) + 1,
            std::memory_order_relaxed);
        to->added.value.fetch_add(2, std::memory_order_relaxed);
      },
      places.get());
  EXPECT_EQ(places->stored.value, 1u);
  EXPECT_EQ(places->added.value, 2u);
  EXPECT_EQ(CountOf(trace, &places->loaded, AccessKind::kLoad), 1u);
  EXPECT_EQ(CountOf(trace, &places->stored, AccessKind::kStore), 1u);
  EXPECT_EQ(CountOf(trace, &places->stored, AccessKind::kAtomic), 0u);
  EXPECT_EQ(CountOf(trace, &places->added, AccessKind::kAtomic), 1u);
  EXPECT_GT(trace.instructions, 4u);
  EXPECT_LT(trace.instructions, 60u);
  for (size_t i = 1; i < trace.accesses.size(); ++i) {
    EXPECT_LE(trace.accesses[i - 1].instruction, trace.accesses[i].instruction);
  }
}

TEST(StepTracerTest, TellsCompareAndSwapsAndTheWordsOfALine) {
  const auto places = std::make_unique<Places>();
  StepTracer tracer;
  const OperationTrace trace = tracer.Trace(
      [](void* argument) {
        auto* const to = static_cast<Places*>(argument);
        uint64_t expected = 0;
        to->added.value.compare_exchange_strong(expected, 1);
        asm volatile("movq $1, %0" : "=m"(to->stored.rest[40]));
        // From the last word of a line to the first of the next one.
        asm volatile("movq $1, %0" : "=m"(to->text[60]));
      },
      places.get());
  EXPECT_EQ(CountOf(trace, &places->added, AccessKind::kCompare), 1u);
  EXPECT_EQ(CountOf(trace, &places->added, AccessKind::kAtomic), 0u);
  const auto words_of = [&](const void* address, AccessKind kind) {
    for (const Access& access : trace.accesses) {
      if (access.line == LineOf(address) && access.kind == kind) {
        return int{access.words};
      }
    }
    return 0;
  };
  EXPECT_EQ(words_of(&places->added, AccessKind::kCompare), 1);
  EXPECT_EQ(words_of(&places->stored, AccessKind::kStore), 1 << 6);
  EXPECT_EQ(words_of(places->text, AccessKind::kStore), 1 << 7);
  EXPECT_EQ(words_of(places->text + 64, AccessKind::kStore), 1);
}

TEST(StepTracerTest, SeesMutexes) {
  const auto places = std::make_unique<Places>();
  StepTracer tracer;
  // A process of one thread takes mutexes without atomic instructions.
  std::thread([&] {
    const OperationTrace trace = tracer.Trace(
        [](void* argument) {
          const std::lock_guard lock(static_cast<Places*>(argument)->mutex);
        },
        places.get());
    EXPECT_EQ(CountOf(trace, &places->mutex, AccessKind::kLock), 1u);
    EXPECT_EQ(CountOf(trace, &places->mutex, AccessKind::kRelease), 1u);
    EXPECT_EQ(CountOf(trace, &places->mutex, AccessKind::kAtomic), 0u);
  }).join();
}

TEST(StepTracerTest, SeesAllLinesOfACopy) {
  const auto places = std::make_unique<Places>();
  StepTracer tracer;
  for (const bool by_string : {false, true}) {
    const auto copy = by_string ? +[](void* argument) {
      char* to = static_cast<Places*>(argument)->text;
      size_t count = sizeof(Places::text);
      asm volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    } : +[](void* argument) {
      volatile size_t size = sizeof(Places::text);
      memset(static_cast<Places*>(argument)->text, 1, size);
    };
    const OperationTrace trace = tracer.Trace(copy, places.get());
    for (size_t i = 0; i < sizeof(places->text); i += kLineBytes) {
      EXPECT_GE(CountOf(trace, places->text + i, AccessKind::kStore), 1u)
          << by_string << " " << i;
    }
  }
}

TEST(StepTracerTest, CountsSystemCalls) {
  StepTracer tracer;
  const OperationTrace trace = tracer.Trace(
      [](void* /*argument*/) {
        for (int i = 0; i < 3; ++i) std::this_thread::yield();
      },
      nullptr);
  EXPECT_EQ(trace.system_calls, 3u);
}

TEST(StepTracerTest, ClocksStandStill) {
  struct Reader {
    int64_t at_first = 0;
    int64_t later = 0;
  } reader;
  const auto before = std::chrono::steady_clock::now();
  StepTracer tracer;
  const auto created = std::chrono::steady_clock::now();
  tracer.Trace(
      [](void* argument) {
        auto* const to = static_cast<Reader*>(argument);
        to->at_first =
            std::chrono::steady_clock::now().time_since_epoch().count();
        asm volatile("nop\nnop\nnop\nnop");
        to->later = std::chrono::steady_clock::now().time_since_epoch().count();
      },
      &reader);
  EXPECT_EQ(reader.at_first, reader.later);
  EXPECT_GE(reader.at_first, before.time_since_epoch().count());
  EXPECT_LE(reader.at_first, created.time_since_epoch().count());
}

// Has a rare event in its first rounds.
class RareWorker final : public Worker {
 public:
  void Run(size_t /*round*/) override {
    ++runs;
    if (runs <= rare_runs) std::this_thread::yield();
  }
  void BeforeRecording(size_t /*round*/) override { ++announced; }
  bool IsTypical(const OperationTrace& trace) override {
    return trace.system_calls == 0;
  }

  static int runs;
  static int rare_runs;
  static int announced;
};
int RareWorker::runs;
int RareWorker::rare_runs;
int RareWorker::announced;

TEST(SimulatedCoreTest, RecordsAgainWhatIsNotTypical) {
  StepTracer tracer;
  for (const int rare_runs : {0, 3, 1000}) {
    RareWorker::runs = RareWorker::announced = 0;
    RareWorker::rare_runs = rare_runs;
    const auto traces =
        RecordWorkers({.cores = 1, .warm_rounds = 1, .rounds = 2}, &tracer,
                      [](size_t) { return new RareWorker(); });
    ASSERT_EQ(traces[0].size(), 2u);
    EXPECT_EQ(RareWorker::announced, 2);
    // It gives up at some time.
    EXPECT_EQ(traces[0][1].system_calls, rare_runs == 1000 ? 1u : 0u);
    EXPECT_EQ(traces[0][0].system_calls, rare_runs == 1000 ? 1u : 0u);
    // The first run is warm, the next two are recorded again.
    EXPECT_EQ(RareWorker::runs, rare_runs == 0 ? 3 : rare_runs == 3 ? 5 : 21);
  }
}

TEST(SimulatedCoreTest, ThreadsBelieveInTheirProcessor) {
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "no restartable sequences on this machine";
  }
  PerCpuCells<8> cells;
  for (const size_t number : {size_t{0}, size_t{1}}) {
    std::thread([&] {
      ASSERT_TRUE(PretendToRunOn(number));
      EXPECT_EQ(sched_getcpu(), static_cast<int>(number));
      cells.Add(3, 5 + number);
    }).join();
    // relaxed: the thread has ended.
    EXPECT_EQ(cells.set(number)[3].load(std::memory_order_relaxed), 5 + number);
  }
}

// ---- The model on recordings made by hand -----------------------------------

// Each core has the same operation: the access kinds, on lines that a function
// of core and place gives.
template <typename Line>
Recording Made(size_t cores, const std::vector<AccessKind>& kinds,
               const Line& line_of) {
  Recording recording;
  for (size_t core = 0; core < cores; ++core) {
    OperationTrace trace;
    for (size_t i = 0; i < kinds.size(); ++i) {
      trace.accesses.push_back({.line = line_of(core, i),
                                .code = 0,
                                .instruction = static_cast<uint32_t>(10 * i),
                                .kind = kinds[i]});
    }
    trace.instructions = static_cast<uint32_t>(10 * kinds.size());
    recording.threads.push_back({trace});
  }
  return recording;
}

ModelReport Simulated(const Recording& recording, size_t cores,
                      size_t sockets = 1, uint64_t seed = 1,
                      const ModelParameters& parameters = {}) {
  return Simulate(parameters, recording,
                  {.cores = cores,
                   .sockets = sockets,
                   .seed = seed,
                   .warm_operations = 20,
                   .operations = 100});
}

// No core keeps a line for a second attempt.
ModelParameters InTurn() {
  ModelParameters parameters;
  parameters.hold_cycles = 0;
  return parameters;
}

uint64_t Shared(size_t /*core*/, size_t place) { return 1000 + place; }
uint64_t Private(size_t core, size_t place) { return 1000 * core + place; }

TEST(CoherenceModelTest, ASharedAtomicMovesOnceAnOperation) {
  const Recording recording = Made(64, {AccessKind::kAtomic}, Shared);
  const ModelParameters parameters;
  for (const size_t cores : {2, 8, 64}) {
    const ModelReport report = Simulated(recording, cores);
    EXPECT_EQ(report.transfers, 1) << cores;
    EXPECT_EQ(report.coherence_misses, 1) << cores;
    EXPECT_NEAR(report.operations_a_second, 1e9 / parameters.other_core_ns, 2e6)
        << cores;
    EXPECT_LE(report.operations_a_second, 1.01 * report.serial_bound);
    // Waiting in line.
    EXPECT_GT(report.p99_ns,
              .9 * static_cast<double>(cores) * parameters.other_core_ns);
  }
  const ModelReport alone = Simulated(recording, 1);
  EXPECT_EQ(alone.transfers, 0);
  EXPECT_EQ(alone.serial_bound, 0);
}

TEST(CoherenceModelTest, SaysWhichInstructionsMoveALine) {
  // Two on one line, of which the first moves it, and one on another.
  const std::vector<AccessKind> kinds(3, AccessKind::kAtomic);
  Recording recording = Made(8, kinds, [](size_t, size_t place) {
    return uint64_t{place == 2 ? 2u : 1u};
  });
  for (std::vector<OperationTrace>& thread : recording.threads) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      thread[0].accesses[i].code = 100 + i;
    }
  }
  ModelReport report = Simulated(recording, 8);
  ASSERT_EQ(report.hottest.size(), 2u);
  for (const LineReport& line : report.hottest) {
    double sum = 0;
    double last = line.transfers;
    for (const LineReport::Mover& mover : line.movers) {
      EXPECT_EQ(mover.code == 102, line.line == 2);
      EXPECT_LE(mover.transfers, last);
      sum += last = mover.transfers;
    }
    EXPECT_GT(line.transfers, 0);
    EXPECT_NEAR(sum, line.transfers, 1e-9);
  }
  const Schedule schedule = {.cores = 8, .lines = 1};
  EXPECT_EQ(Simulate({}, recording, schedule).hottest.size(), 1u);
}

TEST(CoherenceModelTest, AnOvertakenCompareAndSwapIsRepeated) {
  const std::vector<AccessKind> loop = {AccessKind::kLoad,
                                        AccessKind::kCompare};
  const auto one_line = [](size_t, size_t) { return uint64_t{1}; };
  const Recording shared = Made(64, loop, one_line);
  EXPECT_EQ(Simulated(shared, 1).failures, 0);
  for (const size_t cores : {2, 8, 64}) {
    const ModelReport report = Simulated(shared, cores, 1, 1, InTurn());
    // One attempt of each core, of which the first succeeds.
    EXPECT_EQ(report.failures, static_cast<double>(cores - 1));
    EXPECT_EQ(report.atomics, static_cast<double>(cores));
    EXPECT_LT(report.operations_a_second,
              Simulated(Made(64, {AccessKind::kAtomic}, one_line), cores)
                  .operations_a_second);
  }
  EXPECT_EQ(
      Simulated(
          Made(8, loop, [](size_t core, size_t) { return uint64_t{core}; }), 8)
          .failures,
      0);
}

// A core whose attempt failed has the line. If the next attempt succeeds in
// `part` of the cases, and else the line goes to the next core, then a success
// comes after so many attempts with a line that had to move. No core waits for
// longer than until all others have failed, since its own read is the latest.
double MovesOfALoop(size_t cores, double part) {
  double moves = 0;
  double all_failed = 1;
  for (size_t i = 0; i < cores; ++i) {
    moves += all_failed;
    all_failed *= 1 - part;
  }
  return moves;
}

TEST(CoherenceModelTest, WhoFailsMayKeepTheLineForASecondAttempt) {
  const std::vector<AccessKind> loop = {AccessKind::kLoad,
                                        AccessKind::kCompare};
  const auto one_line = [](size_t, size_t) { return uint64_t{1}; };
  Recording shared = Made(64, loop, one_line);
  ModelParameters parameters;
  const double between_cycles =
      parameters.atomic_cycles + 10 * parameters.cycles_per_instruction;
  for (const size_t cores : {2, 8, 64}) {
    // Too short for what is computed between the attempts.
    parameters.hold_cycles = between_cycles - 1;
    EXPECT_EQ(Simulated(shared, cores, 1, 1, parameters).failures,
              static_cast<double>(cores - 1));
    for (const double part : {.2, .5}) {
      if (cores == 2) continue;  // Who loads the line matters more.
      parameters.hold_cycles = between_cycles / (1 - part);
      const ModelReport report = Simulated(shared, cores, 1, 1, parameters);
      const double known = MovesOfALoop(cores, part);
      EXPECT_NEAR(report.transfers / known, 1, .1) << cores << " " << part;
      EXPECT_LE(report.operations_a_second, 1.01 * report.serial_bound);
    }
    parameters.hold_cycles = 1e9 * between_cycles;
    EXPECT_EQ(Simulated(shared, cores, 1, 1, parameters).transfers, 1);
  }
  // An access of another line gives it away.
  for (std::vector<OperationTrace>& thread : shared.threads) {
    thread[0].accesses.insert(
        thread[0].accesses.begin() + 1,
        {.line = 2, .code = 0, .instruction = 5, .kind = AccessKind::kAtomic});
  }
  EXPECT_EQ(Simulated(shared, 8, 1, 1, parameters).failures,
            Simulated(shared, 8, 1, 1, InTurn()).failures);
}

TEST(CoherenceModelTest, ACompareAndSwapOfAnotherWordDoesNotFail) {
  // Each core has a word of the one line.
  Recording recording = Made(8, {AccessKind::kLoad, AccessKind::kCompare},
                             [](size_t, size_t) { return uint64_t{1}; });
  for (size_t core = 0; core < 8; ++core) {
    for (Access& access : recording.threads[core][0].accesses) {
      access.words = static_cast<uint8_t>(1 << core);
    }
  }
  const ModelReport report = Simulated(recording, 8);
  EXPECT_EQ(report.failures, 0);
  EXPECT_GT(report.transfers, .9);
}

TEST(CoherenceModelTest, PrivateAtomicsScale) {
  const Recording recording = Made(64, {AccessKind::kAtomic}, Private);
  const double one = Simulated(recording, 1).operations_a_second;
  const ModelReport report = Simulated(recording, 64);
  EXPECT_EQ(report.transfers, 0);
  EXPECT_EQ(report.invalidations, 0);
  EXPECT_NEAR(report.operations_a_second / one, 64, 2);
}

TEST(CoherenceModelTest, ReadersShareALineForNothing) {
  const Recording recording =
      Made(64, {AccessKind::kLoad, AccessKind::kLoad}, Shared);
  const ModelReport report = Simulated(recording, 64, 2);
  EXPECT_EQ(report.transfers, 0);
  EXPECT_EQ(report.coherence_misses, 0);
  EXPECT_LT(report.cold_misses, .01);
}

TEST(CoherenceModelTest, OneWriterCostsItsReaders) {
  // Core 0 stores, the others load.
  Recording recording = Made(8, {AccessKind::kLoad}, Shared);
  recording.threads[0][0].accesses[0].kind = AccessKind::kStore;
  const ModelReport report = Simulated(recording, 8);
  EXPECT_GT(report.coherence_misses, 0);
  EXPECT_GT(report.invalidations, 0);
  EXPECT_LT(
      report.operations_a_second,
      Simulated(Made(8, {AccessKind::kLoad}, Shared), 8).operations_a_second);
}

TEST(CoherenceModelTest, TheOtherSocketIsFarther) {
  const Recording recording = Made(8, {AccessKind::kAtomic}, Shared);
  EXPECT_LT(Simulated(recording, 8, 2).operations_a_second,
            .8 * Simulated(recording, 8, 1).operations_a_second);
}

TEST(CoherenceModelTest, SpaceRunsOut) {
  // 512 KiB of lines, twice the private cache, and a quarter of it.
  const std::vector<AccessKind> many(8192, AccessKind::kLoad);
  const ModelReport large = Simulated(Made(1, many, Private), 1);
  EXPECT_NEAR(large.capacity_misses, 8192, 100);
  const std::vector<AccessKind> few(1024, AccessKind::kLoad);
  EXPECT_EQ(Simulated(Made(1, few, Private), 1).capacity_misses, 0);
}

TEST(CoherenceModelTest, AMutexHasOneHolder) {
  const std::vector<AccessKind> kinds = {AccessKind::kLock, AccessKind::kStore,
                                         AccessKind::kRelease};
  // The mutex is one line, and what it guards another.
  const Recording recording = Made(32, kinds, [](size_t, size_t place) {
    return uint64_t{place == 1 ? 2u : 1u};
  });
  const ModelReport report = Simulated(recording, 32);
  EXPECT_GT(report.sleeps, .1);
  EXPECT_LE(report.operations_a_second, 1.01 * report.serial_bound);
  EXPECT_LT(report.operations_a_second,
            Simulated(recording, 1).operations_a_second);
}

TEST(CoherenceModelTest, AScheduleCanBeRepeated) {
  const Recording recording =
      Made(16, {AccessKind::kLock, AccessKind::kRelease, AccessKind::kAtomic},
           [](size_t, size_t place) { return uint64_t{place / 2}; });
  const ModelReport first = Simulated(recording, 16, 1, 7);
  const ModelReport again = Simulated(recording, 16, 1, 7);
  EXPECT_EQ(first.operations_a_second, again.operations_a_second);
  EXPECT_EQ(first.transfers, again.transfers);
  EXPECT_EQ(first.p99_ns, again.p99_ns);
}

// ---- Kernels that are executed ----------------------------------------------

TEST(KernelCoreTest, AsksAndGoesOnWithTheAnswer) {
  constexpr varve_kernel kernel = {
      "", [](varve_core* core) {
        const uint64_t loaded = core->load(core, 8 * core->number);
        core->work(core, 5);
        core->store(core, 64, loaded + 1);
        core->compare_exchange(core, 128, core->add(core, 64, 2), 7);
      }};
  KernelCore core(3, kernel);
  for (uint64_t round = 0; round < 3; ++round) {
    EXPECT_EQ(core.request().kind, KernelRequest::kLoad);
    EXPECT_EQ(core.request().address, 24u);
    core.Continue(10 + round);
    EXPECT_EQ(core.request().kind, KernelRequest::kWork);
    EXPECT_EQ(core.request().value, 5u);
    core.Continue(0);
    EXPECT_EQ(core.request().kind, KernelRequest::kStore);
    EXPECT_EQ(core.request().value, 11 + round);
    core.Continue(0);
    EXPECT_EQ(core.request().kind, KernelRequest::kAdd);
    core.Continue(99);
    EXPECT_EQ(core.request().kind, KernelRequest::kCompareExchange);
    EXPECT_EQ(core.request().expected, 99u);
    EXPECT_EQ(core.request().value, 7u);
    core.Continue(0);
    EXPECT_EQ(core.request().kind, KernelRequest::kEnd);
    core.Continue(0);
  }
}

const varve_kernel& Kernel(const std::string& topic, const std::string& name) {
  static const std::vector<Topic> topics = ExecutedTopics();
  for (const Topic& each : topics) {
    for (const Variant& variant : each.variants) {
      if (each.name == topic && variant.name == name) return *variant.kernel;
    }
  }
  abort();
}

constexpr size_t kWarm = 12;
constexpr size_t kCounted = 15;

ModelReport Executed(const varve_kernel& kernel, size_t cores,
                     size_t sockets = 1,
                     const ModelParameters& parameters = {}) {
  return Simulate(parameters, kernel,
                  {.cores = cores,
                   .sockets = sockets,
                   .warm_operations = kWarm,
                   .operations = kCounted});
}

TEST(KernelModelTest, ACompareAndSwapNeverBeatsAnAddition) {
  for (const size_t sockets : {1, 2}) {
    for (size_t cores = sockets; cores <= 128; cores *= 2) {
      const ModelReport add =
          Executed(Kernel("kernel-add", "fetch-add"), cores, sockets);
      const ModelReport loop =
          Executed(Kernel("kernel-add", "compare-and-swap"), cores, sockets);
      EXPECT_LT(loop.operations_a_second, add.operations_a_second) << cores;
      EXPECT_EQ(add.atomics, 1);
      EXPECT_EQ(add.failures, 0);
      EXPECT_NEAR(loop.atomics, 1 + loop.failures, .05) << cores;
    }
  }
}

TEST(KernelModelTest, ALoopMovesTheLineUntilACoreKeepsIt) {
  const varve_kernel& kernel = Kernel("kernel-add", "compare-and-swap");
  ModelParameters parameters;
  const double between_cycles =
      parameters.atomic_cycles + parameters.cycles_per_instruction;
  const double part = 1 - between_cycles / parameters.hold_cycles;
  for (const size_t cores : {4, 32}) {
    const ModelReport in_turn = Executed(kernel, cores, 1, InTurn());
    // Of one attempt of each core, the first succeeds.
    EXPECT_EQ(in_turn.transfers, static_cast<double>(cores));
    EXPECT_EQ(in_turn.failures, static_cast<double>(cores - 1));
    EXPECT_NEAR(Executed(kernel, cores).transfers / MovesOfALoop(cores, part),
                1, .15);
  }
  parameters.hold_cycles = 1e9;
  EXPECT_EQ(Executed(kernel, 32, 1, parameters).transfers, 1);
}

TEST(KernelModelTest, ALoopIsAsSlowAsMeasured) {
  // By T. Downs with 16 cores of Graviton 2: see model_parameters.h.
  const double add =
      Executed(Kernel("kernel-add", "fetch-add"), 16).operations_a_second;
  const double loop = Executed(Kernel("kernel-add", "compare-and-swap"), 16)
                          .operations_a_second;
  EXPECT_GT(add / loop, 3.8);
  EXPECT_LT(add / loop, 4.8);
}

TEST(KernelModelTest, ALineIsNotKeptForever) {
  // The attempts of others fail for long, while one of them has to store.
  constexpr varve_kernel lock = {
      "", [](varve_core* core) {
        while (core->compare_exchange(core, 0, 0, 1) != 0) {
        }
        core->work(core, 100);
        core->store(core, 0, 0);
      }};
  EXPECT_FALSE(Executed(lock, 16).is_stuck);
}

// The word at 0 counts: none is lost, also of operations under way.
bool CountsAll(const ModelReport& report) {
  const uint64_t count = report.memory.at(0);
  return count >= report.ended && count <= report.ended + report.cores;
}

TEST(KernelModelTest, LocksExclude) {
  const ModelParameters parameters;
  const double inside_ns =
      100 * parameters.cycles_per_instruction / parameters.gigahertz;
  for (const char* lock : {"test-and-set", "ticket", "queue"}) {
    for (const size_t sockets : {1, 2}) {
      for (const size_t cores : {2, 8, 32}) {
        const ModelReport report =
            Executed(Kernel("kernel-lock", lock), cores, sockets);
        EXPECT_TRUE(CountsAll(report)) << lock << " " << cores;
        // One after the other.
        EXPECT_LT(report.operations_a_second, 1e9 / inside_ns) << lock;
      }
    }
  }
  constexpr varve_kernel unlocked = {"", [](varve_core* core) {
                                       const uint64_t value =
                                           core->load(core, 0);
                                       core->work(core, 100);
                                       core->store(core, 0, value + 1);
                                     }};
  EXPECT_FALSE(CountsAll(Executed(unlocked, 8)));
}

TEST(KernelModelTest, NoTwoCoresAreInsideALock) {
  // Variables of this program are seen by all cores at once.
  static int inside;
  static int most;
  inside = most = 0;
  constexpr varve_kernel ticket = {
      "", [](varve_core* core) {
        const uint64_t mine = core->add(core, 0, 1);
        uint64_t now;
        while ((now = core->load(core, 64)) != mine) {
          core->wait_while(core, 64, now);
        }
        most = std::max(most, ++inside);
        core->work(core, 100);
        --inside;
        core->store(core, 64, mine + 1);
      }};
  EXPECT_FALSE(Executed(ticket, 64).is_stuck);
  EXPECT_EQ(most, 1);
}

TEST(KernelModelTest, SpinLocksCollapseAndQueuesDoNot) {
  const auto rate = [](const char* lock, size_t cores) {
    return Executed(Kernel("kernel-lock", lock), cores).operations_a_second;
  };
  EXPECT_LT(rate("test-and-set", 128), rate("test-and-set", 8) / 10);
  EXPECT_LT(rate("test-and-set", 128), rate("ticket", 128) / 10);
  EXPECT_LT(rate("ticket", 128), .9 * rate("ticket", 8));
  EXPECT_LT(rate("ticket", 128), .7 * rate("queue", 128));
  EXPECT_NEAR(rate("queue", 128) / rate("queue", 8), 1, .01);
}

// Compares the lines that were moved with what is known of them. Returns 1 if
// their number is known exactly, else 0.
size_t MovesAsKnown(const Variant& variant, double moved, size_t cores) {
  const double least = variant.known->LeastOf(cores);
  const double most = variant.known->MostOf(cores);
  EXPECT_GE(moved, least) << variant.name;
  EXPECT_LE(moved, most) << variant.name;
  return least == most ? 1 : 0;
}

TEST(KernelModelTest, MovesWhatIsKnown) {
  size_t equalities = 0;
  for (const Topic& topic : ExecutedTopics()) {
    for (const Variant& variant : topic.variants) {
      EXPECT_EQ(Executed(*variant.kernel, 1).transfers, 0) << variant.name;
      for (const size_t cores : {4, 32}) {
        equalities += MovesAsKnown(
            variant, Executed(*variant.kernel, cores).transfers, cores);
      }
    }
  }
  // All but the one of the compare-and-swap, with both numbers of cores.
  EXPECT_EQ(equalities, 8u);
}

TEST(KernelModelTest, AKernelThatWaitsForeverIsStuck) {
  constexpr varve_kernel waits = {
      "", [](varve_core* core) { core->wait_while(core, 0, 0); }};
  EXPECT_TRUE(Executed(waits, 4).is_stuck);
  constexpr varve_kernel spins = {"", [](varve_core* core) {
                                    while (core->load(core, 0) == 0) {
                                    }
                                  }};
  EXPECT_TRUE(Executed(spins, 2).is_stuck);
}

TEST(CoherenceModelTest, CountsOnceAllCoresAreWarm) {
  // All but the first one begin with many misses.
  Recording recording =
      Made(4, std::vector<AccessKind>(500, AccessKind::kLoad), Private);
  recording.threads[0][0].accesses.resize(1);
  const ModelReport report = Simulate(
      {}, recording, {.cores = 4, .warm_operations = 200, .operations = 100});
  EXPECT_EQ(report.cold_misses, 0);
  EXPECT_GE(report.ended, 4u * 300);
}

TEST(KernelModelTest, AScheduleCanBeRepeated) {
  const varve_kernel& kernel = Kernel("kernel-lock", "ticket");
  EXPECT_EQ(Executed(kernel, 16).p99_ns, Executed(kernel, 16).p99_ns);
}

TEST(LoadKernelsTest, SaysWhatIsWrong) {
  Topic topic;
  std::string error;
  EXPECT_FALSE(LoadKernels("no/such/file.so", &topic, &error));
  EXPECT_THAT(error, ::testing::HasSubstr("file.so"));
  EXPECT_FALSE(LoadKernels("/lib/x86_64-linux-gnu/libm.so.6", &topic, &error));
  EXPECT_THAT(error, ::testing::HasSubstr("varve_kernels_1"));
}

// ---- On this machine --------------------------------------------------------

TEST(MeasurementTest, RefusesWhatTwoThreadsCannotDo) {
  const Rates one = {100, 95, 105, 1};
  EXPECT_NEAR(*GainOfTwoThreads(one, {198, 190, 200, 2}), 1.98, 1e-9);
  EXPECT_NEAR(*GainOfTwoThreads(one, {60, 55, 65, 2}), .6, 1e-9);
  // More than twice as much.
  EXPECT_EQ(GainOfTwoThreads(one, {334, 330, 340, 2}), std::nullopt);
  // Rounds that say different things.
  EXPECT_EQ(GainOfTwoThreads(one, {100, 60, 170, 2}), std::nullopt);
  // Others had the processor.
  EXPECT_EQ(GainOfTwoThreads({100, 95, 105, .4}, {150, 145, 155, 1}),
            std::nullopt);
  EXPECT_EQ(GainOfTwoThreads({0, 0, 0, 1}, one), std::nullopt);
}

// ---- Kernels and the engine -------------------------------------------------

class TopicsTest : public ::testing::Test {
 protected:
  Recording RecordingOf(const Topic& topic, const std::string& name) {
    for (const Variant& variant : topic.variants) {
      if (variant.name != name) continue;
      const std::unique_ptr<Fixture> fixture = variant.make();
      const RecordingPlan plan = {.cores = kCores};
      return {.name = name,
              .threads = RecordWorkers(plan, &tracer_, [&](size_t core) {
                return fixture->NewWorker(core);
              })};
    }
    ADD_FAILURE() << "no variant " << name;
    return {};
  }
  // The model's report of a variant.
  ModelReport ReportOf(const Topic& topic, const std::string& name) {
    return Simulated(RecordingOf(topic, name), kCores);
  }

  StepTracer tracer_;
};

TEST_F(TopicsTest, KernelsMoveWhatIsKnown) {
  size_t equalities = 0;
  for (const Topic& topic : KernelTopics()) {
    for (const Variant& variant : topic.variants) {
      ASSERT_TRUE(variant.known.has_value()) << variant.name;
      equalities += MovesAsKnown(
          variant, ReportOf(topic, variant.name).transfers, kCores);
    }
  }
  // The others depend on who is first.
  EXPECT_EQ(equalities, 4u);
}

TEST_F(TopicsTest, ProductionMovesNoLine) {
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "no restartable sequences on this machine";
  }
  const test::TempDir directory;
  for (const Topic& topic : EngineTopics(directory.path())) {
    if (topic.name == "put") continue;
    const ModelReport report = ReportOf(topic, "production");
    EXPECT_EQ(report.transfers, 0) << topic.name;
    EXPECT_EQ(report.invalidations, 0) << topic.name;
    EXPECT_EQ(report.sleeps, 0) << topic.name;
  }
}

TEST_F(TopicsTest, BaselinesMoveLines) {
  const test::TempDir directory;
  for (const Topic& topic : EngineTopics(directory.path())) {
    if (topic.name == "put") continue;
    for (const Variant& variant : topic.variants) {
      // These share nothing either.
      if (variant.name == "production" || variant.name == "no statistics" ||
          variant.name == "statistics=thread") {
        continue;
      }
      EXPECT_GT(ReportOf(topic, variant.name).transfers, .5)
          << topic.name << " " << variant.name;
    }
  }
}

Topic PutTopic(const std::string& directory) {
  for (Topic& topic : EngineTopics(directory)) {
    if (topic.name == "put") return std::move(topic);
  }
  abort();
}

// All lines that move, with all cores.
ModelReport AllLinesOf(const Recording& recording) {
  return Simulate({}, recording,
                  {.cores = recording.threads.size(),
                   .operations = 100,
                   .lines = SIZE_MAX});
}

double MovesOf(const ModelReport& report, const CodeNames& names,
               const std::string& function) {
  double sum = 0;
  for (const LineReport& line : report.hottest) {
    for (const LineReport::Mover& mover : line.movers) {
      if (names.NameOf(mover.code).find(function) == std::string::npos) {
        continue;
      }
      sum += mover.transfers;
    }
  }
  return sum;
}

TEST_F(TopicsTest, APutMovesFewLinesOfNamedFunctions) {
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "no restartable sequences on this machine";
  }
  const test::TempDir directory;
  const Topic topic = PutTopic(directory.path());
  const Recording recording = RecordingOf(topic, "production");
  for (const auto& traces : recording.threads) {
    for (const OperationTrace& trace : traces) {
      EXPECT_EQ(trace.system_calls, 0u);
    }
  }
  const ModelReport report = AllLinesOf(recording);
  // 14.3 when this was written.
  EXPECT_LT(report.transfers, 16);
  EXPECT_EQ(report.sleeps, 0);
  const CodeNames names;
  double named = 0;
  for (const LineReport& line : report.hottest) {
    for (const LineReport::Mover& mover : line.movers) {
      if (!names.NameOf(mover.code).empty()) named += mover.transfers;
    }
  }
  EXPECT_GT(named, .99 * report.transfers);
  EXPECT_GT(MovesOf(report, names, "MemTable::AddPoint"), .2);
  // Again, with other addresses and other keys.
  EXPECT_NEAR(AllLinesOf(RecordingOf(topic, "production")).transfers,
              report.transfers, 1);
}

TEST_F(TopicsTest, FormsOfAPutAreWhatTheirNamesSay) {
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "no restartable sequences on this machine";
  }
  const test::TempDir directory;
  const Topic topic = PutTopic(directory.path());
  const CodeNames names;
  struct Form {
    const char* name;
    bool overlaps;
    bool logs;
  };
  for (const Form& form : {Form{"production", true, true},
                           Form{"groups one after another", false, true},
                           Form{"no log", true, false}}) {
    const ModelReport report = AllLinesOf(RecordingOf(topic, form.name));
    EXPECT_EQ(MovesOf(report, names, "PublicationOrder::") > 0, form.overlaps)
        << form.name;
    EXPECT_EQ(MovesOf(report, names, "wal::Writer::") > 0, form.logs)
        << form.name;
  }
}

void NamedFunction() {}

TEST(CodeNamesTest, KnowsFunctionsThatAreInlined) {
  EXPECT_EQ(CodeNames().NameOf(InlinedFunction()),
            "varve::cores::InlinedFunction");
}

TEST(CodeNamesTest, KnowsFunctionsOfThisProgram) {
  const CodeNames names;
  EXPECT_EQ(names.NameOf(reinterpret_cast<uint64_t>(&NamedFunction)),
            "varve::cores::NamedFunction");
  EXPECT_EQ(names.NameOf(1), "");
}

}  // namespace
}  // namespace varve::cores

#endif
