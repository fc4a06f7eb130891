// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of tracing.
//
// Clock measures one reading. Push measures a span in the thread's queue with a
// clock that costs nothing, and Span with each clock. Request measures whole
// traces, the root included, for each way of collecting them. Times are of one
// reading, span or trace, on one core.

#include <memory>

#include "monitoring/span.h"
#include "monitoring/trace_collector.h"
#include "monitoring/tsc_clock.h"
#include "tools/micro_bench/micro_bench.h"
#include "varve/trace.h"

namespace varve::bench {
namespace {

// Forgets: sinks are another matter.
class NullSink final : public trace::Sink {
 public:
  void Add(const trace::Record*, size_t) override {}
  Status Flush() override { return Status::OK(); }
};

void Clock(benchmark::State& state, ClockKind kind) {
  for (auto _ : state) benchmark::DoNotOptimize(ReadClock(kind));
}

// Two readings, as one span takes.
void TwoReadings(benchmark::State& state, ClockKind kind) {
  for (auto _ : state) {
    const uint64_t begin = ReadClock(kind);
    benchmark::DoNotOptimize(ReadClock(kind) - begin);
  }
}

// Spans in a row, in batches that are thrown away.
constexpr int kBatch = 1000;

void Span(benchmark::State& state, ClockKind kind) {
  while (state.KeepRunningBatch(kBatch)) {
    const LocalTrace local(kind, trace::Detail::kWork, 2000, false);
    for (int i = 0; i < kBatch; ++i) {
      const LocalSpan span("span");
      benchmark::ClobberMemory();
    }
  }
}

// Like Span, but begin and end take the previous time instead of a clock.
void Push(benchmark::State& state) {
  while (state.KeepRunningBatch(kBatch)) {
    const LocalTrace local(ClockKind::kSteady, trace::Detail::kWork, 2000,
                           false);
    SpanQueue* const queue = local.queue();
    for (int i = 0; i < kBatch; ++i) {
      queue->EndShared(queue->BeginShared("span"));
      benchmark::ClobberMemory();
    }
  }
}

// Nothing is traced: what an operation and a step of it pay.
void Off(benchmark::State& state) {
  for (auto _ : state) {
    const RequestSpan request("request");
    const LocalSpan span("span");
    benchmark::ClobberMemory();
  }
}

// Whole traces of `spans` spans, collected from a session.
void Request(benchmark::State& state, TraceClockMode clock,
             TraceCollectMode collect) {
  SetClockMode(clock);
  TraceCollector::Get().SetCollectMode(collect);
  trace::TraceOptions options;
  options.sink = std::make_shared<NullSink>();
  options.buffer_bytes = size_t{256} << 20;
  const trace::Counts before = trace::GetCounts();
  if (!trace::Start(options).ok()) return state.SkipWithError("Start failed");
  const auto spans = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const RequestSpan request("request");
    for (int i = 1; i < spans; ++i) {
      const LocalSpan span("span");
      benchmark::ClobberMemory();
    }
  }
  trace::Stop().IgnoreError();  // The sink never fails.
  const trace::Counts after = trace::GetCounts();
  state.counters["dropped"] = static_cast<double>(after.dropped_buffer_full -
                                                  before.dropped_buffer_full);
  SetClockMode({});
  TraceCollector::Get().SetCollectMode({});
}

// A trace of one request, made, filled and collected by itself.
void Root(benchmark::State& state) {
  const auto spans = static_cast<int>(state.range(0));
  for (auto _ : state) {
    auto [root, collector] = trace::Root("request");
    if (spans > 1) {
      const trace::LocalParent parent = root.SetLocalParent();
      for (int i = 1; i < spans; ++i) {
        const trace::LocalSpan span("span");
        benchmark::ClobberMemory();
      }
    }
    root.End();
    benchmark::DoNotOptimize(collector.Collect());
  }
}

}  // namespace

void AddTraces() {
  const auto add = [](const char* name, auto function, auto... arguments) {
    return benchmark::RegisterBenchmark(name, function, arguments...);
  };
  const auto add_traces = [&](const char* name, auto... arguments) {
    add(name, arguments...)->RangeMultiplier(10)->Range(1, 1000);
  };
  add("Clock/Tsc", Clock, ClockKind::kTsc);
  add("Clock/TscByCore", Clock, ClockKind::kTscByCore);
  add("Clock/Steady", Clock, ClockKind::kSteady);
  add("Clock/Coarse", Clock, ClockKind::kCoarse);
  add("TwoReadings/Tsc", TwoReadings, ClockKind::kTsc);
  add("TwoReadings/Steady", TwoReadings, ClockKind::kSteady);
  add("Span/Tsc", Span, ClockKind::kTsc);
  add("Span/Steady", Span, ClockKind::kSteady);
  add("Span/Coarse", Span, ClockKind::kCoarse);
  add("Push", Push);
  add("Off", Off);
  add_traces("Request/Tsc", Request, TraceClockMode::kTsc,
             TraceCollectMode::kThreadLocal);
  add_traces("Request/Steady", Request, TraceClockMode::kSteady,
             TraceCollectMode::kThreadLocal);
  add_traces("Request/Coarse", Request, TraceClockMode::kCoarse,
             TraceCollectMode::kThreadLocal);
  add_traces("Request/Mutex", Request, TraceClockMode::kTsc,
             TraceCollectMode::kMutex);
  add_traces("Request/Channel", Request, TraceClockMode::kTsc,
             TraceCollectMode::kChannel);
  add_traces("Root", Root);
}

}  // namespace varve::bench
