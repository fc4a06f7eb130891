// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The engine's counters and histograms. On by default: each DB has its own
// Statistics unless Options::statistics is set. docs/statistics.md describes
// the implementation and the cost.

#include <cstdint>
#include <memory>
#include <string>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Events that the engine counts. Names are RocksDB's with another prefix where
// the event is the same. Varve's block cache holds data blocks only.
enum class Ticker : uint32_t {
  kBlockCacheHit,              // varve.block.cache.hit
  kBlockCacheMiss,             // varve.block.cache.miss
  kBlockCacheAdd,              // varve.block.cache.add
  kBlockCacheDataHit,          // varve.block.cache.data.hit
  kBlockCacheDataMiss,         // varve.block.cache.data.miss
  kBlockCacheDataAdd,          // varve.block.cache.data.add
  kBlockCacheDataBytesInsert,  // varve.block.cache.data.bytes.insert
  kBlockCacheBytesWrite,       // varve.block.cache.bytes.write
  kBloomFilterUseful,          // varve.bloom.filter.useful: reads spared
  // Lookups that a filter did not exclude, and how many of them found the key.
  kBloomFilterFullPositive,      // varve.bloom.filter.full.positive
  kBloomFilterFullTruePositive,  // varve.bloom.filter.full.true.positive
  kMemtableHit,                  // varve.memtable.hit
  kMemtableMiss,                 // varve.memtable.miss
  // Levels in which Get found values.
  kGetHitL0,                 // varve.l0.hit
  kGetHitL1,                 // varve.l1.hit
  kGetHitL2AndUp,            // varve.l2andup.hit
  kNumberKeysRead,           // varve.number.keys.read: by Get and MultiGet
  kNumberKeysFound,          // varve.number.keys.found
  kBytesRead,                // varve.bytes.read: values of Get and MultiGet
  kNumberMultiGetCalls,      // varve.number.multiget.get
  kNumberMultiGetKeysRead,   // varve.number.multiget.keys.read
  kNumberMultiGetKeysFound,  // varve.number.multiget.keys.found
  kNumberMultiGetBytesRead,  // varve.number.multiget.bytes.read
  // Iterators. Counted at their next seek, or when they are destroyed.
  kNumberDbSeek,          // varve.number.db.seek
  kNumberDbSeekFound,     // varve.number.db.seek.found
  kNumberDbNext,          // varve.number.db.next
  kNumberDbNextFound,     // varve.number.db.next.found
  kNumberDbPrev,          // varve.number.db.prev
  kNumberDbPrevFound,     // varve.number.db.prev.found
  kIterBytesRead,         // varve.db.iter.bytes.read: keys and values
  kNumberIterSkip,        // varve.number.iter.skip: entries walked over
  kNumberReseeks,         // varve.number.reseeks.iteration: instead of skips
  kDeadWalks,             // varve.dead.walks: long walks over deletions
  kDeadRangeSteps,        // varve.dead.range.steps: over remembered ranges
  kDeadRangeFlushes,      // varve.dead.range.flushes: of memtables, for readers
  kDeadRangeCompactions,  // varve.dead.range.compactions: for readers
  kIteratorsCreated,      // varve.num.iterator.created
  kIteratorsDeleted,      // varve.num.iterator.deleted
  kSuperVersionAcquires,  // varve.number.superversion_acquires: by reference
  kSuperVersionReleases,  // varve.number.superversion_releases
  kNumberKeysWritten,     // varve.number.keys.written
  kBytesWritten,          // varve.bytes.written: by users
  kWriteDoneBySelf,       // varve.write.self: as leader of a group
  kWriteDoneByOther,      // varve.write.other: by another's leader
  kWriteWithWal,          // varve.write.wal: that went to the log
  kWalFileSynced,         // varve.wal.synced
  kWalFileBytes,          // varve.wal.bytes
  kStallMicros,           // varve.stall.micros: that writers waited
  kPaceMicros,            // varve.pace.micros: of short pauses for compactions
  // Writes delayed and stopped, by cause.
  kStallLevel0Delays,    // varve.l0.file.count.limit.delays
  kStallLevel0Stops,     // varve.l0.file.count.limit.stops
  kStallPendingDelays,   // varve.pending.compaction.bytes.delays
  kStallPendingStops,    // varve.pending.compaction.bytes.stops
  kStallMemTableDelays,  // varve.memtable.limit.delays
  kStallMemTableStops,   // varve.memtable.limit.stops
  kFlushWriteBytes,      // varve.flush.write.bytes
  kCompactReadBytes,     // varve.compact.read.bytes
  kCompactWriteBytes,    // varve.compact.write.bytes
  kCompactionCancelled,  // varve.compaction.cancelled
  // Entries that a compaction or flush dropped: hidden by a newer version,
  // deletions with nothing left to hide, hidden by a range deletion, and
  // removed by a compaction filter.
  kCompactionDropNewer,     // varve.compaction.key.drop.new
  kCompactionDropObsolete,  // varve.compaction.key.drop.obsolete
  kCompactionDropRangeDel,  // varve.compaction.key.drop.range_del
  kCompactionDropUser,      // varve.compaction.key.drop.user
  // Calls of compaction filters that threw or gave too long a value, and calls
  // of merge operators that threw or failed.
  kCompactionFilterErrors,  // varve.compaction.filter.errors
  kNumberMergeFailures,     // varve.number.merge.failures
  kNoFileOpens,             // varve.no.file.opens: table files opened
  kNoFileErrors,            // varve.no.file.errors
  kFilesDeleted,            // varve.files.deleted.immediately: tables
  kBlocksChecked,           // varve.block.checksum.compute.count
  kBlocksCompressed,        // varve.number.block.compressed
  kBlocksNotCompressed,     // varve.number.block.not_compressed
  kBlocksDecompressed,      // varve.number.block.decompressed
  kTableReadBytes,          // varve.sst.read.bytes: by reads of any purpose
  kBackgroundErrors,        // varve.error.handler.bg.error.count
  kBackgroundIoErrors,      // varve.error.handler.bg.io.error.count
  kAutoResumes,             // varve.error.handler.autoresume.count
  kAutoResumeSuccesses,     // varve.error.handler.autoresume.success.count
  kLogsIncomplete,          // varve.wal.incomplete: opens that missed updates
  // Transactions. Conflicts are commits, and locks of keys, that failed because
  // a key had changed.
  kTransactionCommits,    // varve.transaction.commits
  kTransactionRollbacks,  // varve.transaction.rollbacks: calls of Rollback
  kTransactionConflicts,  // varve.transaction.conflicts
  kLockTimeouts,          // varve.transaction.lock.timeouts
  kDeadlocks,             // varve.transaction.deadlocks
  // Filters of tables that seeks asked for a prefix, and those that excluded
  // the table.
  kPrefixFilterChecked,  // varve.bloom.filter.prefix.checked
  kPrefixFilterUseful,   // varve.bloom.filter.prefix.useful
  kCount,
};

// Distributions that the engine measures. Those marked "sampled" measure one
// random operation in 64 on average, unless the level requests all.
enum class HistogramType : uint32_t {
  kDbGet,             // varve.db.get.micros, sampled
  kDbWrite,           // varve.db.write.micros, sampled
  kDbMultiGet,        // varve.db.multiget.micros: of a call, sampled
  kDbSeek,            // varve.db.seek.micros, sampled
  kFlushTime,         // varve.db.flush.micros
  kCompactionTime,    // varve.compaction.times.micros
  kWalFileSync,       // varve.wal.file.sync.micros
  kSstRead,           // varve.sst.read.micros: of a read of a table file
  kTableOpen,         // varve.table.open.io.micros
  kSnapshotScan,      // varve.snapshot.scan.micros: for flush or compaction
  kWriteStall,        // varve.db.write.stall: microseconds a write waited
  kBytesPerWrite,     // varve.bytes.per.write, sampled
  kBytesPerRead,      // varve.bytes.per.read: of a Get, sampled
  kBytesPerMultiGet,  // varve.bytes.per.multiget, sampled
  kCompactionFiles,   // varve.numfiles.in.singlecompaction
  kDbMutexWait,       // varve.db.mutex.wait.micros: level kAll only
  kCount,
};

// How much is measured. Each level includes the previous ones.
enum class StatsLevel : uint8_t {
  kDisableAll,
  kExceptHistogramOrTimers,  // Tickers.
  kExceptTimers,             // And histograms of sizes.
  kExceptDetailedTimers,     // And timers; short operations sampled.
  kExceptTimeForMutex,       // And every operation.
  kAll,                      // And waits for the DB mutex.
};

// Summary of a distribution, in its unit: microseconds or bytes. Times are
// measured in nanoseconds, so they have fractions. Percentiles have a relative
// error of at most 1/64, and so have min and max after a Reset. The rest is
// exact. All fields are zero if nothing was recorded.
struct HistogramData {
  uint64_t count = 0;
  double sum = 0;  // Saturates.
  double min = 0;
  double max = 0;
  double average = 0;
  double median = 0;
  double percentile95 = 0;
  double percentile99 = 0;
  double percentile999 = 0;
};

// Created by CreateDBStatistics only. Queries see all earlier events, and may
// see concurrent ones in part. Thread-safety: thread-safe.
class VARVE_EXPORT Statistics {
 public:
  virtual ~Statistics() = default;

  // Adds to a ticker. Does nothing at level kDisableAll, or if `ticker` is not
  // valid.
  virtual void recordTick(Ticker ticker, uint64_t count) = 0;
  // Records a value, in nanoseconds if the histogram's unit is microseconds.
  // Does nothing below the level that the histogram needs, or if `histogram` is
  // not valid.
  virtual void recordInHistogram(HistogramType histogram, uint64_t value) = 0;

  // Returns a ticker modulo 2^64, or 0 if `ticker` is not valid.
  virtual uint64_t getTickerCount(Ticker ticker) const = 0;
  // Returns a histogram's data; all zero if `histogram` is not valid.
  virtual HistogramData histogramData(HistogramType histogram) const = 0;
  // Gets a value by name, such as "varve.block.cache.hit". Returns NotFound if
  // there is no such name.
  virtual Status GetTickerByName(const Slice& name, uint64_t* count) const = 0;
  virtual Status GetHistogramByName(const Slice& name,
                                    HistogramData* data) const = 0;

  // Sets all to zero. Concurrent updates may be lost.
  virtual void Reset() = 0;

  // Set and return how much is measured.
  virtual void set_stats_level(StatsLevel level) = 0;
  virtual StatsLevel get_stats_level() const = 0;

  // Returns a line "name COUNT : number" per ticker, then a line per histogram.
  virtual std::string ToString() const = 0;
  // Returns the text exposition format of Prometheus: a counter per ticker, and
  // a summary per histogram, in seconds or bytes.
  virtual std::string ToPrometheus() const = 0;

  // Returns how updates find their counters: by restartable sequences, or by
  // their replacement on this machine.
  virtual std::string Path() const = 0;
  // Return the bytes of memory in use, and of address space.
  virtual uint64_t MemoryUsage() const = 0;
  virtual uint64_t ReservedMemory() const = 0;

 private:
  friend class StatisticsImpl;
  Statistics() = default;
};

struct StatisticsOptions {
  StatsLevel level = StatsLevel::kExceptDetailedTimers;
};

// See Options::statistics.
VARVE_EXPORT std::shared_ptr<Statistics> CreateDBStatistics(
    const StatisticsOptions& options = {});

}  // namespace varve
