// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace varve {

// Events that the engine counts.
enum class Ticker : uint32_t {
  kBlockCacheHit,      // varve.block.cache.hit
  kBlockCacheMiss,     // varve.block.cache.miss
  kBlockCacheAdd,      // varve.block.cache.add
  kBloomFilterUseful,  // varve.bloom.filter.useful: reads spared
  kMemtableHit,        // varve.memtable.hit
  kMemtableMiss,       // varve.memtable.miss
  kNumberKeysWritten,  // varve.number.keys.written
  kNumberKeysRead,     // varve.number.keys.read
  kNumberKeysFound,    // varve.number.keys.found
  kBytesWritten,       // varve.bytes.written: by users
  kBytesRead,          // varve.bytes.read: by Get and MultiGet
  kNumberDbSeek,       // varve.number.db.seek
  kNumberDbNext,       // varve.number.db.next
  kNumberDbPrev,       // varve.number.db.prev
  kWalFileSynced,      // varve.wal.synced
  kWalFileBytes,       // varve.wal.bytes
  kWriteDoneBySelf,    // varve.write.self: as leader of a group
  kWriteDoneByOther,   // varve.write.other: by another's leader
  kStallMicros,        // varve.stall.micros: that writers waited
  // Writes that were slowed down, and that were stopped, for what reason.
  kStallLevel0Delays,    // varve.l0.file.count.limit.delays
  kStallLevel0Stops,     // varve.l0.file.count.limit.stops
  kStallPendingDelays,   // varve.pending.compaction.bytes.delays
  kStallPendingStops,    // varve.pending.compaction.bytes.stops
  kStallMemTableDelays,  // varve.memtable.limit.delays
  kStallMemTableStops,   // varve.memtable.limit.stops
  kFlushWriteBytes,      // varve.flush.write.bytes
  kCompactReadBytes,     // varve.compact.read.bytes
  kCompactWriteBytes,    // varve.compact.write.bytes
  kNoFileOpens,          // varve.no.file.opens: table files opened
  kNoFileErrors,         // varve.no.file.errors
  kCount,
};

// Counts of events since it was made or reset.
// Thread-safety: thread-safe.
class Statistics {
 public:
  virtual ~Statistics() = default;
  virtual void recordTick(Ticker ticker, uint64_t count) = 0;
  virtual uint64_t getTickerCount(Ticker ticker) const = 0;
  // Sets all counts to zero. Concurrent ticks may be lost.
  virtual void Reset() = 0;
  // A line "name COUNT : number" a ticker.
  virtual std::string ToString() const = 0;
};

std::shared_ptr<Statistics> CreateDBStatistics();

}  // namespace varve
