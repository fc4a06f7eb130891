// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the times of spans make sense whatever the clock does. Method: millions
// of spans of threads that are moved between cores; a simulated processor whose
// cores are apart and whose counters are set back; clocks of different grain on
// the same spans.

#include <sched.h>

#include "monitoring/span.h"
#include "monitoring/tsc_clock.h"
#include "test/testing/sanitizers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "test/testing/trace_tree.h"

namespace varve::test {
namespace {

using trace::Counts;
using trace::Record;
using trace::TraceOptions;
using EngineSpan = varve::LocalSpan;

// ---- Clocks -----------------------------------------------------------------

#if defined(VARVE_TEST_SANITIZED)
constexpr int kManySpans = 200'000;
#else
constexpr int kManySpans = 10'000'000;
#endif

// Checks and forgets.
class CheckingSink final : public trace::Sink {
 public:
  void Add(const Record* records, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      const Record& record = records[i];
      if (record.parent_id == 0) root_ = i;
      const Record& parent = record.parent_id == 0
                                 ? record
                                 : records[root_ + record.parent_id - 1];
      faults += record.end_ns < record.begin_ns ||
                record.begin_ns < parent.begin_ns ||
                record.end_ns > parent.end_ns;
      ++spans;
    }
  }
  Status Flush() override { return Status::OK(); }
  uint64_t spans = 0;
  uint64_t faults = 0;

 private:
  size_t root_ = 0;
};

TEST(TraceClockTest, MillionsOfSpansOfMovingThreadsAreInOrder) {
  const auto sink = std::make_shared<CheckingSink>();
  ASSERT_TRUE(trace::Start({.sink = sink}).ok());
  const Counts before = trace::GetCounts();
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  }
  constexpr int kThreads = 2;
  RunThreads(kThreads, [&cores](int t) {
    size_t core = static_cast<size_t>(t);
    for (int i = 0; i < kManySpans / kThreads / 5; ++i) {
      // Else the memory would be full.
      if (i % 50'000 == 0) {
        EXPECT_TRUE(trace::Flush().ok());
      }
      const RequestSpan request("request");
      const EngineSpan a("a");
      if (i % 1000 == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cores[++core % cores.size()], &one);
        sched_setaffinity(0, sizeof(one), &one);
      }
      EngineSpan b("b");
      b.Next("c");
      b.Next("d");
    }
  });
  ASSERT_TRUE(trace::Stop().ok());
  const Counts after = trace::GetCounts();
  EXPECT_EQ(sink->faults, 0u);
  EXPECT_EQ(sink->spans + Dropped(after) * 5 - Dropped(before) * 5,
            static_cast<uint64_t>(kManySpans));
  EXPECT_EQ(Dropped(after), Dropped(before));
}

// A processor whose counters are apart, and may be set.
constexpr int64_t kLead[] = {0, -1'000'000'000, 70'000'000};
constinit std::atomic<uint32_t> simulated_core{0};
constinit std::atomic<int64_t> simulated_step{0};

uint64_t SteadyNs() { return ReadSlowClock(ClockKind::kSteady); }

uint64_t ReadSimulated(uint32_t* core) {
  *core = simulated_core;
  return SteadyNs() + static_cast<uint64_t>(kLead[*core] + simulated_step);
}

class SimulatedClockTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPassNs = 50'000;

  SimulatedClockTest() : old_(CurrentClock()) {
    simulated_core = 0;
    simulated_step = 0;
  }
  ~SimulatedClockTest() override { TEST_SetClock(old_); }

  // With these corrections.
  void Use(std::vector<int64_t> offsets) {
    SetCoreOffsets(
        std::make_unique<CoreOffsets>(std::move(offsets), ReadSimulated));
    TEST_SetClock(ClockKind::kTscByCore);
  }

  // One trace, amid which `step` is done.
  template <typename Step>
  TraceRecords Run(Step step) {
    Session session;
    const auto pass = [] {
      const uint64_t start = SteadyNs();
      while (SteadyNs() < start + kPassNs) {
      }
    };
    const uint64_t start = SteadyNs();
    {
      const RequestSpan request("request");
      pass();
      const EngineSpan a("a");
      pass();
      step();
      pass();
      const EngineSpan b("b");
      pass();
      SpanQueue* const queue = request.queue();
      held_ = queue->held_readings();
    }
    elapsed_ = SteadyNs() - start;
    TraceRecords records = session.Stop();
    EXPECT_EQ(TreeOf(records), "request(a(b))");
    EXPECT_EQ(FindFault(records), "");
    records.resize(3);
    return records;
  }
  static uint64_t Length(const Record& record) {
    return record.end_ns - record.begin_ns;
  }
  // Checks a span in which kPassNs passed `passes` times, up to a thousandth
  // for the conversion of the speed.
  void ExpectRight(const Record& record, uint64_t passes) {
    EXPECT_GE(Length(record), passes * kPassNs * 999 / 1000);
    EXPECT_LE(Length(record), elapsed_ * 1001 / 1000 + 100);
  }

  const ClockKind old_;
  uint64_t held_ = 0;
  uint64_t elapsed_ = 0;
};

TEST_F(SimulatedClockTest, OffsetsMakeCoresOne) {
  Use({0, 1'000'000'000, -70'000'000});
  for (const uint32_t core : {1u, 2u}) {
    simulated_core = 0;
    const TraceRecords records = Run([core] { simulated_core = core; });
    ExpectRight(records[0], 4);
    ExpectRight(records[1], 3);
    ExpectRight(records[2], 1);
  }
}

TEST_F(SimulatedClockTest, WithoutOffsetsTimePausesRatherThanGoBack) {
  Use({});
  const uint64_t held_before = held_;
  const TraceRecords records = Run([] { simulated_core = 1; });
  EXPECT_EQ(Length(records[2]), 0u);
  // Times before the jump stay right.
  EXPECT_GE(records[1].begin_ns - records[0].begin_ns, kPassNs * 999 / 1000);
  EXPECT_GT(held_, held_before);
}

TEST_F(SimulatedClockTest, AStepBackEndsWithTheTrace) {
  Use({0, 1'000'000'000, -70'000'000});
  const TraceRecords stepped = Run([] { simulated_step = -1'000'000'000; });
  EXPECT_EQ(Length(stepped[2]), 0u);
  ExpectRight(Run([] {})[0], 4);
}

TEST(TraceClockTest, FineAndCoarseClocksOnTheSameSpans) {
  const ClockKind old = CurrentClock();
  for (const ClockKind kind : {old, ClockKind::kSteady, ClockKind::kCoarse}) {
    TEST_SetClock(kind);
    Session session;
    for (int i = 0; i < 20; ++i) {
      const RequestSpan request("request");
      const uint64_t start = ReadSlowClock(ClockKind::kSteady);
      while (ReadSlowClock(ClockKind::kSteady) < start + 5000) {
      }
    }
    uint64_t zeros = 0;
    for (const Record& record : session.Stop()) {
      const uint64_t ns = record.end_ns - record.begin_ns;
      if (kind == ClockKind::kCoarse) {
        zeros += ns == 0;
      } else {
        EXPECT_GE(ns, 4900u);
      }
    }
    if (kind == ClockKind::kCoarse) {
      EXPECT_GE(zeros, 10u);
    }
  }
  TEST_SetClock(old);
}

}  // namespace
}  // namespace varve::test
