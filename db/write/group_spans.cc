// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/group_spans.h"

namespace varve {

namespace {

// More spans than a leader has steps.
constexpr uint32_t kMaxSpans = 100;

}  // namespace

void GroupSpans::Begin() {
  SpanQueue* const own = group_.first->spans;
  if (own != nullptr) own->End(own->BeginShared("queue"));
  const SpanQueue* traced = nullptr;
  group_.ForEach([&](const WriteQueue::Writer* writer) {
    if (writer != group_.first && writer->spans != nullptr) {
      traced = writer->spans;
    }
  });
  if (traced == nullptr) return;
  local_.emplace(traced->kind(), trace::Detail::kWork, kMaxSpans, true);
}

void GroupSpans::MountAll() {
  local_->EndAll();
  const uint32_t count = local_->count();
  group_.ForEach([&](const WriteQueue::Writer* writer) {
    if (writer == group_.first || writer->spans == nullptr || count == 0) {
      return;
    }
    writer->spans->Mount(writer->span, "queue", local_->records(),
                         local_->first(), count, local_->queue()->thread_id());
  });
  local_.reset();
}

}  // namespace varve
