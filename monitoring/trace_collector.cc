// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/trace_collector.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "util/base/process_wide.h"
#include "util/threads/background_thread.h"
#include "util/threads/thread_exit.h"

namespace varve {

namespace {

// A trace begins only if there is space for this many spans. Most need less. A
// longer trace moves to another chunk.
constexpr uint32_t kMinSpace = 32;
// Traces go to the sink in portions of about this many spans.
constexpr size_t kPortion = 4096;
// The interval at which the collector looks for work.
constexpr uint64_t kLookUs = 100 * 1000;
// A channel of single spans fills up soon.
constexpr uint64_t kLookForLooseUs = 2 * 1000;
// Ended threads whose names are kept.
constexpr size_t kEndedThreads = 4096;
constexpr uint32_t kMaxSpans = 2000;
static_assert(kMaxSpans + kMinSpace <= SpanChunk::kRecords);

struct Totals {
  std::atomic<uint64_t> spans{0};
  std::atomic<uint64_t> traces{0};
  std::atomic<uint64_t> discarded{0};  // Without the queues' own counts.
  std::atomic<uint64_t> dropped[4] = {};
};
constinit Totals totals;

constinit thread_local SpanQueue* own_queue = nullptr;

void Add(std::atomic<uint64_t>* count, uint64_t n) {
  // relaxed: a count orders nothing.
  count->fetch_add(n, std::memory_order_relaxed);
}
uint64_t Read(const std::atomic<uint64_t>& count) {
  // relaxed: as above.
  return count.load(std::memory_order_relaxed);
}
// For counts that only the calling thread changes.
void AddOwn(std::atomic<uint64_t>* count) {
  // relaxed: as above.
  count->store(count->load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
}

uint64_t NowMs() { return ReadSlowClock(ClockKind::kCoarse) / 1'000'000; }

void HandBackOwnQueue(void* queue) {
  TraceCollector::Get().HandBack(static_cast<SpanQueue*>(queue));
}

}  // namespace

Status CheckTraceOptions(const trace::TraceOptions& options) {
  const auto bad = [](const char* what) {
    return Status::InvalidArgument("trace options", what);
  };
  if (!(options.sampling >= 0 && options.sampling <= 1)) {
    return bad("sampling must be in [0, 1]");
  }
  if (options.max_spans < 1 || options.max_spans > kMaxSpans) {
    return bad("max_spans must be in [1, 2000]");
  }
  if (options.buffer_bytes < size_t{1} << 20 ||
      options.buffer_bytes > size_t{64} << 30) {
    return bad("buffer_bytes must be in [1 MiB, 64 GiB]");
  }
  return Status::OK();
}

trace::Record RecordMaker::Make(const SpanRecord& span, uint64_t trace_id,
                                uint32_t span_id, uint32_t parent_id,
                                uint32_t thread) const {
  trace::Record record;
  record.trace_id = trace_id;
  record.span_id = span_id;
  record.parent_id = parent_id;
  record.name = span.name;
  record.begin_ns = ToNs(span.begin);
  record.end_ns = ToNs(std::max(span.begin, span.end));
  record.thread = thread;
  record.done_by = span.done_by != 0 ? span.done_by : thread;
  return record;
}

uint64_t NewTraceId() {
  static constinit std::atomic<uint64_t> last{0};
  // relaxed: only the uniqueness of the value counts.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

TraceCollector& TraceCollector::Get() {
  static constinit ProcessWide<TraceCollector> collector;
  return collector.Get();
}

void TraceCollector::CountDrop(SpanDrop reason, uint64_t spans) {
  Add(&totals.dropped[static_cast<int>(reason)], spans);
}

void TraceCollector::CountDiscarded() { Add(&totals.discarded, 1); }

void TraceCollector::CountCollected(uint64_t spans, uint64_t traces) {
  Add(&totals.spans, spans);
  Add(&totals.traces, traces);
}

// ---- For the thread of a queue ----------------------------------------------

SpanQueue* TraceCollector::OwnQueue() {
  if (own_queue != nullptr) [[likely]]
    return own_queue;
  SpanQueue* queue;
  {
    MutexLock lock(&mutex_);
    queue = free_queues_;
    if (queue != nullptr) {
      free_queues_ = queue->next_free_;
    } else {
      queue = new SpanQueue;
      // relaxed: the thread that adds holds the mutex.
      queue->next_queue_ = queues_.load(std::memory_order_relaxed);
      // release: pairs with the acquire of the threads that walk the list.
      queues_.store(queue, std::memory_order_release);
    }
    queue->random_ = 2654435761u * ++queues_taken_ | 1;
    Identify(queue);
  }
  own_queue = queue;
  CallAtThreadExit(&HandBackOwnQueue, queue);
  return queue;
}

void TraceCollector::HandBack(SpanQueue* queue) {
  if (active_spans == queue) {
    CountDrop(SpanDrop::kLate, queue->count_);
    active_spans = nullptr;
  }
  // relaxed, both: this thread stores them.
  SpanChunk* const chunk = queue->chunk_.load(std::memory_order_relaxed);
  if (chunk != nullptr &&
      chunk->committed.load(std::memory_order_relaxed) == 0) {
    // relaxed: the collector may see the chunk for a while (B4).
    queue->chunk_.store(nullptr, std::memory_order_relaxed);
    FreeChunk(chunk);
  }
  HandOver(queue);
  queue->count_ = 0;
  queue->space_ = 0;
  own_queue = nullptr;
  MutexLock lock(&mutex_);
  EndedThread& ended = ended_threads_.emplace_back();
  ended.id = queue->thread_id_;
  memcpy(ended.name, queue->thread_name_, sizeof(ended.name));
  if (ended_threads_.size() > kEndedThreads) ended_threads_.pop_front();
  queue->thread_id_ = 0;
  queue->next_free_ = free_queues_;
  free_queues_ = queue;
}

void TraceCollector::Identify(SpanQueue* queue) {
  queue->thread_id_ = static_cast<uint32_t>(gettid());
  // Like pthread_getname_np, which opens no file for the calling thread.
  if (prctl(PR_GET_NAME, queue->thread_name_) != 0) {
    queue->thread_name_[0] = '\0';  // A sandbox may refuse it.
  }
}

std::string TraceCollector::ThreadName(uint32_t thread_id) {
  if (thread_id == 0) return "";
  MutexLock lock(&mutex_);
  // acquire: pairs with the release in OwnQueue.
  const SpanQueue* queue = queues_.load(std::memory_order_acquire);
  for (; queue != nullptr; queue = queue->next_queue_) {
    if (queue->thread_id_ == thread_id) return queue->thread_name_;
  }
  // The last one with this id.
  for (auto it = ended_threads_.rbegin(); it != ended_threads_.rend(); ++it) {
    if (it->id == thread_id) return it->name;
  }
  return "";
}

void TraceCollector::Adopt(SpanQueue* queue) {
  TraceSettings settings;
  {
    MutexLock lock(&mutex_);
    settings = settings_;
    // Again: the thread may have been renamed since, and fork gives the child's
    // copy of it another id.
    Identify(queue);
  }
  queue->epoch_ = settings.epoch;
  queue->sampling_ = settings.sampling;
  queue->max_spans_ = settings.max_spans;
  queue->keep_ticks_ = settings.keep_ticks;
  queue->detail_ = settings.detail;
  queue->kind_ = settings.kind;
  queue->collect_ = settings.collect;
  queue->space_ = 0;  // The chunk is from another session.
}

bool TraceCollector::BeginTrace(SpanQueue* queue) {
  // acquire: pairs with the release in Start, before which settings_ was set.
  const uint32_t epoch = trace_epoch.load(std::memory_order_acquire);
  if (queue->epoch_ != epoch) [[unlikely]]
    Adopt(queue);
  if (queue->epoch_ == 0) return false;
  if (!queue->Chance(queue->sampling_)) return false;
  if (queue->space_ < kMinSpace && !RotateChunk(queue)) [[unlikely]] {
    CountDrop(SpanDrop::kBufferFull, 1);
    return false;
  }
  queue->parent_ = kNoSpan;
  queue->last_ = 0;
  queue->limit_ = std::min(queue->space_, queue->max_spans_);
  return true;
}

void TraceCollector::FinishTrace(SpanQueue* queue) {
  active_spans = nullptr;
  const SpanRecord& root = queue->records_[0];
  AddOwn(&queue->finished_[static_cast<int>(queue->kind_)]
                          [static_cast<int>(queue->collect_)]);
  if (root.end - root.begin < queue->keep_ticks_) {
    AddOwn(&queue->discarded_);
    queue->count_ = 0;
    return;
  }
  if (queue->collect_ == TraceCollectMode::kThreadLocal) [[likely]] {
    // relaxed: this thread stores it.
    SpanChunk* const chunk = queue->chunk_.load(std::memory_order_relaxed);
    // relaxed: as above. T1, release: pairs with the acquire in Export.
    chunk->committed.store(
        chunk->committed.load(std::memory_order_relaxed) + queue->count_,
        std::memory_order_release);
    queue->records_ += queue->count_;
    queue->space_ -= queue->count_;
  } else {
    SendLoose(queue);
  }
  queue->count_ = 0;
}

void TraceCollector::SendLoose(SpanQueue* queue) {
  LooseSpan span;
  span.trace = NewTraceId();
  span.count = queue->count_;
  span.thread_id = queue->thread_id_;
  span.epoch = queue->epoch_;
  for (span.index = 0; span.index < span.count; ++span.index) {
    span.record = queue->records_[span.index];
    bool sent;
    if (queue->collect_ == TraceCollectMode::kMutex) {
      MutexLock lock(&loose_mutex_);
      sent = loose_.size() < Read(max_chunks_) * SpanChunk::kRecords;
      if (sent) loose_.push_back(span);
    } else {
      sent = channel_.Send(span);
    }
    if (!sent) CountDrop(SpanDrop::kBufferFull, 1);
  }
}

SpanChunk* TraceCollector::NewChunk() {
  {
    MutexLock lock(&mutex_);
    SpanChunk* const chunk = free_chunks_;
    if (chunk != nullptr) {
      free_chunks_ = chunk->next;
      return chunk;
    }
  }
  return new SpanChunk;
}

bool TraceCollector::RotateChunk(SpanQueue* queue) {
  // Its traces now wait for the sink, even if there is no other chunk.
  HandOver(queue);
  queue->space_ = 0;
  if (Read(chunks_waiting_) >= Read(max_chunks_)) return false;
  TakeChunk(queue);
  return true;
}

void TraceCollector::TakeChunk(SpanQueue* queue) {
  SpanChunk* const fresh = NewChunk();
  fresh->thread_id = queue->thread_id_;
  fresh->epoch = queue->epoch_;
  fresh->kind = queue->kind_;
  fresh->anchor = AnchorClock(queue->kind_);
  if (queue->count_ > 0) {
    memcpy(fresh->records, queue->records_, queue->count_ * sizeof(SpanRecord));
  }
  HandOver(queue);
  queue->records_ = fresh->records;
  queue->space_ = SpanChunk::kRecords;
  queue->limit_ = std::min(queue->space_, queue->max_spans_);
  // T3. release: pairs with the acquire in Drain.
  queue->chunk_.store(fresh, std::memory_order_release);
}

void TraceCollector::HandOver(SpanQueue* queue) {
  // relaxed: this thread stores it.
  SpanChunk* const chunk = queue->chunk_.load(std::memory_order_relaxed);
  if (chunk == nullptr) return;
  Add(&chunks_waiting_, 1);  // Before the push: T4 takes it off again.
  // T2. release, both: pair with the acquires in TakeHandedOver and Drain.
  queue->chunk_.store(nullptr, std::memory_order_release);
  // relaxed: the push orders.
  chunk->next = handed_over_.load(std::memory_order_relaxed);
  while (!handed_over_.compare_exchange_weak(chunk->next, chunk,
                                             std::memory_order_release,
                                             std::memory_order_relaxed)) {
  }
}

// ---- The session ------------------------------------------------------------

Status TraceCollector::Start(const trace::TraceOptions& options) {
  if (options.sink == nullptr) {
    return Status::InvalidArgument("trace options", "sink is null");
  }
  Status status = CheckTraceOptions(options);
  if (!status.ok()) return status;
  ChooseClockAnew();
  MutexLock drain_lock(&drain_mutex_);
  if (sink_ != nullptr) return Status::Busy("tracing was started already");
  export_interval_ms_ = options.export_interval_ms;
  epoch_offset_ns_ = EpochOffsetNs();
  session_kind_ = CurrentClock();
  session_anchor_ = AnchorClock(session_kind_);
  const uint64_t keep_ns =
      std::min<uint64_t>(options.slower_than_us, uint64_t{1} << 50) * 1000;
  const TickConverter converter(session_kind_, session_anchor_,
                                session_anchor_);
  TraceSettings settings;
  settings.sampling = SamplingOf(options.sampling);
  settings.max_spans = options.max_spans;
  settings.keep_ticks = converter.TicksOf(keep_ns);
  settings.detail = options.detail;
  settings.kind = session_kind_;
  // relaxed: a bound, not a limit that must be kept exactly.
  max_chunks_.store(
      std::max<size_t>(options.buffer_bytes / sizeof(SpanChunk), 16),
      std::memory_order_relaxed);
  MutexLock lock(&mutex_);
  settings.collect = collect_mode_;
  if (settings.collect == TraceCollectMode::kChannel) channel_.Allocate();
  settings.epoch = ++last_epoch_;
  settings_ = settings;
  stopping_ = false;
  const int error = StartBackgroundThread(&thread_, &ThreadMain, this);
  if (error != 0) {
    settings_ = TraceSettings();
    return Status::FromErrno("starting a thread for traces", error);
  }
  sink_ = options.sink;
  // release: pairs with the acquire in BeginTrace.
  trace_epoch.store(settings.epoch, std::memory_order_release);
  return status;
}

Status TraceCollector::Flush() {
  MutexLock lock(&drain_mutex_);
  if (sink_ == nullptr) return Status::OK();
  Drain(true);
  return trace::internal::SinkCalls::Flush(sink_.get());
}

Status TraceCollector::Stop() {
  // A second Stop finds nothing to stop, but waits until the first has ended.
  MutexLock stop_lock(&stop_mutex_);
  pthread_t thread;
  {
    MutexLock drain_lock(&drain_mutex_);
    if (sink_ == nullptr) return Status::OK();
    MutexLock lock(&mutex_);
    // relaxed: a trace that begins late is dropped.
    trace_epoch.store(0, std::memory_order_relaxed);
    stopping_ = true;
    thread = thread_;
  }
  wake_.SignalAll();
  pthread_join(thread, nullptr);
  MutexLock drain_lock(&drain_mutex_);
  Drain(true);
  Status status = trace::internal::SinkCalls::Flush(sink_.get());
  CountDrop(SpanDrop::kLate, unfinished_.size());
  unfinished_.clear();
  sink_.reset();
  SpanChunk* chunk;
  {
    MutexLock lock(&mutex_);
    chunk = free_chunks_;
    free_chunks_ = nullptr;
    settings_ = TraceSettings();
  }
  while (chunk != nullptr) {
    SpanChunk* const next = chunk->next;
    delete chunk;
    chunk = next;
  }
  return status;
}

trace::Counts TraceCollector::GetCounts() {
  trace::Counts counts;
  counts.spans = Read(totals.spans);
  counts.traces = Read(totals.traces);
  counts.discarded = Read(totals.discarded);
  const auto dropped = [](SpanDrop reason) {
    return Read(totals.dropped[static_cast<int>(reason)]);
  };
  counts.dropped_trace_full = dropped(SpanDrop::kTraceFull);
  counts.dropped_buffer_full = dropped(SpanDrop::kBufferFull);
  counts.dropped_late = dropped(SpanDrop::kLate);
  counts.dropped_clock_changed = dropped(SpanDrop::kClockChanged);
  // acquire: pairs with the release in OwnQueue.
  const SpanQueue* queue = queues_.load(std::memory_order_acquire);
  for (; queue != nullptr; queue = queue->next_queue_) {
    counts.discarded += Read(queue->discarded_);
  }
  return counts;
}

uint64_t TraceCollector::FinishedWith(ClockKind kind) const {
  uint64_t sum = 0;
  // acquire: pairs with the release in OwnQueue.
  const SpanQueue* queue = queues_.load(std::memory_order_acquire);
  for (; queue != nullptr; queue = queue->next_queue_) {
    for (const auto& count : queue->finished_[static_cast<int>(kind)]) {
      sum += Read(count);
    }
  }
  return sum;
}

uint64_t TraceCollector::FinishedWith(TraceCollectMode mode) const {
  uint64_t sum = 0;
  // acquire: pairs with the release in OwnQueue.
  const SpanQueue* queue = queues_.load(std::memory_order_acquire);
  for (; queue != nullptr; queue = queue->next_queue_) {
    for (const auto& by_mode : queue->finished_) {
      sum += Read(by_mode[static_cast<int>(mode)]);
    }
  }
  return sum;
}

void TraceCollector::SetCollectMode(TraceCollectMode mode) {
  MutexLock lock(&mutex_);
  collect_mode_ = mode;
}

void* TraceCollector::ThreadMain(void* collector) {
  (void)pthread_setname_np(pthread_self(), "varve:trace");
  static_cast<TraceCollector*>(collector)->Run();
  return nullptr;
}

void TraceCollector::Run() {
  uint64_t exported_ms = NowMs();
  bool busy = false;  // More may have come into the channel already.
  for (;;) {
    TraceCollectMode collect;
    {
      MutexLock lock(&mutex_);
      collect = settings_.collect;
      if (!stopping_ && !busy) {
        const bool loose = collect != TraceCollectMode::kThreadLocal;
        wake_.WaitFor(&mutex_, loose ? kLookForLooseUs : kLookUs);
      }
      if (stopping_) return;
    }
    MutexLock lock(&drain_mutex_);
    if (export_interval_ms_ != 0 &&
        NowMs() - exported_ms >= export_interval_ms_) {
      Drain(true);
      trace::internal::SinkCalls::Flush(sink_.get())
          .IgnoreError();  // The next Flush reports it too.
      exported_ms = NowMs();
    } else {
      const size_t before = unfinished_.size();
      TakeHandedOver();
      busy =
          collect == TraceCollectMode::kChannel && unfinished_.size() > before;
      const uint64_t used =
          Read(chunks_waiting_) + unfinished_.size() / SpanChunk::kRecords;
      if (used > Read(max_chunks_) / 2) Drain(false);
    }
  }
}

void TraceCollector::TakeHandedOver() {
  // acquire: pairs with the release in HandOver.
  SpanChunk* chunk = handed_over_.exchange(nullptr, std::memory_order_acquire);
  const auto end = static_cast<std::ptrdiff_t>(full_.size());
  for (; chunk != nullptr; chunk = chunk->next) full_.push_back(chunk);
  std::reverse(full_.begin() + end, full_.end());  // Oldest first.
  TakeLoose();
}

void TraceCollector::TakeLoose() {
  {
    MutexLock lock(&loose_mutex_);
    unfinished_.insert(unfinished_.end(), loose_.begin(), loose_.end());
    loose_.clear();
  }
  LooseSpan span;
  while (channel_.Receive(&span)) unfinished_.push_back(span);
}

void TraceCollector::Drain(bool everything) {
  TakeHandedOver();
  uint32_t epoch;
  {
    MutexLock lock(&mutex_);
    epoch = settings_.epoch;
  }
  for (SpanChunk* chunk : full_) {
    Export(chunk, epoch);
    // relaxed: no other thread has it; the mutex publishes it.
    chunk->committed.store(0, std::memory_order_relaxed);
    chunk->consumed = 0;
    FreeChunk(chunk);
    // relaxed: a bound.
    chunks_waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  full_.clear();
  ExportLoose(epoch);
  if (!everything) return;
  // acquire: pairs with the release in OwnQueue.
  SpanQueue* queue = queues_.load(std::memory_order_acquire);
  for (; queue != nullptr; queue = queue->next_queue_) {
    // acquire: pairs with the release in TakeChunk.
    SpanChunk* const chunk = queue->chunk_.load(std::memory_order_acquire);
    if (chunk != nullptr) Export(chunk, epoch);
  }
}

void TraceCollector::Export(SpanChunk* chunk, uint32_t epoch) {
  // acquire: pairs with the release in FinishTrace.
  const uint32_t end = chunk->committed.load(std::memory_order_acquire);
  if (end == 0 || end == chunk->consumed) return;  // B4
  if (chunk->epoch != epoch) {
    CountDrop(SpanDrop::kLate, end - chunk->consumed);
    chunk->consumed = end;
    return;
  }
  const RecordMaker maker(chunk->kind, chunk->anchor, AnchorClock(chunk->kind),
                          epoch_offset_ns_);
  records_.clear();
  uint64_t trace_id = 0;
  uint64_t traces = 0;
  uint32_t root = 0;
  for (uint32_t i = chunk->consumed; i < end; ++i) {
    const SpanRecord& span = chunk->records[i];
    const bool is_root = span.parent == kNoSpan;
    if (is_root) {
      root = i;
      trace_id = NewTraceId();
      ++traces;
    }
    records_.push_back(maker.Make(span, trace_id, i - root + 1,
                                  is_root ? 0 : span.parent + 1,
                                  chunk->thread_id));
  }
  CountCollected(end - chunk->consumed, traces);
  chunk->consumed = end;
  trace::internal::SinkCalls::Add(sink_.get(), records_);
}

void TraceCollector::ExportLoose(uint32_t epoch) {
  // Some of the trace's spans may have been counted when their session ended.
  CountDrop(SpanDrop::kLate,
            std::erase_if(unfinished_, [epoch](const LooseSpan& span) {
              return span.epoch != epoch;
            }));
  if (unfinished_.empty()) return;
  // Sorts the spans by trace. A trace's spans arrive in order, between the
  // spans of other threads.
  std::stable_sort(
      unfinished_.begin(), unfinished_.end(),
      [](const LooseSpan& a, const LooseSpan& b) { return a.trace < b.trace; });
  // A thread sends one trace after the other, so only its last one may still
  // become complete. An earlier one has lost spans to a full buffer.
  std::map<uint32_t, uint64_t> last_traces;
  for (const LooseSpan& span : unfinished_) {
    last_traces[span.thread_id] = span.trace;
  }
  const RecordMaker maker(session_kind_, session_anchor_,
                          AnchorClock(session_kind_), epoch_offset_ns_);
  records_.clear();
  std::vector<LooseSpan> left;
  for (size_t i = 0; i < unfinished_.size();) {
    size_t end = i;
    while (end < unfinished_.size() &&
           unfinished_[end].trace == unfinished_[i].trace) {
      ++end;
    }
    const LooseSpan& first = unfinished_[i];
    if (end - i == first.count) {
      for (size_t j = i; j < end; ++j) {
        const LooseSpan& span = unfinished_[j];
        const bool is_root = span.record.parent == kNoSpan;
        records_.push_back(maker.Make(span.record, span.trace, span.index + 1,
                                      is_root ? 0 : span.record.parent + 1,
                                      span.thread_id));
      }
      CountCollected(end - i, 1);
    } else if (last_traces[first.thread_id] == first.trace) {
      left.insert(left.end(), unfinished_.begin() + static_cast<long>(i),
                  unfinished_.begin() + static_cast<long>(end));
    } else {
      CountDrop(SpanDrop::kBufferFull, end - i);
    }
    i = end;
    if (records_.size() >= kPortion || i == unfinished_.size()) {
      trace::internal::SinkCalls::Add(sink_.get(), records_);
      records_.clear();
    }
  }
  unfinished_.swap(left);
}

void TraceCollector::FreeChunk(SpanChunk* chunk) {
  MutexLock lock(&mutex_);
  chunk->next = free_chunks_;
  free_chunks_ = chunk;
}

}  // namespace varve
