// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A record at the beginning of a log about the log before it.
//
// Unsynced logs may each lose their end in a power loss. If the lost part ends
// between two records, the log looks complete, and a replay of the next log
// would leave a hole. So a log that follows another one begins with a batch
// without updates. Its log data has the size of the previous log at the time of
// the switch, and the log's own number, which tells a log from a copy of
// another one. RocksDB skips it.

#include <cstdint>
#include <optional>

#include "db/write/write_batch_internal.h"
#include "varve/slice.h"
#include "varve/write_batch.h"

namespace varve {

// The number and size of the previous log, and the number of this one.
struct WalPredecessor {
  uint64_t number = 0;
  uint64_t size = 0;
  uint64_t log = 0;  // 0: unknown. The first versions did not write it.

  // Sets *batch to the record's batch.
  void EncodeTo(WriteBatch* batch) const;
  // Decodes the record. Returns nullopt if it is another record.
  static std::optional<WalPredecessor> Decode(const Slice& record);
};

}  // namespace varve
