// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tracing: what a request did, and how long each step took, as a tree of spans.
//
// Of one request, with spans of the program's own around Varve's:
//
//   auto [root, collector] = trace::Root("checkout");
//   {
//     const trace::LocalParent here = root.SetLocalParent();
//     const trace::LocalSpan step("load cart");
//     db->Get(...);                       // Its spans are below "load cart".
//   }
//   root.End();
//   for (const trace::Record& r : collector.Collect()) ...
//
// Or of all that the engine does: between Start and Stop every operation that
// the rate chooses, flush, compaction and opening included, is a trace of its
// own and goes to a sink.
//
// Names must live as long as the process; they are string literals, mostly.
// Times come from a clock chosen for being cheap (see ClockName); they are for
// looking at and nothing else. While nothing is traced, an operation pays one
// branch. Thread-safety: as each class says; the functions are thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "varve/export.h"
#include "varve/status.h"

namespace varve::trace {

// A span that has ended.
struct Record {
  uint64_t trace_id = 0;   // Unique in the process; never 0.
  uint32_t span_id = 0;    // Within the trace, from 1, which is the root.
  uint32_t parent_id = 0;  // 0: none.
  const char* name = nullptr;
  // Nanoseconds since 1970. Never end before begin; the children of a span
  // that are of its thread are within it.
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  // Threads are numbered from 1 in the order of their first spans.
  uint32_t thread = 0;   // Of the request.
  uint32_t done_by = 0;  // Did the work: another one, for shared work.
};

namespace internal {
struct SinkCalls;
}

// Where traces go. Called by one thread at a time, also if several sessions and
// requests have it, and not by a traced one.
class VARVE_EXPORT Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  // Whole traces, one after the other; each begins with its root.
  virtual void Add(const Record* records, size_t count) = 0;
  // Whatever went wrong so far. Then all that was added is where it should be.
  virtual Status Flush() = 0;

 private:
  friend struct internal::SinkCalls;
  std::mutex mutex_;  // Held while it is called.
};

// Writes a file of Chrome's trace format, which ui.perfetto.dev,
// chrome://tracing and `varve trace` open, or of OpenTelemetry's OTLP in JSON
// (a line for some hundred spans, as its file exporter has them). The file is
// complete when the sink is destroyed.
VARVE_EXPORT Status NewChromeSink(const std::string& path,
                                  std::shared_ptr<Sink>* sink);
VARVE_EXPORT Status NewOtlpSink(const std::string& path,
                                std::shared_ptr<Sink>* sink);

// Which steps are worth a span.
enum class Detail : uint8_t {
  kWork = 0,  // Where it waits, calls the system, or works for long.
  kSteps,     // Also steps that take less than some hundred nanoseconds.
};

struct TraceOptions {
  // The part of operations that is traced, chosen at random: [0, 1].
  // Default: 1, all.
  double sampling = 1;
  // Keep only traces whose root took at least so long. Default: 0, all.
  uint64_t slower_than_us = 0;
  // Spans of one trace; what is more is dropped and counted. [1, 2000].
  // Default: 2000.
  uint32_t max_spans = 2000;
  // Default: kWork. For a trace of one request, Root has kSteps.
  Detail detail = Detail::kWork;
  // For Root, it may be null. Default: null.
  std::shared_ptr<Sink> sink;
  // Only for Start: bytes of spans that may wait for the sink, beside 64 KiB of
  // each thread that has had a trace, and for how long they do if there is
  // space; 0: until Flush or until half of the space is taken. [1 MiB, 64 GiB].
  // Defaults: 64 MiB, a second.
  size_t buffer_bytes = size_t{64} << 20;
  uint32_t export_interval_ms = 1000;
};

// ---- All that the engine does -----------------------------------------------

// InvalidArgument: no sink, or an option is out of its bounds. Busy: started
// already. Process-wide.
VARVE_EXPORT Status Start(const TraceOptions& options);
// Brings to the sink what has ended by now, and returns the sink's status. OK
// if nothing was started.
VARVE_EXPORT Status Flush();
// The same, and ends tracing. What is under way is dropped.
VARVE_EXPORT Status Stop();

// Of the process, since it began.
struct Counts {
  uint64_t spans = 0;      // Collected.
  uint64_t traces = 0;     // The same.
  uint64_t discarded = 0;  // Traces that were not slow enough to be kept.
  // Spans lost, and why.
  uint64_t dropped_trace_full = 0;     // TraceOptions::max_spans.
  uint64_t dropped_buffer_full = 0;    // TraceOptions::buffer_bytes.
  uint64_t dropped_late = 0;           // Ended after Stop or Collect.
  uint64_t dropped_clock_changed = 0;  // By an experiment.
};
VARVE_EXPORT Counts GetCounts();

// The clock in use and why, such as "tsc (constant, nonstop, and the kernel's
// own clock source)".
VARVE_EXPORT std::string ClockName();

// Where the processor's time stamps may differ from core to core, and therefore
// are not used, measures the differences by two threads that go from core to
// core; they are used then, corrected. Takes some milliseconds a core. OK, and
// nothing is done, where they are used anyway. NotSupported: time stamps do not
// go at constant speed, or threads cannot be bound to cores.
VARVE_EXPORT Status MeasureClockOffsets();

// ---- One request ------------------------------------------------------------

namespace internal {
struct Trace;
struct Batch;
struct LocalState;
}  // namespace internal

// A span of the calling thread, for a scope, below the innermost one of this
// thread that is open; nothing if the thread is not being traced. Scopes nest.
class VARVE_EXPORT LocalSpan {
 public:
  // `name` must stay valid for good, as a literal does.
  explicit LocalSpan(const char* name);
  ~LocalSpan();
  LocalSpan(const LocalSpan&) = delete;
  LocalSpan& operator=(const LocalSpan&) = delete;

 private:
  void* queue_;
  uint32_t index_ = 0;
};

// What a LocalCollector has collected. Copies share it; any thread may use it.
class VARVE_EXPORT LocalSpans {
 public:
  LocalSpans() = default;
  // How many spans.
  size_t size() const;

 private:
  friend class LocalCollector;
  friend class Span;
  std::shared_ptr<const internal::Batch> batch_;
};

// Collects the local spans that the thread begins and ends while this lives,
// whether the thread is traced or not; if it is, they are in its trace as
// well. To be used and destroyed by the same thread, in the order of scopes.
class VARVE_EXPORT LocalCollector {
 public:
  LocalCollector();
  ~LocalCollector();
  LocalCollector(const LocalCollector&) = delete;
  LocalCollector& operator=(const LocalCollector&) = delete;

  // The spans so far that have ended.
  LocalSpans Collect();

 private:
  std::unique_ptr<internal::LocalState> state_;
};

// While it lives, local spans of the thread belong below a span. To be
// destroyed by the thread that made it, in the order of scopes.
class VARVE_EXPORT LocalParent {
 public:
  ~LocalParent();
  LocalParent(const LocalParent&) = delete;
  LocalParent& operator=(const LocalParent&) = delete;

 private:
  friend class Span;
  explicit LocalParent(std::unique_ptr<internal::LocalState> state);
  std::unique_ptr<internal::LocalState> state_;
};

// A span that may begin and end in different threads. One thread at a time
// uses it. A default one, and those below it, do nothing.
class VARVE_EXPORT Span {
 public:
  Span() = default;
  ~Span() { End(); }
  Span(Span&& other) noexcept { *this = std::move(other); }
  Span& operator=(Span&& other) noexcept;

  // A span below this one, which may outlive it.
  Span Child(const char* name) const;
  [[nodiscard]] LocalParent SetLocalParent() const;
  // Puts them below this span, as well as any others that they are put below.
  void Mount(const LocalSpans& spans) const;
  // Before the destructor.
  void End();

 private:
  friend std::pair<Span, class Collector> Root(const char* name,
                                               const TraceOptions& options);
  std::shared_ptr<internal::Trace> trace_;
  const char* name_ = nullptr;
  uint64_t begin_ = 0;
  uint32_t id_ = 0;
  uint32_t parent_ = 0;
};

// Gets the spans of one request.
class VARVE_EXPORT Collector {
 public:
  Collector() = default;
  // Hands the trace to TraceOptions::sink, if there is one, and Collect was not
  // called.
  ~Collector();
  Collector(Collector&&) noexcept = default;
  // Does first what the destructor does.
  Collector& operator=(Collector&& other) noexcept;

  // The spans that have ended, the root first. What ends later is dropped.
  // Empty if the root was not sampled, has not ended or was too fast, and at
  // the second call. A sink gets them as well.
  std::vector<Record> Collect();

 private:
  friend std::pair<Span, Collector> Root(const char* name,
                                         const TraceOptions& options);
  std::shared_ptr<internal::Trace> trace_;
};

// A new trace; its first span is `name`. The default options record every step.
VARVE_EXPORT std::pair<Span, Collector> Root(const char* name,
                                             const TraceOptions& options);
inline std::pair<Span, Collector> Root(const char* name) {
  TraceOptions options;
  options.detail = Detail::kSteps;
  return Root(name, options);
}

}  // namespace varve::trace
