// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>

#include "db/write/write_queue.h"
#include "monitoring/span.h"

namespace varve {

// Records the spans of a leader's work for its group, and adds them to the
// traces of all followers. The followers wait, so the leader may write to their
// span queues. T2 and T4, or T7, in db/write/write_queue.h order these writes.
class GroupSpans {
 public:
  // Starts recording. Called by the leader.
  explicit GroupSpans(const WriteQueue::Group& group) : group_(group) {
    if (group.first->waited || group.count > 1) [[unlikely]]
      Begin();
  }
  GroupSpans(const GroupSpans&) = delete;
  GroupSpans& operator=(const GroupSpans&) = delete;

  // Stops recording, and adds the spans to the followers' traces. Must be
  // called before the followers resume.
  void Mount() {
    if (local_) [[unlikely]]
      MountAll();
  }

 private:
  void Begin();
  void MountAll();

  const WriteQueue::Group group_;
  std::optional<LocalTrace> local_;
};

}  // namespace varve
