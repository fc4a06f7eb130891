// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/log_cursor.h"

#include <utility>

namespace varve {

wal::ReadOutcome LogCursor::Read(Slice* record) {
  const wal::ReadOutcome outcome = reader_->ReadRecord(record);
  if (outcome == wal::ReadOutcome::kRecord) {
    previous_end_ = std::exchange(end_, reader_->RecordEnd());
  }
  return outcome;
}

void LogCursor::StepBack() {
  end_ = previous_end_;
  Restart();
}

}  // namespace varve
