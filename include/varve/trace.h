// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tracing records the steps of a request and their durations as a tree of
// spans.
//
// To trace one request, with the program's own spans around Varve's:
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
// To trace the whole engine, call Start and Stop. Each sampled operation in
// between, including flushes, compactions and opens, is a separate trace and is
// written to a sink.
//
// Names must live as long as the process; most are string literals. Times come
// from a cheap clock (see ClockName). Use them for display only. While nothing
// is traced, an operation costs one branch. Thread-safety: see each class. The
// functions are thread-safe.

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
  // Nanoseconds since 1970. The end is never before the begin. Children of a
  // span on its own thread are within it.
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  // The kernel's thread ids, as gettid returns them and perf shows them. The
  // kernel reuses the id of a thread that has ended.
  uint32_t thread = 0;   // The request's thread.
  uint32_t done_by = 0;  // The working thread; differs for shared work.
};

namespace internal {
struct SinkCalls;
}

// Receives traces. Called by one thread at a time, even if several sessions and
// requests share it, and never by a traced thread.
class VARVE_EXPORT Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  // Adds complete traces in sequence. Each begins with its root.
  virtual void Add(const Record* records, size_t count) = 0;
  // Writes out everything added, and returns the first error so far.
  virtual Status Flush() = 0;

 private:
  friend struct internal::SinkCalls;
  std::mutex mutex_;  // Held while it is called.
};

// Writes a file of Chrome's trace format, which ui.perfetto.dev and
// chrome://tracing open, or of OpenTelemetry's OTLP in JSON (a line for some
// hundred spans, as its file exporter has them). `varve trace` opens both. The
// file is complete when the sink is destroyed.
VARVE_EXPORT Status NewChromeSink(const std::string& path,
                                  std::shared_ptr<Sink>* sink);
VARVE_EXPORT Status NewOtlpSink(const std::string& path,
                                std::shared_ptr<Sink>* sink);

// Which steps get a span.
enum class Detail : uint8_t {
  kWork = 0,  // Waits, system calls and long work.
  kSteps,     // Also steps that take less than some hundred nanoseconds.
};

struct TraceOptions {
  // The fraction of operations that is traced, chosen at random: [0, 1].
  // Default: 1, all.
  double sampling = 1;
  // Keep only traces whose root took at least this long. Default: 0, all.
  uint64_t slower_than_us = 0;
  // Maximum spans of one trace. Further spans are dropped and counted. [1,
  // 2000]. Default: 2000.
  uint32_t max_spans = 2000;
  // Default: kWork. For a trace of one request, Root has kSteps.
  Detail detail = Detail::kWork;
  // May be null for Root. Default: null.
  std::shared_ptr<Sink> sink;
  // Only for Start. The first is the number of bytes of spans that may wait for
  // the sink, in addition to 64 KiB per traced thread: [1 MiB, 64 GiB], default
  // 64 MiB. The second is how long spans wait if there is space, default one
  // second; 0: until Flush, or until half of the space is used.
  size_t buffer_bytes = size_t{64} << 20;
  uint32_t export_interval_ms = 1000;
};

// ---- All that the engine does -----------------------------------------------

// Starts tracing in the whole process. Returns InvalidArgument if there is no
// sink or an option is out of bounds, and Busy if tracing is on.
VARVE_EXPORT Status Start(const TraceOptions& options);
// Writes all ended traces to the sink, and returns the sink's status. Returns
// OK if tracing is off.
VARVE_EXPORT Status Flush();
// Does the same as Flush, and ends tracing. Unfinished traces are dropped.
VARVE_EXPORT Status Stop();

// Counts since the start of the process.
struct Counts {
  uint64_t spans = 0;      // Collected.
  uint64_t traces = 0;     // Collected.
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

// Returns the name of a thread that has had a span, such as "varve:low0". The
// name is read at the thread's first span, and again at its first span after
// each Start. Returns "" for other ids. Of the threads that have ended, the
// last 4,096 have names. Thread-safe; a sink may call it.
VARVE_EXPORT std::string ThreadName(uint32_t thread);

// Enables time stamps on machines where they may differ between cores. Two
// threads move from core to core and measure the differences; time stamps are
// then used with corrections. Takes some milliseconds per core. Returns OK and
// does nothing if time stamps are already used. Returns NotSupported if their
// rate is not constant, or if threads cannot be bound to cores.
VARVE_EXPORT Status MeasureClockOffsets();

// ---- One request ------------------------------------------------------------

namespace internal {
struct Trace;
struct Batch;
struct LocalState;
}  // namespace internal

// A span of the calling thread for a scope. Its parent is the thread's
// innermost open span. Does nothing if the thread is not traced. Scopes nest.
class VARVE_EXPORT LocalSpan {
 public:
  // `name` must stay valid for ever, like a literal.
  explicit LocalSpan(const char* name);
  ~LocalSpan();
  LocalSpan(const LocalSpan&) = delete;
  LocalSpan& operator=(const LocalSpan&) = delete;

 private:
  void* queue_;
  uint32_t index_ = 0;
};

// Spans collected by a LocalCollector. Copies share them. Any thread may use
// them.
class VARVE_EXPORT LocalSpans {
 public:
  LocalSpans() = default;
  // Returns the number of spans.
  size_t size() const;

 private:
  friend class LocalCollector;
  friend class Span;
  std::shared_ptr<const internal::Batch> batch_;
};

// Collects the local spans that the thread begins and ends during its lifetime,
// even if the thread is not traced. If it is traced, its trace has them as
// well. Use and destroy it on one thread, in the order of scopes.
class VARVE_EXPORT LocalCollector {
 public:
  LocalCollector();
  ~LocalCollector();
  LocalCollector(const LocalCollector&) = delete;
  LocalCollector& operator=(const LocalCollector&) = delete;

  // Returns the spans that have ended.
  LocalSpans Collect();

 private:
  std::unique_ptr<internal::LocalState> state_;
};

// Makes a span the parent of the thread's local spans during its lifetime.
// Destroy it on the thread that created it, in the order of scopes.
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

class VARVE_EXPORT VARVE_USES_CONTAINERS Collector;

// A span that may begin and end in different threads. Owned by one thread at a
// time. A default-constructed span and its children do nothing.
class VARVE_EXPORT Span {
 public:
  Span() = default;
  ~Span() { End(); }
  Span(Span&& other) noexcept { *this = std::move(other); }
  Span& operator=(Span&& other) noexcept;

  // Creates a child span, which may outlive this one.
  Span Child(const char* name) const;
  [[nodiscard]] LocalParent SetLocalParent() const;
  // Adds the spans as children of this span. They may have other parents too.
  void Mount(const LocalSpans& spans) const;
  // Ends the span before its destruction.
  void End();

 private:
  friend std::pair<Span, Collector> Root(const char* name,
                                         const TraceOptions& options);
  std::shared_ptr<internal::Trace> trace_;
  const char* name_ = nullptr;
  uint64_t begin_ = 0;
  uint32_t id_ = 0;
  uint32_t parent_ = 0;
};

// Collects the spans of one request.
class VARVE_EXPORT VARVE_USES_CONTAINERS Collector {
 public:
  Collector() = default;
  // Writes the trace to TraceOptions::sink, if there is one and Collect was not
  // called.
  ~Collector();
  Collector(Collector&&) noexcept = default;
  // Ends the collection as the destructor does, then assigns.
  Collector& operator=(Collector&& other) noexcept;

  // Returns the ended spans, the root first. Spans that end later are dropped.
  // Returns nothing if the root was not sampled, has not ended or was too fast,
  // and on the second call. The sink receives the spans as well.
  std::vector<Record> Collect();

 private:
  friend std::pair<Span, Collector> Root(const char* name,
                                         const TraceOptions& options);
  std::shared_ptr<internal::Trace> trace_;
};

// Begins a trace with the root span `name`. The default options record every
// step.
VARVE_EXPORT std::pair<Span, Collector> Root(const char* name,
                                             const TraceOptions& options);
inline std::pair<Span, Collector> Root(const char* name) {
  TraceOptions options;
  options.detail = Detail::kSteps;
  return Root(name, options);
}

}  // namespace varve::trace
