// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's options; see varve/rocksdb.h. Each struct has Varve's options and,
// in its second part, those that can be set and have no effect.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/options.h"
#include "varve/rocksdb/listener.h"
#include "varve/rocksdb/merge_operator.h"
#include "varve/rocksdb/names.h"
#include "varve/rocksdb/statistics.h"

namespace VARVE_ROCKSDB_NAMESPACE {

enum class WALRecoveryMode : char {
  kAbsoluteConsistency = 1,
  kPointInTimeRecovery = 2,
};
enum InfoLogLevel : unsigned char {
  DEBUG_LEVEL,
  INFO_LEVEL,
  WARN_LEVEL,
  ERROR_LEVEL,
  FATAL_LEVEL,
  HEADER_LEVEL,
};
enum CompactionStyle : char { kCompactionStyleLevel = 0 };
enum CompactionPri : char {
  kByCompensatedSize,
  kOldestLargestSeqFirst,
  kOldestSmallestSeqFirst,
  kMinOverlappingRatio,
  kRoundRobin,
};
enum ChecksumType : char { kNoChecksum, kCRC32c, kxxHash, kxxHash64, kXXH3 };

struct CompressionOptions {
  static constexpr int kDefaultCompressionLevel =
      varve::kDefaultCompressionLevel;

  int level = kDefaultCompressionLevel;

  // No effect.
  int window_bits = -14;
  int strategy = 0;
  uint32_t parallel_threads = 1;
  bool enabled = false;
};

struct BlockBasedTableOptions {
  std::shared_ptr<Cache> block_cache;
  bool no_block_cache = false;
  bool cache_index_and_filter_blocks = false;
  size_t block_size = 4096;
  int block_restart_interval = 16;
  std::shared_ptr<const FilterPolicy> filter_policy;
  bool whole_key_filtering = true;
  enum IndexType : char {
    kBinarySearch,
    kHashSearch,  // As kBinarySearch.
    kTwoLevelIndexSearch,
    kBinarySearchWithFirstKey,  // As kBinarySearch.
  };
  IndexType index_type = kBinarySearch;
  uint64_t metadata_block_size = 4096;
  bool partition_filters = false;

  // No effect.
  enum DataBlockIndexType : char {
    kDataBlockBinarySearch,
    kDataBlockBinaryAndHash,
  };
  bool cache_index_and_filter_blocks_with_high_priority = true;
  bool pin_l0_filter_and_index_blocks_in_cache = false;
  bool pin_top_level_index_and_filter = true;
  DataBlockIndexType data_block_index_type = kDataBlockBinarySearch;
  double data_block_hash_table_util_ratio = 0.75;
  ChecksumType checksum = kXXH3;
  int block_size_deviation = 10;
  int index_block_restart_interval = 1;
  bool optimize_filters_for_memory = true;
  bool use_delta_encoding = true;
  bool verify_compression = false;
  bool enable_index_compression = true;
  bool block_align = false;
  uint32_t format_version = 5;
  uint32_t read_amp_bytes_per_bit = 0;
  size_t max_auto_readahead_size = 256 * 1024;
  size_t initial_auto_readahead_size = 8 * 1024;
};

// Holds the options of block-based tables, the only kind of table.
class TableFactory {
 public:
  explicit TableFactory(BlockBasedTableOptions options)
      : options_(std::move(options)) {}
  const BlockBasedTableOptions& options() const { return options_; }
  const char* Name() const { return "BlockBasedTable"; }

 private:
  const BlockBasedTableOptions options_;
};
// The caller owns the result.
inline TableFactory* NewBlockBasedTableFactory(
    const BlockBasedTableOptions& options = BlockBasedTableOptions()) {
  return new TableFactory(options);
}

struct DBOptions : varve::DBOptions {
  WALRecoveryMode wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  std::shared_ptr<Statistics> statistics;
  std::vector<std::shared_ptr<EventListener>> listeners;
  // Used if there is no write_buffer_manager.
  size_t db_write_buffer_size = 0;

  // No effect.
  InfoLogLevel info_log_level = INFO_LEVEL;
  size_t max_log_file_size = 0;
  size_t log_file_time_to_roll = 0;
  size_t keep_log_file_num = 1000;
  size_t recycle_log_file_num = 0;
  uint64_t max_manifest_file_size = 1 << 30;
  unsigned int stats_dump_period_sec = 600;
  unsigned int stats_persist_period_sec = 600;
  bool dump_malloc_stats = false;
  bool use_fsync = false;
  int max_background_compactions = -1;
  int max_background_flushes = -1;
  int max_file_opening_threads = 16;
  int table_cache_numshardbits = 6;
  uint64_t delete_obsolete_files_period_micros = 0;
  uint64_t delayed_write_rate = 0;
  size_t compaction_readahead_size = 0;
  size_t writable_file_max_buffer_size = 1 << 20;
  bool allow_mmap_writes = false;
  bool use_direct_io_for_flush_and_compaction = false;
  bool allow_fallocate = true;
  bool is_fd_close_on_exec = true;
  bool advise_random_on_open = true;
  bool skip_stats_update_on_db_open = false;
  bool allow_concurrent_memtable_write = true;
  bool enable_write_thread_adaptive_yield = true;
  bool enable_pipelined_write = false;
  bool unordered_write = false;
  bool use_adaptive_mutex = false;
  bool strict_bytes_per_sync = false;

  DBOptions* IncreaseParallelism(int total_threads = 16) {
    max_background_jobs = std::clamp(total_threads, 1, 64);
    return this;
  }
  DBOptions* OptimizeForSmallDb() { return this; }
};

struct ColumnFamilyOptions : varve::ColumnFamilyOptions {
  CompressionType compression =
      static_cast<CompressionType>(varve::DefaultCompression());
  CompressionType bottommost_compression = kDisableCompressionOption;
  std::vector<CompressionType> compression_per_level;
  CompressionOptions compression_opts;
  std::shared_ptr<MergeOperator> merge_operator;
  // If set, its options are used in the place of Varve's of the same names.
  std::shared_ptr<TableFactory> table_factory;

  // No effect.
  CompressionOptions bottommost_compression_opts;
  bool memtable_whole_key_filtering = false;
  size_t memtable_huge_page_size = 0;
  size_t arena_block_size = 0;
  uint32_t bloom_locality = 0;
  int min_write_buffer_number_to_merge = 1;
  int max_write_buffer_number_to_maintain = 0;
  int64_t max_write_buffer_size_to_maintain = 0;
  int target_file_size_multiplier = 1;
  CompactionStyle compaction_style = kCompactionStyleLevel;
  CompactionPri compaction_pri = kMinOverlappingRatio;
  uint64_t max_sequential_skip_in_iterations = 8;
  bool optimize_filters_for_hits = false;
  bool force_consistency_checks = true;
  bool paranoid_file_checks = false;
  bool report_bg_io_stats = false;

  ColumnFamilyOptions* OptimizeForPointLookup(uint64_t block_cache_size_mb) {
    BlockBasedTableOptions table;
    table.block_cache =
        NewLRUCache(static_cast<size_t>(block_cache_size_mb) << 20);
    table.filter_policy.reset(NewBloomFilterPolicy(10));
    table_factory.reset(NewBlockBasedTableFactory(table));
    return this;
  }
  ColumnFamilyOptions* OptimizeLevelStyleCompaction(
      uint64_t memtable_memory_budget = 512 << 20) {
    write_buffer_size = static_cast<size_t>(memtable_memory_budget / 4);
    max_write_buffer_number = 6;
    level0_file_num_compaction_trigger = 2;
    target_file_size_base = memtable_memory_budget / 8;
    max_bytes_for_level_base = memtable_memory_budget;
    return this;
  }
  ColumnFamilyOptions* OptimizeForSmallDb() {
    write_buffer_size = 2 << 20;
    target_file_size_base = 2 << 20;
    max_bytes_for_level_base = 10 << 20;
    return this;
  }
};

struct Options : DBOptions, ColumnFamilyOptions {
  Options() = default;
  Options(const DBOptions& db_options,
          const ColumnFamilyOptions& column_family_options)
      : DBOptions(db_options), ColumnFamilyOptions(column_family_options) {}

  Options* OptimizeForSmallDb() {
    ColumnFamilyOptions::OptimizeForSmallDb();
    return this;
  }
};

struct ColumnFamilyDescriptor {
  ColumnFamilyDescriptor() = default;
  ColumnFamilyDescriptor(std::string its_name, ColumnFamilyOptions its_options)
      : name(std::move(its_name)), options(std::move(its_options)) {}

  std::string name = kDefaultColumnFamilyName;
  ColumnFamilyOptions options;
};

struct ReadOptions : varve::ReadOptions {
  ReadOptions() = default;
  ReadOptions(bool verifies_checksums, bool fills_cache) {
    verify_checksums = verifies_checksums;
    fill_cache = fills_cache;
  }

  // No effect.
  bool pin_data = false;
  bool adaptive_readahead = false;
  bool optimize_multiget_for_io = true;
  bool background_purge_on_iterator_cleanup = false;
};

struct WriteOptions {
  bool sync = false;
  bool disableWAL = false;
  bool no_slowdown = false;

  // No effect.
  bool low_pri = false;
  bool memtable_insert_hint_per_batch = false;

  operator varve::WriteOptions() const {  // NOLINT: passed to Varve's calls.
    varve::WriteOptions options;
    options.sync = sync;
    options.disable_wal = disableWAL;
    options.no_slowdown = no_slowdown;
    return options;
  }
};

struct FlushOptions : varve::FlushOptions {
  bool allow_write_stall = false;  // No effect.
};

enum class BottommostLevelCompaction {
  kSkip,
  kIfHaveCompactionFilter,
  kForce,
  kForceOptimized,
};

struct CompactRangeOptions {
  bool exclusive_manual_compaction = true;
  bool change_level = false;
  int target_level = -1;  // If change_level is set.
  BottommostLevelCompaction bottommost_level_compaction =
      BottommostLevelCompaction::kIfHaveCompactionFilter;

  // No effect.
  bool allow_write_stall = false;
  uint32_t max_subcompactions = 0;

  operator varve::CompactRangeOptions() const {  // NOLINT: as WriteOptions.
    varve::CompactRangeOptions options;
    options.rewrite_bottommost_level =
        bottommost_level_compaction >= BottommostLevelCompaction::kForce;
    options.exclusive_manual_compaction = exclusive_manual_compaction;
    if (change_level) options.target_level = target_level;
    return options;
  }
};

namespace internal {

inline varve::ColumnFamilyOptions ToVarve(const ColumnFamilyOptions& options) {
  varve::ColumnFamilyOptions out = options;
  out.compression = static_cast<varve::CompressionType>(options.compression);
  if (options.bottommost_compression != kDisableCompressionOption) {
    out.bottommost_compression =
        static_cast<varve::CompressionType>(options.bottommost_compression);
  }
  for (const CompressionType type : options.compression_per_level) {
    out.compression_per_level.push_back(
        static_cast<varve::CompressionType>(type));
  }
  if (options.compression_opts.level !=
      CompressionOptions::kDefaultCompressionLevel) {
    out.compression_level = options.compression_opts.level;
  }
  if (options.merge_operator != nullptr) {
    out.merge_operator = std::make_shared<MergeAdapter>(options.merge_operator);
  }
  if (options.table_factory != nullptr) {
    const BlockBasedTableOptions& table = options.table_factory->options();
    out.block_cache = table.no_block_cache ? NewLRUCache(0) : table.block_cache;
    out.cache_index_and_filter_blocks = table.cache_index_and_filter_blocks;
    out.block_size = table.block_size;
    out.block_restart_interval = table.block_restart_interval;
    if (table.index_type == BlockBasedTableOptions::kTwoLevelIndexSearch) {
      out.index_type = varve::IndexType::kTwoLevelIndexSearch;
    }
    out.metadata_block_size = table.metadata_block_size;
    out.partition_filters = table.partition_filters;
    out.filter_policy = table.filter_policy;
    out.whole_key_filtering = table.whole_key_filtering;
  }
  return out;
}

// Adds the adapters of the listeners to *adapters.
inline varve::DBOptions ToVarve(
    const DBOptions& options,
    std::vector<std::shared_ptr<ListenerAdapter>>* adapters) {
  varve::DBOptions out = options;
  if (options.wal_recovery_mode == WALRecoveryMode::kAbsoluteConsistency) {
    out.wal_recovery_mode = varve::WalRecoveryMode::kAbsoluteConsistency;
  }
  if (options.statistics != nullptr) {
    out.statistics = options.statistics->GetVarve();
  }
  for (const auto& listener : options.listeners) {
    adapters->push_back(std::make_shared<ListenerAdapter>(listener));
    out.listeners.push_back(adapters->back());
  }
  if (out.write_buffer_manager == nullptr && options.db_write_buffer_size > 0) {
    out.write_buffer_manager =
        std::make_shared<WriteBufferManager>(options.db_write_buffer_size);
  }
  return out;
}

inline varve::Options ToVarve(const Options& options) {
  std::vector<std::shared_ptr<ListenerAdapter>> adapters;
  return varve::Options(
      ToVarve(options, &adapters),
      ToVarve(static_cast<const ColumnFamilyOptions&>(options)));
}

}  // namespace internal

}  // namespace VARVE_ROCKSDB_NAMESPACE
