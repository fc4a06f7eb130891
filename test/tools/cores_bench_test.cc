// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: cores_bench records what operations do to memory, and its model of
// many cores gives what is known of textbook cases. Methods: recorded
// functions of a few instructions; recordings made by hand; the kernels; the
// engine's own reads.

#ifdef VARVE_HAVE_CORES_BENCH

#include <sched.h>
#include "test/testing/test_headers.h"

#include "test/testing/temp_dir.h"
#include "tools/cores_bench/code_names.h"
#include "tools/cores_bench/coherence_model.h"
#include "tools/cores_bench/simulated_core.h"
#include "tools/cores_bench/step_tracer.h"
#include "tools/cores_bench/topics.h"
#include "util/threads/per_cpu.h"

namespace varve::cores {
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
                      size_t sockets = 1, uint64_t seed = 1) {
  return Simulate({}, recording,
                  {.cores = cores,
                   .sockets = sockets,
                   .seed = seed,
                   .warm_operations = 20,
                   .operations = 100});
}

uint64_t Shared(size_t /*core*/, size_t place) { return 1000 + place; }
uint64_t Private(size_t core, size_t place) { return 1000 * core + place; }

TEST(CoherenceModelTest, ASharedAtomicMovesOnceAnOperation) {
  const Recording recording = Made(64, {AccessKind::kAtomic}, Shared);
  const ModelParameters parameters;
  for (const size_t cores : {2, 8, 64}) {
    const ModelReport report = Simulated(recording, cores);
    EXPECT_NEAR(report.transfers, 1, .05) << cores;
    EXPECT_NEAR(report.coherence_misses, 1, .05) << cores;
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

// ---- Kernels and the engine -------------------------------------------------

class TopicsTest : public ::testing::Test {
 protected:
  // The model's report of a variant.
  ModelReport ReportOf(const Topic& topic, const std::string& name) {
    for (const Variant& variant : topic.variants) {
      if (variant.name != name) continue;
      const std::unique_ptr<Fixture> fixture = variant.make();
      const RecordingPlan plan = {.cores = kCores};
      const Recording recording = {
          .name = name,
          .threads = RecordWorkers(plan, &tracer_, [&](size_t core) {
            return fixture->NewWorker(core);
          })};
      return Simulated(recording, kCores);
    }
    ADD_FAILURE() << "no variant " << name;
    return {};
  }

  StepTracer tracer_;
};

TEST_F(TopicsTest, KernelsMoveWhatIsKnown) {
  const std::vector<Topic> topics = KernelTopics();
  const Topic& counter = topics[0];
  EXPECT_EQ(ReportOf(counter, "core-local").transfers, 0);
  EXPECT_GT(ReportOf(counter, "neighbors").transfers, .01);
  EXPECT_NEAR(ReportOf(counter, "shared").transfers, 1, .05);
  EXPECT_GT(ReportOf(counter, "mutex").transfers, .5);
  const Topic& reader = topics[1];
  EXPECT_EQ(ReportOf(reader, "no lock").transfers, 0);
  EXPECT_EQ(ReportOf(reader, "sharded lock").transfers, 0);
  EXPECT_GT(ReportOf(reader, "one lock").transfers, .9);
}

TEST_F(TopicsTest, ProductionMovesNoLine) {
  if (BestPerCpuPath() == PerCpuPath::kAtomic) {
    GTEST_SKIP() << "no restartable sequences on this machine";
  }
  const test::TempDir directory;
  for (const Topic& topic : EngineTopics(directory.path())) {
    const ModelReport report = ReportOf(topic, "production");
    EXPECT_EQ(report.transfers, 0) << topic.name;
    EXPECT_EQ(report.invalidations, 0) << topic.name;
    EXPECT_EQ(report.sleeps, 0) << topic.name;
  }
}

TEST_F(TopicsTest, BaselinesMoveLines) {
  const test::TempDir directory;
  for (const Topic& topic : EngineTopics(directory.path())) {
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

void NamedFunction() {}

TEST(CodeNamesTest, KnowsFunctionsOfThisProgram) {
  const CodeNames names;
  EXPECT_EQ(names.NameOf(reinterpret_cast<uint64_t>(&NamedFunction)),
            "varve::cores::NamedFunction");
  EXPECT_EQ(names.NameOf(1), "");
}

}  // namespace
}  // namespace varve::cores

#endif
