// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: traces are the trees that programs scope out, by whatever thread, with
// times that make sense, and nothing is lost without being counted. Method:
// scripted requests, of which the tree is known; many threads and millions of
// spans.

#include "varve/trace.h"

#include "monitoring/span.h"
#include "monitoring/trace_collector.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "test/testing/trace_tree.h"

namespace varve::test {
namespace {

using trace::Counts;
using trace::LocalCollector;
using trace::LocalParent;
using trace::Root;
using trace::TraceOptions;

// Beside trace::LocalSpan, which is the same for programs.
using EngineSpan = varve::LocalSpan;

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

TEST(TraceTest, FirstSharedReadingOfABatchIsItsBeginning) {
  auto [root, collector] = Root("request");
  LocalCollector batch;
  { const EngineSpan span(EngineSpan::Shared(), "span"); }
  root.Mount(batch.Collect());
  root.End();
  const TraceRecords records = collector.Collect();
  ASSERT_EQ(TreeOf(records), "request(span)");
  EXPECT_EQ(FindFault(records), "");
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
  const Counts before = trace::GetCounts();
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
  EXPECT_EQ(trace::GetCounts().discarded - before.discarded, 1u);
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

TEST(TraceTest, CountsDroppedAndLateSpans) {
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
  // The child; 10 that a queue had space for, but the trace did not; and 3.
  EXPECT_EQ(full.dropped_trace_full - before.dropped_trace_full, 14u);

  auto [other, other_collector] = Root("request");
  trace::Span child = other.Child("child");
  { const trace::Span early = child.Child("early"); }
  other.End();
  EXPECT_EQ(TreeOf(other_collector.Collect()), "request(early)");
  child.End();
  EXPECT_EQ(trace::GetCounts().dropped_late - full.dropped_late, 1u);
}

TEST(TraceTest, KeepsTheFirstSpansOfTooMany) {
  for (const uint32_t steps : {8u, 9u, 10u, 11u, 50u}) {
    SCOPED_TRACE(steps);
    const Counts before = trace::GetCounts();
    TraceOptions options;
    options.max_spans = 10;
    auto [root, collector] = Root("request", options);
    {
      const LocalParent parent = root.SetLocalParent();
      const EngineSpan outer("outer");
      for (uint32_t i = 1; i < steps; ++i) const EngineSpan span("inner");
    }
    root.End();
    const TraceRecords records = collector.Collect();
    EXPECT_EQ(records.size(), std::min(steps + 1, 10u));
    EXPECT_EQ(FindFault(records), "");
    EXPECT_EQ(TreeOf(records).substr(0, 20), "request(outer(inner ");
    EXPECT_EQ(trace::GetCounts().dropped_trace_full - before.dropped_trace_full,
              steps + 1 - records.size());
  }
}

TEST(TraceTest, CollectorThatIsAssignedToHandsItsTraceOver) {
  TraceOptions options;
  const auto sink = std::make_shared<MemorySink>();
  options.sink = sink;
  auto [first, collector] = Root("first", options);
  first.End();
  auto [second, other] = Root("second", options);
  collector = std::move(other);
  EXPECT_EQ(TreeOf(sink->Take()), "first");
  second.End();
  EXPECT_EQ(TreeOf(collector.Collect()), "second");
}

// A sink that two threads at once would confuse.
class LonelySink final : public trace::Sink {
 public:
  void Add(const trace::Record*, size_t count) override {
    if (inside_.exchange(true)) together_ = true;
    std::this_thread::yield();
    added_ += count;
    inside_ = false;
  }
  Status Flush() override {
    Add(nullptr, 0);
    return Status::OK();
  }
  bool together() const { return together_; }
  size_t added() const { return added_; }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> together_{false};
  size_t added_ = 0;
};

TEST(TraceTest, SinksAreCalledByOneThreadAtATime) {
  TraceOptions options;
  const auto sink = std::make_shared<LonelySink>();
  options.sink = sink;
  ASSERT_TRUE(trace::Start(options).ok());
  RunThreads(4, [&options](int i) {
    for (int j = 0; j < 500; ++j) {
      const RequestSpan operation("operation");
      auto [root, collector] = Root("request", options);
      root.End();
      if (i == 0 && j % 50 == 0) trace::Flush().IgnoreError();
    }
  });
  ASSERT_TRUE(trace::Stop().ok());
  EXPECT_FALSE(sink->together());
  EXPECT_EQ(sink->added(), 4000u);
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

TEST(TraceSessionTest, StopsAtOnceEndOneSession) {
  TraceOptions options;
  for (int i = 0; i < 200; ++i) {
    const auto sink = std::make_shared<MemorySink>();
    options.sink = sink;
    ASSERT_TRUE(trace::Start(options).ok());
    { const RequestSpan request("request"); }
    std::atomic<int> ready = 0;
    RunThreads(3, [&ready](int) {
      ++ready;
      while (ready < 3) std::this_thread::yield();
      EXPECT_TRUE(trace::Stop().ok());
    });
    ASSERT_FALSE(TraceWanted());
    ASSERT_EQ(TreeOf(sink->Take()), "request");
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

TEST(TraceSessionTest, DropsTracesThatFindNoSpaceWithTheirCount) {
  const Counts before = trace::GetCounts();
  TraceOptions options;
  options.buffer_bytes = 1 << 20;
  options.export_interval_ms = 0;
  Session session(options);
  // Faster than any sink, so at some moment all memory is in use. The collector
  // frees some of it at the same time.
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

// Memory that idle threads hold does not count as waiting for the sink.
TEST(TraceSessionTest, RestingThreadsTakeNoSpaceFromOthers) {
  constexpr int kThreads = 20;  // More than chunks of a session.
  TraceOptions options;
  options.buffer_bytes = 1 << 20;
  std::atomic<int> step{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  const auto await = [&step](int wanted) {
    while (step < wanted) std::this_thread::yield();
  };
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      await(1);
      { const RequestSpan request("one of all"); }
      ++done;
      // Spans of ended threads wait for the sink. These do not.
      await(i == 0 ? 2 : 3);
      if (i != 0) return;
      for (int j = 0; j < 3000; ++j) {
        const RequestSpan request("one");
        if (j % 1000 == 0) trace::Flush().IgnoreError();
      }
      ++done;
    });
  }
  const auto await_done = [&done](int wanted) {
    while (done < wanted) std::this_thread::yield();
  };
  const Counts before = trace::GetCounts();
  Session first(options);
  step = 1;
  await_done(kThreads);
  EXPECT_EQ(first.Stop().size(), size_t{kThreads});
  Session second(options);
  step = 2;
  await_done(kThreads + 1);
  EXPECT_EQ(second.Stop().size(), 3000u);
  EXPECT_EQ(Dropped(trace::GetCounts()), Dropped(before));
  step = 3;
  for (auto& thread : threads) thread.join();
}

TEST(TraceSessionTest, LosesNothingWhenThreadsEnd) {
  const Counts before = trace::GetCounts();
  Session session;
  constexpr int kRounds = 25;
  constexpr int kThreads = 8;
  for (int round = 0; round < kRounds; ++round) {
    RunThreads(kThreads, [](int i) {
      for (int j = 0; j <= 100 * i; ++j) {
        const RequestSpan request("request");
        const EngineSpan span("span");
      }
    });
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

// Late spans of an ended session arrive in a session that collects in another
// way.
TEST(TraceSessionTest, LateSpansOfAnotherWayOfCollectingAreCounted) {
  TraceCollector& collector = TraceCollector::Get();
  for (const auto mode :
       {TraceCollectMode::kMutex, TraceCollectMode::kChannel}) {
    const Counts before = trace::GetCounts();
    collector.SetCollectMode(mode);
    std::optional<Session> session;
    session.emplace();
    {
      const RequestSpan request("late");
      EXPECT_EQ(session->Stop().size(), 0u);
      session.reset();
    }
    collector.SetCollectMode({});
    session.emplace();
    EXPECT_EQ(session->Stop().size(), 0u);
    EXPECT_EQ(trace::GetCounts().dropped_late - before.dropped_late, 1u);
  }
}

// A sink that waits on demand.
class GatedSink final : public trace::Sink {
 public:
  void Add(const trace::Record*, size_t count) override {
    added += count;
    while (is_closed) {
      is_waiting = true;
      std::this_thread::yield();
    }
  }
  Status Flush() override { return Status::OK(); }

  std::atomic<bool> is_closed{false};
  std::atomic<bool> is_waiting{false};
  std::atomic<size_t> added{0};
};

// The rest of a trace that lost spans does not fill the buffer until the end of
// the session.
TEST(TraceSessionTest, DropsTheRestOfATraceThatLostSpans) {
  constexpr uint64_t kTraces = 20;
  constexpr uint64_t kSpans = 2000;  // More in all traces than space for spans.
  for (const auto mode :
       {TraceCollectMode::kMutex, TraceCollectMode::kChannel}) {
    TraceCollector::Get().SetCollectMode(mode);
    const Counts before = trace::GetCounts();
    TraceOptions options;
    options.buffer_bytes = 1 << 20;
    options.export_interval_ms = 0;
    const auto sink = std::make_shared<GatedSink>();
    options.sink = sink;
    ASSERT_TRUE(trace::Start(options).ok());
    sink->is_closed = true;
    { const RequestSpan request("first"); }
    std::thread flusher([] { EXPECT_TRUE(trace::Flush().ok()); });
    while (!sink->is_waiting) std::this_thread::yield();
    for (uint64_t i = 0; i < kTraces; ++i) {
      const RequestSpan request("request");
      for (uint64_t j = 1; j < kSpans; ++j) const EngineSpan span("span");
    }
    sink->is_closed = false;
    flusher.join();
    ASSERT_TRUE(trace::Flush().ok());
    { const RequestSpan request("last"); }
    ASSERT_TRUE(trace::Flush().ok());
    const uint64_t dropped =
        trace::GetCounts().dropped_buffer_full - before.dropped_buffer_full;
    EXPECT_GT(dropped, kSpans);
    EXPECT_EQ(dropped % kSpans, 0u) << "whole traces";
    EXPECT_EQ(sink->added + dropped, kTraces * kSpans + 2);
    ASSERT_TRUE(trace::Stop().ok());
    EXPECT_EQ(trace::GetCounts().dropped_late, before.dropped_late);
  }
  TraceCollector::Get().SetCollectMode({});
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
    RunThreads(4, [](int) {
      for (int j = 0; j < 500; ++j) {
        const RequestSpan request("request");
        EngineSpan span("a");
        span.Next("b");
        const EngineSpan inner("c");
      }
    });
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

}  // namespace
}  // namespace varve::test
