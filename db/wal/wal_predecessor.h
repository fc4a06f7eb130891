// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A note at the beginning of a log about the log before it.
//
// Logs that were not synced may lose their ends in a power cut, each by
// itself. If the end that is lost falls between two records, the log looks
// whole, and replaying the next one would leave a hole. So a log that follows
// another begins with a batch without updates, whose log data say how long
// the other one was when it was left. RocksDB skips it.

#include <cstdint>
#include <optional>

#include "db/write/write_batch_internal.h"
#include "varve/slice.h"
#include "varve/write_batch.h"

namespace varve {

struct WalPredecessor {
  uint64_t number = 0;
  uint64_t size = 0;

  // Makes *batch the note.
  void EncodeTo(WriteBatch* batch) const;
  // The note, if the record is one.
  static std::optional<WalPredecessor> Decode(const Slice& record);
};

}  // namespace varve
