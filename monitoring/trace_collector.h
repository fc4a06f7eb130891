// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Per-thread buffers, handed over on a Treiber stack that one exchange empties.
// The collector brings the traces that threads have written to their queues
// (monitoring/span.h) to a sink. The threads do not wait for it.
//
// Words and states
//   A chunk holds the traces of one thread, one after the other. It is taken
//   (its thread writes records), handed over, or free. `committed` in it: the
//   records before it belong to traces that have ended; written by the thread.
//   `consumed`: the records before it are collected; owned by the collector. A
//   queue's `chunk_`: the chunk that it has taken; written by its thread.
//   `handed_over_`: a list of chunks, linked by `next`.
// Transitions
//   T1 commit: the thread stores `committed`, release, at the end of a trace.
//   T2 hand over: the thread stores null in `chunk_`, release, then pushes the
//      chunk, compare-and-swap, release.
//   T3 take: under the mutex, from the free chunks or a new one; then `chunk_`,
//      release.
//   T4 collect: the collector takes the list, exchange, acquire. It reads each
//      chunk up to `committed`, and frees it under the mutex. Then it reads the
//      chunks that queues still have (`chunk_` and `committed`, acquire).
// Invariants
//   I1 one thread writes a chunk, and only at or after `committed`.
//   I2 a chunk with records in it is freed by T4 alone, after it was handed
//      over. One collector runs at a time, so a chunk that T4 finds in a
//      `chunk_` is not freed during T4.
//   I3 only the collector accesses `consumed`.
// Why each order is needed
//   T1 pairs with the acquire of `committed`: records are seen whole. T2's push
//      pairs with T4's exchange: the chunk is seen whole, and `chunk_` is null.
// Bad interleavings prevented
//   B1 T4 frees a chunk, another thread takes it and writes, and T4 continues
//      to read it by the previous owner's `chunk_`: that was null before the
//      push.
//   B2 ABA in T2's compare-and-swap: there are only pushes and one exchange of
//      the whole list. A head that comes back is the head that the new chunk's
//      `next` names.
//   B3 a thread ends with spans that were not collected: its end is T2.
//   B4 a thread ends with a chunk without committed records, and frees it
//      itself, while T4 holds its address: T4 reads only `committed` before
//      that is more than 0, and then it sees the next owner's T1.
// Freshness and progress
//   A trace is collected when a drain begins after its end. T1 and T2 never
//   wait. As many chunks as fit into buffer_bytes may wait for T4. Above that,
//   traces are dropped and counted, and T3 does not even try. In addition, a
//   thread has at most one chunk.
// Reclamation
//   Stop frees the chunks of an ended session, except the chunks that threads
//   hold: at most one each.

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "monitoring/bounded_channel.h"
#include "monitoring/span.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"
#include "varve/trace.h"

namespace varve {

struct alignas(64) SpanChunk {
  static constexpr uint32_t kRecords = 2044;

  std::atomic<uint32_t> committed{0};  // See T1.
  uint32_t consumed = 0;               // I3.
  SpanChunk* next = nullptr;           // Written by the pusher, then by T4.
  // Written by its thread when it takes the chunk.
  uint32_t thread_id = 0;
  uint32_t epoch = 0;
  ClockKind kind = ClockKind::kSteady;
  ClockAnchor anchor;
  SpanRecord records[kRecords];
};

// One span with all the data needed to place it in its trace, for the modes
// that collect spans one by one.
struct LooseSpan {
  SpanRecord record;
  uint64_t trace = 0;  // Unique.
  uint32_t index = 0;
  uint32_t count = 0;  // Spans of the trace.
  uint32_t thread_id = 0;
  uint32_t epoch = 0;
};

// The name of a thread, kept for spans that are exported after its end.
struct EndedThread {
  uint32_t id = 0;
  char name[kThreadNameBytes] = "";
};

// Why a span was dropped.
enum class SpanDrop : uint8_t { kTraceFull, kBufferFull, kLate, kClockChanged };

// A thread's copy of the session's settings.
struct TraceSettings {
  uint32_t epoch = 0;
  uint32_t sampling = 0;  // In units of 1 / (2^32 - 1).
  uint32_t max_spans = 0;
  uint64_t keep_ticks = 0;
  trace::Detail detail = {};
  ClockKind kind = ClockKind::kSteady;
  TraceCollectMode collect = {};
};

// Converts the spans of one trace to records with the trace's id.
class RecordMaker {
 public:
  RecordMaker(ClockKind kind, const ClockAnchor& begin, const ClockAnchor& end,
              uint64_t epoch_offset_ns)
      : converter_(kind, begin, end), epoch_offset_ns_(epoch_offset_ns) {}

  uint64_t ToNs(uint64_t ticks) const {
    return epoch_offset_ns_ + converter_.ToNs(ticks);
  }
  trace::Record Make(const SpanRecord& span, uint64_t trace_id,
                     uint32_t span_id, uint32_t parent_id,
                     uint32_t thread) const;

 private:
  const TickConverter converter_;
  const uint64_t epoch_offset_ns_;
};

uint64_t NewTraceId();

namespace trace::internal {

// Calls a sink, one call at a time.
struct SinkCalls {
  static void Add(Sink* sink, const std::vector<Record>& records) {
    const std::lock_guard<std::mutex> lock(sink->mutex_);
    sink->Add(records.data(), records.size());
  }
  static Status Flush(Sink* sink) {
    const std::lock_guard<std::mutex> lock(sink->mutex_);
    return sink->Flush();
  }
};

}  // namespace trace::internal

// Returns InvalidArgument if a number is out of bounds. The sink is not
// checked.
Status CheckTraceOptions(const trace::TraceOptions& options);

// Thread-safety: thread-safe, except for the functions that are marked as being
// for a queue's thread. Lock ranks: stop_mutex_, drain_mutex_, the sink's, then
// mutex_ or loose_mutex_. A sink calls ThreadName, which takes mutex_. No lock
// is taken under the last two.
class TraceCollector {
 public:
  // Never destroyed.
  static TraceCollector& Get();

  Status Start(const trace::TraceOptions& options);
  Status Flush();
  Status Stop();
  trace::Counts GetCounts();
  // See trace::ThreadName.
  std::string ThreadName(uint32_t thread_id);
  // Applies to later sessions.
  void SetCollectMode(TraceCollectMode mode);
  // Returns the number of traces that ended with that clock or collect mode.
  uint64_t FinishedWith(ClockKind kind) const;
  uint64_t FinishedWith(TraceCollectMode mode) const;

  static void CountDrop(SpanDrop reason, uint64_t spans);
  static void CountCollected(uint64_t spans, uint64_t traces);
  // Counts a trace that no queue has counted.
  static void CountDiscarded();

  // ---- For the thread of a queue ----
  // Returns the calling thread's queue, created at its first use.
  SpanQueue* OwnQueue();
  // Called at the thread's end.
  void HandBack(SpanQueue* queue);
  // Begins a trace if the session samples it.
  bool BeginTrace(SpanQueue* queue);
  void FinishTrace(SpanQueue* queue);
  // Takes a chunk to write to, even if there are too many. The trace under way
  // moves to it.
  void TakeChunk(SpanQueue* queue);
  // Takes a chunk within the session's bound. Returns false if there is none.
  // The previous chunk is handed over. REQUIRES: nothing is under way.
  bool RotateChunk(SpanQueue* queue);

 private:
  friend class ProcessWide<TraceCollector>;
  TraceCollector() = default;

  void Adopt(SpanQueue* queue);
  // Stores the id and the name of the calling thread, which owns the queue.
  void Identify(SpanQueue* queue) VARVE_REQUIRES(mutex_);
  void HandOver(SpanQueue* queue);
  SpanChunk* NewChunk();
  void SendLoose(SpanQueue* queue);
  static void* ThreadMain(void* collector);
  void Run();
  // T4. If `everything`, it also reads the chunks that threads still hold.
  void Drain(bool everything) VARVE_REQUIRES(drain_mutex_);
  void TakeHandedOver() VARVE_REQUIRES(drain_mutex_);
  // Takes the spans of the modes that collect span by span. Late spans may come
  // in a later session of another mode.
  void TakeLoose() VARVE_REQUIRES(drain_mutex_);
  void Export(SpanChunk* chunk, uint32_t epoch) VARVE_REQUIRES(drain_mutex_);
  void ExportLoose(uint32_t epoch) VARVE_REQUIRES(drain_mutex_);
  void FreeChunk(SpanChunk* chunk);

  // Atomic.
  std::atomic<SpanChunk*> handed_over_{nullptr};
  std::atomic<SpanQueue*> queues_{nullptr};
  // Chunks that were handed over and are not free yet, and their maximum.
  std::atomic<uint64_t> chunks_waiting_{0};
  std::atomic<uint64_t> max_chunks_{0};
  BoundedChannel<LooseSpan, 1 << 15> channel_;

  // Held while the session ends. Taken before the others.
  Mutex stop_mutex_;

  // Held during a drain.
  Mutex drain_mutex_;
  std::shared_ptr<trace::Sink> sink_ VARVE_GUARDED_BY(drain_mutex_);
  std::vector<SpanChunk*> full_ VARVE_GUARDED_BY(drain_mutex_);
  std::vector<LooseSpan> unfinished_ VARVE_GUARDED_BY(drain_mutex_);
  std::vector<trace::Record> records_ VARVE_GUARDED_BY(drain_mutex_);
  uint64_t epoch_offset_ns_ VARVE_GUARDED_BY(drain_mutex_) = 0;
  uint32_t export_interval_ms_ VARVE_GUARDED_BY(drain_mutex_) = 0;
  ClockAnchor session_anchor_ VARVE_GUARDED_BY(drain_mutex_);
  ClockKind session_kind_ VARVE_GUARDED_BY(drain_mutex_) = ClockKind::kSteady;
  pthread_t thread_ = {};  // While there is a sink.

  // Held only briefly.
  Mutex mutex_;
  TraceSettings settings_ VARVE_GUARDED_BY(mutex_);
  TraceCollectMode collect_mode_ VARVE_GUARDED_BY(mutex_) = {};
  uint32_t last_epoch_ VARVE_GUARDED_BY(mutex_) = 0;
  uint32_t queues_taken_ VARVE_GUARDED_BY(mutex_) = 0;
  // Of threads that have ended, the oldest first.
  std::deque<EndedThread> ended_threads_ VARVE_GUARDED_BY(mutex_);
  SpanQueue* free_queues_ VARVE_GUARDED_BY(mutex_) = nullptr;
  SpanChunk* free_chunks_ VARVE_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ VARVE_GUARDED_BY(mutex_) = false;
  CondVar wake_;

  // For trace_collect=mutex.
  Mutex loose_mutex_;
  std::vector<LooseSpan> loose_ VARVE_GUARDED_BY(loose_mutex_);
};

}  // namespace varve
