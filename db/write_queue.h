// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <deque>
#include <vector>

#include "util/mutex.h"
#include "varve/options.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

// Group commit: writers queue up; the one at the front leads, and writes for
// itself and for those behind it that want the same.
// Thread-safety: guarded by the DB mutex.
class WriteQueue {
 public:
  struct Writer {
    // Null to have the front of the queue to oneself, for work that must not
    // meet a write.
    WriteBatch* batch = nullptr;
    WriteOptions options;
    // Outputs.
    bool done = false;
    Status status;
    CondVar wake;
  };

  // Waits for the front of the queue. False: a leader has done the writer's
  // work, and its status is set. True: the writer leads until Leave.
  bool Join(Writer* writer, Mutex* mutex);

  // The writers whose batches go together with the leader's, itself first.
  std::vector<Writer*> Group(Writer* leader) const;

  // Gives the outcome to a group's members, wakes them and the next leader.
  void Leave(const std::vector<Writer*>& group, const Status& status);

 private:
  std::deque<Writer*> writers_;
};

}  // namespace varve
