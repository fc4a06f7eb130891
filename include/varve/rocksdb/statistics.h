// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's names of statistics, of those that Varve has; see varve/rocksdb.h.
// The numbers are Varve's.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "varve/rocksdb/names.h"
#include "varve/statistics.h"

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::HistogramData;
using varve::StatsLevel;
inline constexpr StatsLevel kDisableAll = StatsLevel::kDisableAll;
inline constexpr StatsLevel kExceptHistogramOrTimers =
    StatsLevel::kExceptHistogramOrTimers;
inline constexpr StatsLevel kExceptTimers = StatsLevel::kExceptTimers;
inline constexpr StatsLevel kExceptDetailedTimers =
    StatsLevel::kExceptDetailedTimers;
inline constexpr StatsLevel kExceptTimeForMutex =
    StatsLevel::kExceptTimeForMutex;
inline constexpr StatsLevel kAll = StatsLevel::kAll;

enum Tickers : uint32_t {
  BLOCK_CACHE_HIT = static_cast<uint32_t>(varve::Ticker::kBlockCacheHit),
  BLOCK_CACHE_MISS = static_cast<uint32_t>(varve::Ticker::kBlockCacheMiss),
  BLOCK_CACHE_ADD = static_cast<uint32_t>(varve::Ticker::kBlockCacheAdd),
  BLOCK_CACHE_DATA_HIT =
      static_cast<uint32_t>(varve::Ticker::kBlockCacheDataHit),
  BLOCK_CACHE_DATA_MISS =
      static_cast<uint32_t>(varve::Ticker::kBlockCacheDataMiss),
  BLOCK_CACHE_DATA_ADD =
      static_cast<uint32_t>(varve::Ticker::kBlockCacheDataAdd),
  BLOCK_CACHE_DATA_BYTES_INSERT =
      static_cast<uint32_t>(varve::Ticker::kBlockCacheDataBytesInsert),
  BLOCK_CACHE_BYTES_WRITE =
      static_cast<uint32_t>(varve::Ticker::kBlockCacheBytesWrite),
  BLOOM_FILTER_USEFUL =
      static_cast<uint32_t>(varve::Ticker::kBloomFilterUseful),
  BLOOM_FILTER_FULL_POSITIVE =
      static_cast<uint32_t>(varve::Ticker::kBloomFilterFullPositive),
  BLOOM_FILTER_FULL_TRUE_POSITIVE =
      static_cast<uint32_t>(varve::Ticker::kBloomFilterFullTruePositive),
  BLOOM_FILTER_PREFIX_CHECKED =
      static_cast<uint32_t>(varve::Ticker::kPrefixFilterChecked),
  BLOOM_FILTER_PREFIX_USEFUL =
      static_cast<uint32_t>(varve::Ticker::kPrefixFilterUseful),
  MEMTABLE_HIT = static_cast<uint32_t>(varve::Ticker::kMemtableHit),
  MEMTABLE_MISS = static_cast<uint32_t>(varve::Ticker::kMemtableMiss),
  GET_HIT_L0 = static_cast<uint32_t>(varve::Ticker::kGetHitL0),
  GET_HIT_L1 = static_cast<uint32_t>(varve::Ticker::kGetHitL1),
  GET_HIT_L2_AND_UP = static_cast<uint32_t>(varve::Ticker::kGetHitL2AndUp),
  NUMBER_KEYS_READ = static_cast<uint32_t>(varve::Ticker::kNumberKeysRead),
  BYTES_READ = static_cast<uint32_t>(varve::Ticker::kBytesRead),
  NUMBER_MULTIGET_CALLS =
      static_cast<uint32_t>(varve::Ticker::kNumberMultiGetCalls),
  NUMBER_MULTIGET_KEYS_READ =
      static_cast<uint32_t>(varve::Ticker::kNumberMultiGetKeysRead),
  NUMBER_MULTIGET_KEYS_FOUND =
      static_cast<uint32_t>(varve::Ticker::kNumberMultiGetKeysFound),
  NUMBER_MULTIGET_BYTES_READ =
      static_cast<uint32_t>(varve::Ticker::kNumberMultiGetBytesRead),
  NUMBER_DB_SEEK = static_cast<uint32_t>(varve::Ticker::kNumberDbSeek),
  NUMBER_DB_SEEK_FOUND =
      static_cast<uint32_t>(varve::Ticker::kNumberDbSeekFound),
  NUMBER_DB_NEXT = static_cast<uint32_t>(varve::Ticker::kNumberDbNext),
  NUMBER_DB_NEXT_FOUND =
      static_cast<uint32_t>(varve::Ticker::kNumberDbNextFound),
  NUMBER_DB_PREV = static_cast<uint32_t>(varve::Ticker::kNumberDbPrev),
  NUMBER_DB_PREV_FOUND =
      static_cast<uint32_t>(varve::Ticker::kNumberDbPrevFound),
  ITER_BYTES_READ = static_cast<uint32_t>(varve::Ticker::kIterBytesRead),
  NUMBER_ITER_SKIP = static_cast<uint32_t>(varve::Ticker::kNumberIterSkip),
  NUMBER_OF_RESEEKS_IN_ITERATION =
      static_cast<uint32_t>(varve::Ticker::kNumberReseeks),
  NO_ITERATOR_CREATED = static_cast<uint32_t>(varve::Ticker::kIteratorsCreated),
  NO_ITERATOR_DELETED = static_cast<uint32_t>(varve::Ticker::kIteratorsDeleted),
  NUMBER_SUPERVERSION_ACQUIRES =
      static_cast<uint32_t>(varve::Ticker::kSuperVersionAcquires),
  NUMBER_SUPERVERSION_RELEASES =
      static_cast<uint32_t>(varve::Ticker::kSuperVersionReleases),
  NUMBER_KEYS_WRITTEN =
      static_cast<uint32_t>(varve::Ticker::kNumberKeysWritten),
  BYTES_WRITTEN = static_cast<uint32_t>(varve::Ticker::kBytesWritten),
  WRITE_DONE_BY_SELF = static_cast<uint32_t>(varve::Ticker::kWriteDoneBySelf),
  WRITE_DONE_BY_OTHER = static_cast<uint32_t>(varve::Ticker::kWriteDoneByOther),
  WRITE_WITH_WAL = static_cast<uint32_t>(varve::Ticker::kWriteWithWal),
  WAL_FILE_SYNCED = static_cast<uint32_t>(varve::Ticker::kWalFileSynced),
  WAL_FILE_BYTES = static_cast<uint32_t>(varve::Ticker::kWalFileBytes),
  STALL_MICROS = static_cast<uint32_t>(varve::Ticker::kStallMicros),
  FLUSH_WRITE_BYTES = static_cast<uint32_t>(varve::Ticker::kFlushWriteBytes),
  COMPACT_READ_BYTES = static_cast<uint32_t>(varve::Ticker::kCompactReadBytes),
  COMPACT_WRITE_BYTES =
      static_cast<uint32_t>(varve::Ticker::kCompactWriteBytes),
  COMPACTION_CANCELLED =
      static_cast<uint32_t>(varve::Ticker::kCompactionCancelled),
  COMPACTION_KEY_DROP_NEWER_ENTRY =
      static_cast<uint32_t>(varve::Ticker::kCompactionDropNewer),
  COMPACTION_KEY_DROP_OBSOLETE =
      static_cast<uint32_t>(varve::Ticker::kCompactionDropObsolete),
  COMPACTION_KEY_DROP_RANGE_DEL =
      static_cast<uint32_t>(varve::Ticker::kCompactionDropRangeDel),
  COMPACTION_KEY_DROP_USER =
      static_cast<uint32_t>(varve::Ticker::kCompactionDropUser),
  NUMBER_MERGE_FAILURES =
      static_cast<uint32_t>(varve::Ticker::kNumberMergeFailures),
  NO_FILE_OPENS = static_cast<uint32_t>(varve::Ticker::kNoFileOpens),
  NO_FILE_ERRORS = static_cast<uint32_t>(varve::Ticker::kNoFileErrors),
  FILES_DELETED_IMMEDIATELY =
      static_cast<uint32_t>(varve::Ticker::kFilesDeleted),
  BLOCK_CHECKSUM_COMPUTE_COUNT =
      static_cast<uint32_t>(varve::Ticker::kBlocksChecked),
  NUMBER_BLOCK_COMPRESSED =
      static_cast<uint32_t>(varve::Ticker::kBlocksCompressed),
  NUMBER_BLOCK_DECOMPRESSED =
      static_cast<uint32_t>(varve::Ticker::kBlocksDecompressed),
  ERROR_HANDLER_BG_ERROR_COUNT =
      static_cast<uint32_t>(varve::Ticker::kBackgroundErrors),
  ERROR_HANDLER_BG_IO_ERROR_COUNT =
      static_cast<uint32_t>(varve::Ticker::kBackgroundIoErrors),
  ERROR_HANDLER_AUTORESUME_COUNT =
      static_cast<uint32_t>(varve::Ticker::kAutoResumes),
  ERROR_HANDLER_AUTORESUME_SUCCESS_COUNT =
      static_cast<uint32_t>(varve::Ticker::kAutoResumeSuccesses),
};

enum Histograms : uint32_t {
  DB_GET = static_cast<uint32_t>(varve::HistogramType::kDbGet),
  DB_WRITE = static_cast<uint32_t>(varve::HistogramType::kDbWrite),
  DB_MULTIGET = static_cast<uint32_t>(varve::HistogramType::kDbMultiGet),
  DB_SEEK = static_cast<uint32_t>(varve::HistogramType::kDbSeek),
  FLUSH_TIME = static_cast<uint32_t>(varve::HistogramType::kFlushTime),
  COMPACTION_TIME =
      static_cast<uint32_t>(varve::HistogramType::kCompactionTime),
  WAL_FILE_SYNC_MICROS =
      static_cast<uint32_t>(varve::HistogramType::kWalFileSync),
  SST_READ_MICROS = static_cast<uint32_t>(varve::HistogramType::kSstRead),
  TABLE_OPEN_IO_MICROS =
      static_cast<uint32_t>(varve::HistogramType::kTableOpen),
  WRITE_STALL = static_cast<uint32_t>(varve::HistogramType::kWriteStall),
  BYTES_PER_WRITE = static_cast<uint32_t>(varve::HistogramType::kBytesPerWrite),
  BYTES_PER_READ = static_cast<uint32_t>(varve::HistogramType::kBytesPerRead),
  BYTES_PER_MULTIGET =
      static_cast<uint32_t>(varve::HistogramType::kBytesPerMultiGet),
  NUM_FILES_IN_SINGLE_COMPACTION =
      static_cast<uint32_t>(varve::HistogramType::kCompactionFiles),
  DB_MUTEX_WAIT_MICROS =
      static_cast<uint32_t>(varve::HistogramType::kDbMutexWait),
};

class Statistics {
 public:
  explicit Statistics(std::shared_ptr<varve::Statistics> statistics)
      : statistics_(std::move(statistics)) {}

  uint64_t getTickerCount(uint32_t ticker) const {
    return statistics_->getTickerCount(static_cast<varve::Ticker>(ticker));
  }
  void histogramData(uint32_t histogram, HistogramData* data) const {
    *data = statistics_->histogramData(
        static_cast<varve::HistogramType>(histogram));
  }
  void recordTick(uint32_t ticker, uint64_t count = 1) {
    statistics_->recordTick(static_cast<varve::Ticker>(ticker), count);
  }
  Status Reset() {
    statistics_->Reset();
    return Status::OK();
  }
  void set_stats_level(StatsLevel level) {
    statistics_->set_stats_level(level);
  }
  StatsLevel get_stats_level() const { return statistics_->get_stats_level(); }
  std::string ToString() const { return statistics_->ToString(); }

  // Returns Varve's object.
  const std::shared_ptr<varve::Statistics>& GetVarve() const {
    return statistics_;
  }

 private:
  const std::shared_ptr<varve::Statistics> statistics_;
};

inline std::shared_ptr<Statistics> CreateDBStatistics() {
  return std::make_shared<Statistics>(varve::CreateDBStatistics());
}

}  // namespace VARVE_ROCKSDB_NAMESPACE
