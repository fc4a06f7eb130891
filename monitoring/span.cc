// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/span.h"

#include <algorithm>

#include "monitoring/trace_collector.h"

namespace varve {

constinit thread_local SpanQueue* active_spans = nullptr;
constinit std::atomic<uint32_t> trace_epoch{0};

bool SpanQueue::MakeSpace() {
  if (count_ >= max_spans_) {
    TraceCollector::CountDrop(SpanDrop::kTraceFull, 1);
    return false;
  }
  TraceCollector::Get().TakeChunk(this);
  return true;
}

void SpanQueue::EndAll(uint32_t first) {
  while (parent_ != kNoSpan && parent_ >= first) End(parent_);
}

uint32_t SpanQueue::BeginFor(const char* name) {
  const uint32_t index = BeginShared(name);
  if (this == active_spans || index == kNoSpan) return index;
  records_[index].begin = Now();
  records_[index].done_by = TraceCollector::Get().OwnQueue()->thread_id_;
  return index;
}

void SpanQueue::Mount(uint32_t parent, const char* wait,
                      const SpanRecord* spans, uint32_t first, uint32_t count,
                      uint32_t done_by) {
  if (parent == kNoSpan) return;
  const uint64_t earliest = records_[parent].begin;
  const uint32_t open = parent_;
  parent_ = parent;
  EndAt(BeginAt(wait, earliest), std::max(spans[0].begin, earliest));
  const uint32_t base = count_;
  for (uint32_t i = 0; i < count; ++i) {
    const SpanRecord& span = spans[i];
    const bool nested = span.parent != kNoSpan && span.parent >= first;
    parent_ = nested ? base + (span.parent - first) : parent;
    // Clocks of two cores may disagree by some nanoseconds.
    const uint32_t index = BeginAt(span.name, std::max(span.begin, earliest));
    if (index == kNoSpan) break;
    records_[index].end = std::max(span.end, records_[index].begin);
    records_[index].done_by = span.done_by != 0 ? span.done_by : done_by;
    last_ = std::max(last_, records_[index].end);
  }
  parent_ = open;
}

void RequestSpan::BeginRequest(const char* name) {
  queue_ = active_spans;
  if (queue_ != nullptr) {
    index_ = queue_->Begin(name);
    return;
  }
  TraceCollector& collector = TraceCollector::Get();
  SpanQueue* const queue = collector.OwnQueue();
  if (!collector.BeginTrace(queue)) return;
  queue_ = queue;
  is_root_ = true;
  active_spans = queue;
  index_ = queue->Begin(name);
}

void RequestSpan::EndRequest() {
  queue_->End(index_);
  if (is_root_) TraceCollector::Get().FinishTrace(queue_);
}

LocalTrace::LocalTrace(ClockKind kind, trace::Detail detail, uint32_t max_spans,
                       bool keep)
    : queue_(TraceCollector::Get().OwnQueue()),
      is_outermost_(active_spans == nullptr),
      keep_(keep && !is_outermost_),
      first_(is_outermost_ ? 0 : queue_->count_),
      parent_(queue_->parent_),
      kind_(queue_->kind_),
      detail_(queue_->detail_),
      max_spans_(queue_->max_spans_) {
  if (!keep_) queue_->parent_ = kNoSpan;
  if (!is_outermost_) return;
  queue_->kind_ = kind;
  queue_->detail_ = detail;
  queue_->last_ = ReadClock(kind);
  queue_->max_spans_ = std::min(max_spans, SpanChunk::kRecords);
  if (queue_->space_ == 0) TraceCollector::Get().TakeChunk(queue_);
  queue_->limit_ = std::min(queue_->space_, queue_->max_spans_);
  active_spans = queue_;
}

LocalTrace::~LocalTrace() {
  EndAll();
  if (!keep_) {
    queue_->count_ = first_;
    queue_->parent_ = is_outermost_ ? kNoSpan : parent_;
  }
  if (!is_outermost_) return;
  queue_->kind_ = kind_;
  queue_->detail_ = detail_;
  queue_->max_spans_ = max_spans_;
  // A chunk that was taken since has this clock.
  // relaxed: this thread stores it.
  const SpanChunk* const chunk = queue_->chunk_.load(std::memory_order_relaxed);
  if (chunk != nullptr && chunk->kind != kind_) queue_->space_ = 0;
  active_spans = nullptr;
}

}  // namespace varve
