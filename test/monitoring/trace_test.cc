// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: traces are the trees that programs scope out, by whatever thread, with
// times that make sense, and nothing is lost without being counted. Method:
// scripted requests, of which the tree is known; many threads and millions of
// spans; clocks that are wrong in known ways.

#include "varve/trace.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "monitoring/span.h"
#include "monitoring/trace_collector.h"
#include "test/testing/seed.h"
#include "test/testing/trace_tree.h"

namespace varve::test {
namespace {

using trace::Counts;
using trace::LocalCollector;
using trace::LocalParent;
using trace::Record;
using trace::Root;
using trace::TraceOptions;

// Beside trace::LocalSpan, which is the same for programs.
using EngineSpan = varve::LocalSpan;

// A session whose traces are kept in memory.
class Session {
 public:
  explicit Session(TraceOptions options = {}) {
    options.sink = sink_;
    status_ = trace::Start(options);
    EXPECT_TRUE(status_.ok()) << status_.ToString();
  }
  ~Session() {
    if (!stopped_) Stop();
  }
  TraceRecords Stop() {
    stopped_ = true;
    const Status status = trace::Stop();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return sink_->Take();
  }
  TraceRecords Flush() {
    EXPECT_TRUE(trace::Flush().ok());
    return sink_->Take();
  }

 private:
  const std::shared_ptr<MemorySink> sink_ = std::make_shared<MemorySink>();
  Status status_;
  bool stopped_ = false;
};

uint64_t Dropped(const Counts& counts) {
  return counts.dropped_trace_full + counts.dropped_buffer_full +
         counts.dropped_late + counts.dropped_clock_changed;
}

// ---- One request ------------------------------------------------------------

TEST(TraceTest, NestsSpansOfProgramAndEngineInOneTree) {
  auto [root, collector] = Root("request");
  {
    const LocalParent parent = root.SetLocalParent();
    const trace::LocalSpan step("step");
    {
      const RequestSpan operation("operation");
      EngineSpan part("part 1");
      part.Next("part 2");
      const EngineSpan inner("inner");
    }
    const trace::LocalSpan after("after");
  }
  root.End();
  const TraceRecords records = collector.Collect();
  EXPECT_EQ(TreeOf(records),
            "request(step(operation(part 1 part 2(inner)) after))");
  EXPECT_EQ(FindFault(records), "");
  EXPECT_TRUE(collector.Collect().empty());
}

TEST(TraceTest, StepsThatFollowShareAReading) {
  auto [root, collector] = Root("request");
  {
    const LocalParent parent = root.SetLocalParent();
    EngineSpan part("1");
    part.Next("2");
    part.Next("3");
  }
  root.End();
  const TraceRecords records = collector.Collect();
  ASSERT_EQ(TreeOf(records), "request(1 2 3)");
  EXPECT_EQ(records[1].end_ns, records[2].begin_ns);
  EXPECT_EQ(records[2].end_ns, records[3].begin_ns);
}

TEST(TraceTest, DoesNothingForThreadsThatAreNotTraced) {
  EXPECT_FALSE(TraceWanted());
  const EngineSpan engine("engine");
  const trace::LocalSpan program("program");
  const RequestSpan request("request");
  EXPECT_EQ(request.queue(), nullptr);
  const trace::Span span;
  const trace::Span child = span.Child("child");
  const LocalParent parent = span.SetLocalParent();
  EXPECT_FALSE(TraceWanted());
}

TEST(TraceTest, FollowsSpansThroughThreads) {
  auto [root, collector] = Root("request");
  trace::Span child = root.Child("child");
  std::thread([&child] {
    const LocalParent parent = child.SetLocalParent();
    const EngineSpan span("there");
  }).join();
  trace::Span grandchild = child.Child("grandchild");
  std::thread([span = std::move(grandchild)]() mutable { span.End(); }).join();
  child.End();
  root.End();
  const TraceRecords records = collector.Collect();
  EXPECT_EQ(TreeOf(records), "request(child(there grandchild))");
  EXPECT_EQ(FindFault(records), "");
}

TEST(TraceTest, MountsABatchUnderManySpans) {
  LocalCollector batch;
  {
    EngineSpan step("log");
    step.Next("insert");
    const EngineSpan inner("inner");
  }
  const trace::LocalSpans spans = batch.Collect();
  EXPECT_EQ(spans.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    auto [root, collector] = Root("writer");
    trace::Span child = root.Child("child");
    root.Mount(spans);
    child.Mount(spans);
    child.Mount({});
    child.End();
    root.End();
    const TraceRecords records = collector.Collect();
    EXPECT_EQ(TreeOf(records),
              "writer(log insert(inner) child(log insert(inner)))");
  }
}

TEST(TraceTest, CollectsABatchInsideATraceAsWell) {
  auto [root, collector] = Root("request");
  trace::LocalSpans spans;
  {
    const LocalParent parent = root.SetLocalParent();
    const EngineSpan outer("outer");
    LocalCollector batch;
    {
      const EngineSpan a("a");
      const EngineSpan b("b");
    }
    const EngineSpan open("open");
    spans = batch.Collect();
  }
  root.Mount(spans);
  root.End();
  EXPECT_EQ(TreeOf(collector.Collect()), "request(outer(a(b) open) a(b))");
}

TEST(TraceTest, GuardsNest) {
  auto [one, first] = Root("one");
  auto [two, second] = Root("two");
  {
    const LocalParent outer = one.SetLocalParent();
    const EngineSpan a("a");
    {
      const LocalParent inner = two.SetLocalParent();
      const EngineSpan b("b");
    }
    const EngineSpan c("c");
  }
  one.End();
  two.End();
  EXPECT_EQ(TreeOf(first.Collect()), "one(a(c))");
  EXPECT_EQ(TreeOf(second.Collect()), "two(b)");
}

TEST(TraceTest, KeepsOnlySlowRequestsIfAsked) {
  TraceOptions options;
  options.slower_than_us = 3'600'000'000;
  const auto sink = std::make_shared<MemorySink>();
  options.sink = sink;
  {
    auto [root, collector] = Root("fast", options);
    root.End();
    EXPECT_TRUE(collector.Collect().empty());
  }
  EXPECT_TRUE(sink->Take().empty());
  options.slower_than_us = 0;
  {
    auto [root, collector] = Root("slow", options);
    root.End();
  }
  EXPECT_EQ(TreeOf(sink->Take()), "slow");
}

TEST(TraceTest, ChoosesRequestsByTheRate) {
  TraceOptions options;
  options.sampling = 0.25;
  int chosen = 0;
  for (int i = 0; i < 4000; ++i) {
    auto [root, collector] = Root("request", options);
    root.End();
    chosen += !collector.Collect().empty();
  }
  EXPECT_NEAR(chosen, 1000, 200);
  options.sampling = 0;
  auto [root, collector] = Root("request", options);
  root.End();
  EXPECT_TRUE(collector.Collect().empty());
}

TEST(TraceTest, CountsWhatIsTooManyOrTooLate) {
  const Counts before = trace::GetCounts();
  TraceOptions options;
  options.max_spans = 10;
  auto [root, collector] = Root("request", options);
  {
    const LocalParent parent = root.SetLocalParent();
    for (int i = 0; i < 9; ++i) const EngineSpan span("kept");
  }
  trace::Span none = root.Child("dropped");
  trace::Span late = std::move(none);
  {
    const LocalParent parent = root.SetLocalParent();
    for (int i = 0; i < 13; ++i) const EngineSpan span("dropped");
  }
  root.End();
  EXPECT_EQ(collector.Collect().size(), 10u);
  const Counts full = trace::GetCounts();
  // The child; 10 that a queue had room for, but the trace did not; and 3.
  EXPECT_EQ(full.dropped_trace_full - before.dropped_trace_full, 14u);

  auto [other, other_collector] = Root("request");
  trace::Span child = other.Child("child");
  { const trace::Span early = child.Child("early"); }
  other.End();
  EXPECT_EQ(TreeOf(other_collector.Collect()), "request(early)");
  child.End();
  EXPECT_EQ(trace::GetCounts().dropped_late - full.dropped_late, 1u);
}

// ---- All operations ---------------------------------------------------------

TEST(TraceSessionTest, EveryOperationIsATrace) {
  Session session;
  EXPECT_TRUE(TraceWanted());
  for (int i = 0; i < 3; ++i) {
    const RequestSpan request("request");
    const EngineSpan a("a");
    const RequestSpan nested("nested");
  }
  const EngineSpan outside("outside");
  const auto traces = SplitTraces(session.Stop());
  ASSERT_EQ(traces.size(), 3u);
  for (const auto& trace : traces) {
    EXPECT_EQ(TreeOf(trace), "request(a(nested))");
    EXPECT_EQ(FindFault(trace), "");
  }
  EXPECT_FALSE(TraceWanted());
}

TEST(TraceSessionTest, RefusesNonsenseAndASecondStart) {
  TraceOptions options;
  EXPECT_TRUE(trace::Start(options).IsInvalidArgument());
  options.sink = std::make_shared<MemorySink>();
  for (const auto& spoil : std::vector<void (*)(TraceOptions*)>{
           [](TraceOptions* o) { o->sampling = 1.1; },
           [](TraceOptions* o) { o->sampling = -0.1; },
           [](TraceOptions* o) { o->max_spans = 0; },
           [](TraceOptions* o) { o->max_spans = 2001; },
           [](TraceOptions* o) { o->buffer_bytes = 1000; }}) {
    TraceOptions bad = options;
    spoil(&bad);
    EXPECT_TRUE(trace::Start(bad).IsInvalidArgument());
  }
  EXPECT_TRUE(trace::Stop().ok());
  EXPECT_TRUE(trace::Flush().ok());
  Session session;
  EXPECT_TRUE(trace::Start(options).IsBusy());
}

TEST(TraceSessionTest, SessionsFollowEachOther) {
  for (int i = 0; i < 3; ++i) {
    Session session;
    { const RequestSpan request("request"); }
    EXPECT_EQ(session.Flush().size(), 1u);
    { const RequestSpan request("request"); }
    EXPECT_EQ(session.Stop().size(), 1u);
    const RequestSpan unseen("unseen");
  }
}

TEST(TraceSessionTest, RequestsOfProgramsAreTheirOwn) {
  Session session;
  auto [root, collector] = Root("program");
  {
    const LocalParent parent = root.SetLocalParent();
    const RequestSpan request("request");
  }
  root.End();
  { const RequestSpan request("alone"); }
  EXPECT_EQ(TreeOf(collector.Collect()), "program(request)");
  EXPECT_EQ(TreeOf(session.Stop()), "alone");
}

TEST(TraceSessionTest, KeepsSlowOnesAndDiscardsTheOthers) {
  const Counts before = trace::GetCounts();
  TraceOptions options;
  options.slower_than_us = 20000;
  Session session(options);
  for (int i = 0; i < 100; ++i) {
    const RequestSpan request(i == 50 ? "slow" : "fast");
    const EngineSpan span("inside");
    if (i != 50) continue;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  uint64_t slow = 0;
  const auto traces = SplitTraces(session.Stop());
  for (const auto& trace : traces) {
    slow += TreeOf(trace) == "slow(inside)";
    EXPECT_GE(trace[0].end_ns - trace[0].begin_ns, 20'000'000u);
  }
  EXPECT_EQ(slow, 1u);
  const Counts after = trace::GetCounts();
  EXPECT_EQ(after.discarded - before.discarded + traces.size(), 100u);
  EXPECT_EQ(Dropped(after), Dropped(before));
}

TEST(TraceSessionTest, ChoosesOperationsByTheRate) {
  TraceOptions options;
  options.sampling = 0.25;
  Session session(options);
  for (int i = 0; i < 4000; ++i) const RequestSpan request("request");
  EXPECT_NEAR(static_cast<double>(session.Stop().size()), 1000, 200);
}

TEST(TraceSessionTest, DropsSpansBeyondTheMaximumWithTheirCount) {
  const Counts before = trace::GetCounts();
  TraceOptions options;
  options.max_spans = 1000;
  Session session(options);
  for (int round = 0; round < 5; ++round) {
    const RequestSpan request("request");
    for (int i = 0; i < 1200; ++i) const EngineSpan span("span");
  }
  const auto traces = SplitTraces(session.Stop());
  ASSERT_EQ(traces.size(), 5u);
  for (const auto& trace : traces) {
    // Traces move to another piece of memory where this one ends.
    EXPECT_EQ(trace.size(), 1000u);
    EXPECT_EQ(FindFault(trace), "");
  }
  EXPECT_EQ(trace::GetCounts().dropped_trace_full - before.dropped_trace_full,
            5u * 201);
}

TEST(TraceSessionTest, DropsTracesThatFindNoRoomWithTheirCount) {
  const Counts before = trace::GetCounts();
  TraceOptions options;
  options.buffer_bytes = 1 << 20;
  options.export_interval_ms = 0;
  Session session(options);
  // Faster than any sink: at some moment all memory is taken. The collector
  // takes some of it back meanwhile.
  constexpr uint64_t kTraces = 300'000;
  for (uint64_t i = 0; i < kTraces; ++i) const RequestSpan request("request");
  const uint64_t kept = session.Stop().size();
  const Counts after = trace::GetCounts();
  EXPECT_EQ(kept + after.dropped_buffer_full - before.dropped_buffer_full,
            kTraces);
  EXPECT_EQ(after.spans - before.spans, kept);
  EXPECT_EQ(after.traces - before.traces, kept);
  EXPECT_GT(after.dropped_buffer_full, before.dropped_buffer_full);
}

TEST(TraceSessionTest, LosesNothingWhenThreadsEnd) {
  const Counts before = trace::GetCounts();
  Session session;
  constexpr int kRounds = 25;
  constexpr int kThreads = 8;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([i] {
        for (int j = 0; j <= 100 * i; ++j) {
          const RequestSpan request("request");
          const EngineSpan span("span");
        }
      });
    }
    for (auto& thread : threads) thread.join();
    if (round % 5 == 0) {
      ASSERT_TRUE(trace::Flush().ok());
    }
  }
  uint64_t expected = 0;
  for (int i = 0; i < kThreads; ++i) expected += 100u * i + 1;
  EXPECT_EQ(session.Stop().size(), 2 * kRounds * expected);
  EXPECT_EQ(Dropped(trace::GetCounts()), Dropped(before));
}

TEST(TraceSessionTest, FlushesWhileThreadsGoOn) {
  Session session;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      uint64_t mine = 0;
      while (!stop && mine < 20000) {
        const RequestSpan request("request");
        EngineSpan span("a");
        span.Next("b");
        ++mine;
      }
      done += mine;
    });
  }
  TraceRecords records;
  const auto add = [&records](TraceRecords more) {
    records.insert(records.end(), more.begin(), more.end());
  };
  for (int i = 0; i < 50; ++i) add(session.Flush());
  stop = true;
  for (auto& thread : threads) thread.join();
  add(session.Stop());
  EXPECT_EQ(records.size(), 3 * done);
  for (const auto& trace : SplitTraces(records)) {
    ASSERT_EQ(TreeOf(trace), "request(a b)");
  }
}

TEST(TraceSessionTest, EveryWayOfCollectingGivesTheSame) {
  for (const auto mode :
       {TraceCollectMode::kThreadLocal, TraceCollectMode::kMutex,
        TraceCollectMode::kChannel}) {
    TraceCollector& collector = TraceCollector::Get();
    collector.SetCollectMode(mode);
    const Counts before = trace::GetCounts();
    const uint64_t finished = collector.FinishedWith(mode);
    Session session;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int j = 0; j < 500; ++j) {
          const RequestSpan request("request");
          EngineSpan span("a");
          span.Next("b");
          const EngineSpan inner("c");
        }
      });
    }
    for (auto& thread : threads) thread.join();
    const auto traces = SplitTraces(session.Stop());
    EXPECT_EQ(traces.size(), 2000u);
    for (const auto& trace : traces) {
      ASSERT_EQ(TreeOf(trace), "request(a b(c))");
      ASSERT_EQ(FindFault(trace), "");
    }
    EXPECT_EQ(Dropped(trace::GetCounts()), Dropped(before));
    EXPECT_EQ(collector.FinishedWith(mode) - finished, 2000u);
  }
  TraceCollector::Get().SetCollectMode({});
}

// ---- Clocks -----------------------------------------------------------------

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
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
  TraceOptions options;
  options.sink = sink;
  ASSERT_TRUE(trace::Start(options).ok());
  const Counts before = trace::GetCounts();
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  }
  constexpr int kThreads = 2;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&cores, t] {
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
  }
  for (auto& thread : threads) thread.join();
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
  // Of a span in which so many times kPassNs passed: a thousandth for the
  // conversion of the speed.
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

TEST_F(SimulatedClockTest, WithoutOffsetsTimeStandsStillRatherThanGoBack) {
  Use({});
  const uint64_t held_before = held_;
  const TraceRecords records = Run([] { simulated_core = 1; });
  EXPECT_EQ(Length(records[2]), 0u);
  // What was before the jump is still right.
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
