// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write_queue.h"

namespace varve {

namespace {

// A group grows up to so many bytes; behind a small batch not that far, so
// that it does not wait long.
constexpr size_t kMaxGroupBytes = 1 << 20;
constexpr size_t kSmallBatchBytes = 128 << 10;

}  // namespace

bool WriteQueue::Join(Writer* writer, Mutex* mutex) {
  writers_.push_back(writer);
  while (!writer->done && writers_.front() != writer) {
    writer->wake.Wait(mutex);
  }
  return !writer->done;
}

std::vector<WriteQueue::Writer*> WriteQueue::Group(Writer* leader) const {
  std::vector<Writer*> group{leader};
  if (leader->batch == nullptr) return group;
  size_t bytes = leader->batch->ApproximateSize();
  const size_t limit =
      bytes <= kSmallBatchBytes ? bytes + kSmallBatchBytes : kMaxGroupBytes;
  for (size_t i = 1; i < writers_.size(); ++i) {
    Writer* const writer = writers_[i];
    if (writer->batch == nullptr ||
        (writer->options.sync && !leader->options.sync) ||
        writer->options.disable_wal != leader->options.disable_wal ||
        (writer->options.no_slowdown && !leader->options.no_slowdown)) {
      break;
    }
    bytes += writer->batch->ApproximateSize();
    if (bytes > limit) break;
    group.push_back(writer);
  }
  return group;
}

void WriteQueue::Leave(const std::vector<Writer*>& group,
                       const Status& status) {
  for (Writer* writer : group) {
    writers_.pop_front();
    writer->status = status;
    writer->done = true;
    if (writer != group.front()) writer->wake.Signal();
  }
  if (!writers_.empty()) writers_.front()->wake.Signal();
}

}  // namespace varve
