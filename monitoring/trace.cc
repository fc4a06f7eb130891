// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The public interface of tracing, and spans that cross threads.
//
// The ended spans of one request's trace form a Treiber stack. A node is a span
// that crossed threads, or a batch of local spans. Any thread pushes
// (compare-and-swap, release). Collect takes the whole list (exchange, acquire)
// and leaves a mark that refuses later pushes. The list is only taken as a
// whole, so a node that comes back (ABA) does no harm.

#include "varve/trace.h"

#include <algorithm>
#include <atomic>

#include "monitoring/span.h"
#include "monitoring/trace_collector.h"
#include "util/base/process_wide.h"

namespace varve::trace {

namespace internal {

struct Batch {
  ClockKind kind = ClockKind::kSteady;
  uint32_t thread = 0;
  std::vector<SpanRecord> spans;  // Parents are indexes here, or kNoSpan.
};

struct Node {
  Node* next = nullptr;
  uint32_t parent = 0;
  // A span, or with `batch` the spans below the parent.
  uint32_t id = 0;
  uint32_t thread = 0;
  SpanRecord span = {};
  std::shared_ptr<const Batch> batch;
};

struct Trace {
  TraceOptions options;
  ClockKind kind = ClockKind::kSteady;
  ClockAnchor anchor;
  uint64_t epoch_offset_ns = 0;
  uint64_t id = 0;
  std::atomic<uint32_t> last_span_id{0};
  std::atomic<uint32_t> span_count{0};
  std::atomic<Node*> nodes{nullptr};

  Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace() { Free(Take()); }

  // The mark of a list that was collected.
  static Node* Closed() {
    static constinit ProcessWide<Node> closed;
    return &closed.Get();
  }
  // Reserves space for `spans` spans in the trace's bound. Returns the number
  // that fits. The others are dropped.
  uint32_t Reserve(uint32_t spans) {
    // relaxed: a bound.
    uint32_t count = span_count.load(std::memory_order_relaxed);
    uint32_t space;
    do {
      space = std::min(spans, std::max(options.max_spans, count) - count);
      // relaxed, both: as above.
    } while (!span_count.compare_exchange_weak(count, count + space,
                                               std::memory_order_relaxed,
                                               std::memory_order_relaxed));
    if (space < spans) {
      TraceCollector::CountDrop(SpanDrop::kTraceFull, spans - space);
    }
    return space;
  }
  // Adds the part of a batch that fits.
  void Add(std::shared_ptr<const Batch> batch, uint32_t parent) {
    const auto count = static_cast<uint32_t>(batch->spans.size());
    const uint32_t space = Reserve(count);
    if (space == 0) return;
    if (space < count) {
      // Parents come before their children.
      auto part = std::make_shared<Batch>(*batch);
      part->spans.resize(space);
      batch = std::move(part);
    }
    auto node = std::make_unique<Node>();
    node->batch = std::move(batch);
    node->parent = parent;
    Push(std::move(node), space);
  }
  void Push(std::unique_ptr<Node> node, uint32_t spans) {
    // relaxed: the value is only compared, and linked.
    node->next = nodes.load(std::memory_order_relaxed);
    do {
      if (node->next == Closed()) {
        TraceCollector::CountDrop(SpanDrop::kLate, spans);
        return;
      }
      // release: pairs with the acquire in Take.
    } while (!nodes.compare_exchange_weak(node->next, node.get(),
                                          std::memory_order_release,
                                          std::memory_order_relaxed));
    static_cast<void>(node.release());
  }
  // Closes the list. Returns null if it is empty or was taken.
  Node* Take() {
    // acquire: pairs with the release in Push.
    Node* const taken = nodes.exchange(Closed(), std::memory_order_acquire);
    return taken == Closed() ? nullptr : taken;
  }
  static void Free(Node* node) {
    while (node != nullptr) {
      Node* const next = node->next;
      delete node;
      node = next;
    }
  }
};

// The state of a scope of local spans.
struct LocalState {
  LocalState(ClockKind kind, Detail detail, uint32_t max_spans, bool keep)
      : local(kind, detail, max_spans, keep) {}
  LocalTrace local;
  std::shared_ptr<Trace> trace;  // For LocalParent.
  uint32_t parent = 0;
};

namespace {

// Copies the spans that have ended.
std::shared_ptr<const Batch> MakeBatch(const LocalTrace& local) {
  auto batch = std::make_shared<Batch>();
  batch->kind = local.kind();
  batch->thread = local.queue()->thread_id();
  const uint32_t first = local.first();
  std::vector<uint32_t> places(local.count(), kNoSpan);
  for (uint32_t i = 0; i < local.count(); ++i) {
    SpanRecord span = local.records()[i];
    if (span.end == 0) continue;
    places[i] = static_cast<uint32_t>(batch->spans.size());
    const bool inside = span.parent != kNoSpan && span.parent >= first;
    span.parent = inside ? places[span.parent - first] : kNoSpan;
    batch->spans.push_back(span);
  }
  return batch;
}

// Returns the root first, then the spans by their beginnings. Returns nothing
// if there is no root, or it was too fast.
std::vector<Record> MakeRecords(const Trace& trace, const Node* nodes) {
  std::vector<Record> records;
  const RecordMaker maker(trace.kind, trace.anchor, AnchorClock(trace.kind),
                          trace.epoch_offset_ns);
  // relaxed: a child that is not visible here has not ended.
  uint32_t last_id = trace.last_span_id.load(std::memory_order_relaxed);
  bool has_root = false;
  bool wanted = false;
  std::vector<bool> ended(last_id + 1, false);
  for (const Node* node = nodes; node != nullptr; node = node->next) {
    if (node->batch == nullptr) {
      records.push_back(maker.Make(node->span, trace.id, node->id, node->parent,
                                   node->thread));
      const Record& record = records.back();
      ended[node->id] = true;
      if (node->id == 1) {
        has_root = true;
        wanted = (record.end_ns - record.begin_ns) / 1000 >=
                 trace.options.slower_than_us;
      }
      continue;
    }
    const Batch& batch = *node->batch;
    if (batch.kind != trace.kind) {
      TraceCollector::CountDrop(SpanDrop::kClockChanged, batch.spans.size());
      continue;
    }
    const uint32_t base = last_id + 1;
    for (const SpanRecord& span : batch.spans) {
      const uint32_t parent =
          span.parent == kNoSpan ? node->parent : base + span.parent;
      records.push_back(
          maker.Make(span, trace.id, ++last_id, parent, batch.thread));
    }
  }
  if (has_root && !wanted) TraceCollector::CountDiscarded();
  if (!wanted) return {};
  // Spans below a span that has not ended go below the root.
  for (Record& record : records) {
    if (record.parent_id < ended.size() && record.parent_id != 0 &&
        !ended[record.parent_id]) {
      record.parent_id = 1;
    }
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) {
                     const bool a_is_root = a.span_id == 1;
                     if (a_is_root != (b.span_id == 1)) return a_is_root;
                     return a.begin_ns < b.begin_ns;
                   });
  return records;
}

}  // namespace

}  // namespace internal

using internal::Batch;
using internal::LocalState;
using internal::Node;

// ---- The session ------------------------------------------------------------

Status Start(const TraceOptions& options) {
  return TraceCollector::Get().Start(options);
}
Status Flush() { return TraceCollector::Get().Flush(); }
Status Stop() { return TraceCollector::Get().Stop(); }
Counts GetCounts() { return TraceCollector::Get().GetCounts(); }
std::string ClockName() { return CurrentClockName(); }
std::string ThreadName(uint32_t thread) {
  return TraceCollector::Get().ThreadName(thread);
}
Status MeasureClockOffsets() { return varve::MeasureClockOffsets(); }

// ---- Local spans ------------------------------------------------------------

LocalSpan::LocalSpan(const char* name) : queue_(active_spans) {
  if (queue_ != nullptr) index_ = static_cast<SpanQueue*>(queue_)->Begin(name);
}

LocalSpan::~LocalSpan() {
  if (queue_ != nullptr) static_cast<SpanQueue*>(queue_)->End(index_);
}

size_t LocalSpans::size() const {
  return batch_ == nullptr ? 0 : batch_->spans.size();
}

LocalCollector::LocalCollector()
    : state_(std::make_unique<LocalState>(CurrentClock(), Detail::kSteps,
                                          SpanChunk::kRecords, true)) {}

LocalCollector::~LocalCollector() = default;

LocalSpans LocalCollector::Collect() {
  LocalSpans spans;
  spans.batch_ = internal::MakeBatch(state_->local);
  return spans;
}

LocalParent::LocalParent(std::unique_ptr<LocalState> state)
    : state_(std::move(state)) {}

LocalParent::~LocalParent() {
  if (state_ == nullptr) return;
  LocalTrace& local = state_->local;
  local.EndAll();
  if (local.count() == 0) return;
  state_->trace->Add(internal::MakeBatch(local), state_->parent);
}

// ---- Spans that cross threads -----------------------------------------------

std::pair<Span, Collector> Root(const char* name, const TraceOptions& options) {
  std::pair<Span, Collector> result;
  if (!TraceCollector::Get().OwnQueue()->Chance(SamplingOf(options.sampling))) {
    return result;
  }
  auto trace = std::make_shared<internal::Trace>();
  trace->options = options;
  trace->kind = CurrentClock();
  trace->anchor = AnchorClock(trace->kind);
  trace->epoch_offset_ns = EpochOffsetNs();
  trace->id = NewTraceId();
  // relaxed: no other thread knows it.
  trace->last_span_id.store(1, std::memory_order_relaxed);
  trace->span_count.store(1, std::memory_order_relaxed);
  result.second.trace_ = trace;
  Span& span = result.first;
  span.begin_ = trace->anchor.ticks;
  span.trace_ = std::move(trace);
  span.name_ = name;
  span.id_ = 1;
  return result;
}

Span& Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  End();
  trace_ = std::move(other.trace_);
  other.trace_ = nullptr;
  name_ = other.name_;
  begin_ = other.begin_;
  id_ = other.id_;
  parent_ = other.parent_;
  return *this;
}

Span Span::Child(const char* name) const {
  Span child;
  if (trace_ == nullptr || trace_->Reserve(1) == 0) return child;
  child.trace_ = trace_;
  child.name_ = name;
  child.parent_ = id_;
  // relaxed: only the uniqueness of the value counts.
  child.id_ = trace_->last_span_id.fetch_add(1, std::memory_order_relaxed) + 1;
  child.begin_ = ReadClock(trace_->kind);
  return child;
}

LocalParent Span::SetLocalParent() const {
  if (trace_ == nullptr) return LocalParent(nullptr);
  const uint32_t most =
      std::min(trace_->options.max_spans, SpanChunk::kRecords);
  auto state = std::make_unique<LocalState>(
      trace_->kind, trace_->options.detail, most, false);
  state->trace = trace_;
  state->parent = id_;
  return LocalParent(std::move(state));
}

void Span::Mount(const LocalSpans& spans) const {
  if (trace_ != nullptr && spans.size() != 0) trace_->Add(spans.batch_, id_);
}

void Span::End() {
  if (trace_ == nullptr) return;
  auto node = std::make_unique<Node>();
  node->parent = parent_;
  node->id = id_;
  node->thread = TraceCollector::Get().OwnQueue()->thread_id();
  node->span = {name_, begin_, ReadClock(trace_->kind), kNoSpan, 0};
  trace_->Push(std::move(node), 1);
  trace_ = nullptr;
}

Collector::~Collector() {
  if (trace_ != nullptr && trace_->options.sink != nullptr) Collect();
}

Collector& Collector::operator=(Collector&& other) noexcept {
  if (this == &other) return *this;
  if (trace_ != nullptr && trace_->options.sink != nullptr) Collect();
  trace_ = std::move(other.trace_);
  return *this;
}

std::vector<Record> Collector::Collect() {
  std::vector<Record> records;
  if (trace_ == nullptr) return records;
  const std::shared_ptr<internal::Trace> trace = std::move(trace_);
  trace_ = nullptr;
  Node* const nodes = trace->Take();
  records = internal::MakeRecords(*trace, nodes);
  internal::Trace::Free(nodes);
  if (records.empty()) return records;
  TraceCollector::CountCollected(records.size(), 1);
  if (trace->options.sink != nullptr) {
    internal::SinkCalls::Add(trace->options.sink.get(), records);
  }
  return records;
}

}  // namespace varve::trace
