// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Local spans: scopes of one thread, written to a queue of that thread.
//
//   const LocalSpan span("read block");            // In a scope.
//   LocalSpan step("log"); ... step.Next("insert") // One reading of the clock.
//   const RequestSpan span("DB::Flush");           // May begin a trace.
//
// The beginning of a span writes its name, the time and its parent to the next
// record and makes the span the parent. Its end fills in the time. There is no
// lock, no atomic read-modify-write, and no allocation.
// monitoring/trace_collector.h describes open spans and the destination of
// ended traces.
// Thread-safety: each thread has its own.
//
// While nothing is traced, LocalSpan costs the test of one thread-local
// pointer. RequestSpan costs that and the load of a word that rarely changes.

#include <atomic>
#include <cstdint>

#include "monitoring/tsc_clock.h"
#include "util/base/check.h"
#include "varve/trace.h"

namespace varve {

inline constexpr uint32_t kNoSpan = UINT32_MAX;
// Linux's limit, with the zero at the end.
inline constexpr size_t kThreadNameBytes = 16;

struct SpanRecord {
  const char* name;
  uint64_t begin;    // Ticks.
  uint64_t end;      // 0: still open.
  uint32_t parent;   // Index within the trace; kNoSpan: a root.
  uint32_t done_by;  // Another thread that did it; 0: none.
};
static_assert(sizeof(SpanRecord) == 32);

struct SpanChunk;
struct TraceSettings;

// Converts a fraction in [0, 1] to the argument of SpanQueue::Chance.
inline uint32_t SamplingOf(double part) {
  if (part >= 1) return UINT32_MAX;
  return part > 0 ? static_cast<uint32_t>(part * UINT32_MAX) : 0;
}

// The queue of one thread. It holds one trace, or batch of local spans, that is
// under way. Indexes count from its beginning.
// Lifetime: never freed. When its thread ends, a later thread takes it over.
class SpanQueue {
 public:
  // Begins a span as a child of the innermost open one. Returns its index.
  // Returns kNoSpan if there is no space. The span then counts as dropped, and
  // its children get its parent.
  uint32_t Begin(const char* name) { return BeginAt(name, Now()); }
  // Begins a span at the clock's last reading in this trace.
  uint32_t BeginShared(const char* name) { return BeginAt(name, last_); }

  // Begins a span, on a thread that may not own the queue.
  uint32_t BeginFor(const char* name);

  // REQUIRES: the spans that began later have ended.
  void End(uint32_t index) { EndAt(index, Now()); }
  void EndShared(uint32_t index) { EndAt(index, last_); }
  // Ends the span, and begins the next one at the same time.
  uint32_t Next(uint32_t index, const char* name) {
    const uint64_t now = Now();
    EndAt(index, now);
    return BeginAt(name, now);
  }

  // Copies `count` > 0 spans of another thread below the span `parent`. Their
  // indexes among each other begin with `first`. Before them it adds a span
  // `wait` from the parent's beginning to the first one's. For a thread that
  // may access this queue because its owner waits for it.
  void Mount(uint32_t parent, const char* wait, const SpanRecord* spans,
             uint32_t first, uint32_t count, uint32_t done_by);

  // Returns true with the probability `sampling` / (2^32 - 1).
  bool Chance(uint32_t sampling) {
    if (sampling == UINT32_MAX) return true;
    random_ ^= random_ << 13;  // Marsaglia's xorshift; never 0.
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_ <= sampling;
  }

  // Returns the records of the trace under way.
  const SpanRecord* records() const { return records_; }
  uint32_t count() const { return count_; }
  uint64_t last_reading() const { return last_; }
  // The kernel's id of the thread that owns the queue.
  uint32_t thread_id() const { return thread_id_; }
  ClockKind kind() const { return kind_; }
  // Returns true if each loaded block gets spans.
  bool wants_blocks() const { return wants_blocks_; }
  bool wants_steps() const { return detail_ == trace::Detail::kSteps; }
  // Returns how often the clock ran backwards and the last reading was used.
  uint64_t held_readings() const { return held_readings_; }

 private:
  friend class RequestSpan;
  friend class LocalTrace;
  friend class NoBlockSpans;
  friend class TraceCollector;

  // Returns the time, never less than the last reading.
  uint64_t Now() {
    const uint64_t now = ReadClock(kind_);
    if (now < last_) [[unlikely]] {
      ++held_readings_;
      return last_;
    }
    last_ = now;
    return now;
  }
  uint32_t BeginAt(const char* name, uint64_t now) {
    if (count_ >= limit_ && !MakeSpace()) [[unlikely]]
      return kNoSpan;
    SpanRecord* const record = records_ + count_;
    record->name = name;
    record->begin = now;
    record->end = 0;
    record->parent = parent_;
    record->done_by = 0;
    parent_ = count_;
    return count_++;
  }
  void EndAt(uint32_t index, uint64_t now) {
    if (index == kNoSpan) [[unlikely]]
      return;
    VARVE_DCHECK(index < count_);
    records_[index].end = now;
    parent_ = records_[index].parent;
  }
  // Moves the trace to a new chunk, unless it is too large.
  [[gnu::noinline, gnu::cold]] bool MakeSpace();
  // Ends the spans that are still open, from `first` on.
  void EndAll(uint32_t first);

  // For the trace under way.
  SpanRecord* records_ = nullptr;
  uint32_t count_ = 0;
  uint32_t limit_ = 0;  // Spans for which there is space.
  uint32_t parent_ = kNoSpan;
  ClockKind kind_ = ClockKind::kSteady;
  trace::Detail detail_ = trace::Detail::kWork;
  bool wants_blocks_ = true;
  uint64_t last_ = 0;

  // For all traces. See monitoring/trace_collector.h.
  uint32_t max_spans_ = 0;
  uint32_t epoch_ = 0;
  uint32_t sampling_ = 0;
  uint32_t random_ = 1;
  uint64_t keep_ticks_ = 0;
  TraceCollectMode collect_ = {};
  uint32_t thread_id_ = 0;
  uint32_t space_ = 0;  // Records in the chunk from records_ on.
  uint64_t held_readings_ = 0;

  // Read by the collector.
  std::atomic<SpanChunk*> chunk_{nullptr};
  std::atomic<uint64_t> discarded_{0};
  std::atomic<uint64_t> finished_[4][3] = {};  // By ClockKind, collect mode.
  // The owner's name, ended by a zero. Guarded by the collector's mutex.
  char thread_name_[kThreadNameBytes] = "";
  SpanQueue* next_queue_ = nullptr;  // Immutable once it is in the list.
  SpanQueue* next_free_ = nullptr;   // Guarded by the collector's mutex.
};

// The queue for local spans of the thread. Null if it is not being traced.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local SpanQueue* active_spans;
// The current session, counted by Start; 0 if there is none.
extern constinit std::atomic<uint32_t> trace_epoch;

// Returns true if an operation that begins now may have to be traced.
inline bool TraceWanted() {
  // relaxed: the settings are read under a mutex.
  return (reinterpret_cast<uintptr_t>(active_spans) |
          trace_epoch.load(std::memory_order_relaxed)) != 0;
}
// Returns true if short steps get spans as well.
inline bool TraceSteps() {
  return active_spans != nullptr && active_spans->wants_steps();
}

inline bool TraceBlocks() {
  return active_spans != nullptr && active_spans->wants_blocks();
}

class LocalSpan {
 public:
  explicit LocalSpan(const char* name) : queue_(active_spans) {
    if (queue_ != nullptr) [[unlikely]]
      index_ = queue_->Begin(name);
  }
  // Selects the time of the previous span's end or beginning.
  struct Shared {};
  LocalSpan(Shared, const char* name, bool wanted = true)
      : queue_(wanted ? active_spans : nullptr) {
    if (queue_ != nullptr) [[unlikely]]
      index_ = queue_->BeginShared(name);
  }
  // Writes to the queue of a thread that waits for this one, or of this one. It
  // may be null.
  LocalSpan(SpanQueue* queue, const char* name) : queue_(queue) {
    if (queue_ != nullptr) [[unlikely]]
      index_ = queue_->BeginFor(name);
  }
  // Does nothing if `wanted` is false.
  LocalSpan(const char* name, bool wanted)
      : queue_(wanted ? active_spans : nullptr) {
    if (queue_ != nullptr) [[unlikely]]
      index_ = queue_->Begin(name);
  }
  ~LocalSpan() {
    if (queue_ != nullptr) [[unlikely]]
      queue_->End(index_);
  }
  LocalSpan(const LocalSpan&) = delete;
  LocalSpan& operator=(const LocalSpan&) = delete;

  // Ends this span and begins another one, with one reading of the clock.
  void Next(const char* name) {
    if (queue_ != nullptr) [[unlikely]]
      index_ = queue_->Next(index_, name);
  }

 private:
  SpanQueue* const queue_;
  uint32_t index_ = 0;
};

// A span that may be the root of a trace. It is one if the thread is not being
// traced, a session runs (trace::Start to Stop), and sampling chooses it.
class RequestSpan {
 public:
  explicit RequestSpan(const char* name) {
    if (TraceWanted()) [[unlikely]]
      BeginRequest(name);
  }
  ~RequestSpan() {
    if (queue_ != nullptr) [[unlikely]]
      EndRequest();
  }
  RequestSpan(const RequestSpan&) = delete;
  RequestSpan& operator=(const RequestSpan&) = delete;

  // Returns null if it is not traced.
  SpanQueue* queue() const { return queue_; }
  uint32_t index() const { return index_; }

 private:
  void BeginRequest(const char* name);
  void EndRequest();

  SpanQueue* queue_ = nullptr;
  uint32_t index_ = 0;
  bool is_root_ = false;
};

// Suppresses spans for each block, in jobs that load thousands of them.
class NoBlockSpans {
 public:
  NoBlockSpans() : queue_(active_spans) {
    if (queue_ != nullptr) queue_->wants_blocks_ = false;
  }
  ~NoBlockSpans() {
    if (queue_ != nullptr) queue_->wants_blocks_ = true;
  }
  NoBlockSpans(const NoBlockSpans&) = delete;
  NoBlockSpans& operator=(const NoBlockSpans&) = delete;

 private:
  SpanQueue* const queue_;
};

// Collects the calling thread's local spans in a list of their own, for a
// scope. The list is part of an outer trace's queue, or of a new one. Scopes of
// it and of spans nest.
class LocalTrace {
 public:
  // `keep`: an outer trace gets the spans as well.
  LocalTrace(ClockKind kind, trace::Detail detail, uint32_t max_spans,
             bool keep);
  // Ends the spans that are still open.
  ~LocalTrace();
  LocalTrace(const LocalTrace&) = delete;
  LocalTrace& operator=(const LocalTrace&) = delete;

  // Returns its records. A parent index before `first()` means no parent.
  const SpanRecord* records() const { return queue_->records_ + first_; }
  uint32_t first() const { return first_; }
  uint32_t count() const { return queue_->count_ - first_; }
  ClockKind kind() const { return queue_->kind_; }
  SpanQueue* queue() const { return queue_; }
  void EndAll() { queue_->EndAll(first_); }

 private:
  SpanQueue* const queue_;
  const bool is_outermost_;
  const bool keep_;
  const uint32_t first_;
  const uint32_t parent_;
  const ClockKind kind_;
  const trace::Detail detail_;
  const uint32_t max_spans_;
};

}  // namespace varve
