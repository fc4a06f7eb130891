// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A record of the log about a change that took sequence numbers and is in no
// log: tables from outside were added, or tables were removed. It comes after
// the change, and before the next update. Its batch has no updates, and RocksDB
// skips it. Without it, a stream of updates could not tell the change from lost
// updates.

#include <cstdint>
#include <optional>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"
#include "varve/transaction_log.h"
#include "varve/write_batch.h"

namespace varve {

struct OutsideChange {
  TransactionLogGap::Kind kind = TransactionLogGap::Kind::kIngested;
  SequenceNumber first = 0;  // Its sequence numbers.
  SequenceNumber last = 0;
  std::vector<TransactionLogGap::File> files;

  // Sets *batch to the record's batch.
  void EncodeTo(WriteBatch* batch) const;
  // Decodes the log data of a batch. Returns nullopt if it is something else.
  static std::optional<OutsideChange> Decode(const Slice& log_data);
};

}  // namespace varve
