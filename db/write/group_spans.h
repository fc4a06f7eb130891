// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>

#include "db/write/write_queue.h"
#include "monitoring/span.h"

namespace varve {

// The spans of what a leader does for all of its group, which are put into the
// traces of all followers: these wait meanwhile, so that their queues are the
// leader's to write to (db/write/write_queue.h: T2 and T4, or T7, order that).
class GroupSpans {
 public:
  // From here on. For the leader.
  explicit GroupSpans(const WriteQueue::Group& group) : group_(group) {
    if (group.first->waited || group.count > 1) [[unlikely]]
      Begin();
  }
  GroupSpans(const GroupSpans&) = delete;
  GroupSpans& operator=(const GroupSpans&) = delete;

  // To here. Before the followers do anything.
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
