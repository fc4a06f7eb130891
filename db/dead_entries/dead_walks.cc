// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_walks.h"

namespace varve {

void DeadWalks::Note(const WalkedRange& walk, bool reports) {
  if (!always_ && walk.dead < (walk.stepped ? kAdded : kRemembered)) return;
  WriteQueue::Writer leader;
  if (write_queue_.TryLead(&leader)) {
    ranges_.Learn(walk, last_sequence_());
    write_queue_.Leave(WriteQueue::Group(&leader), Status::OK());
  }
  if (!reports || (!always_ && walk.dead < kReported)) return;
  RecordTick(stats_, Ticker::kDeadWalks);
  reports_.Add(walk);
  wake_();
}

}  // namespace varve
