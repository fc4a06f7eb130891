// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The options of RocksDB's C interface, and the objects that they refer to.
//
// An object is taken over (shared_ptr) or belongs to the program (plain
// pointer), as with RocksDB. A copy of options shares the objects.

#include <fields.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "varve/cache.h"
#include "varve/compression_type.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/rate_limiter.h"
#include "varve/slice.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_manager.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// A directory with a share of the database's files.
struct DbPath {
  std::string path;
  uint64_t target_size = 0;
};

// Parameters of compression that are set together.
struct CompressionParameters {
  int window_bits = -14;
  int level = kDefaultCompressionLevel;
  int strategy = 0;
  int max_dict_bytes = 0;
  // For the bottommost level only. Without it the others apply.
  bool enabled = false;
  int zstd_max_train_bytes = 0;
  bool use_zstd_dict_trainer = true;
  uint64_t max_dict_buffer_bytes = 0;

  bool operator==(const CompressionParameters&) const = default;
};

// The structure of memtables. It is always the engine's.
enum class MemtableFormat : uint8_t {
  kSkipList,
  kVector,
  kHashSkipList,
  kHashLinkList
};

// The format in which new tables are to be written. It is always block-based.
enum class TableFormat : uint8_t { kBlockBased, kPlain, kCuckoo };

}  // namespace varve::rocksdb_c

struct rocksdb_cache_t {
  std::shared_ptr<varve::Cache> rep;
};

struct rocksdb_env_t {
  // Not null. Databases and options share the ownership.
  std::shared_ptr<varve::Env> rep;
};

struct rocksdb_ratelimiter_t {
  std::shared_ptr<varve::RateLimiter> rep;
};

struct rocksdb_dbpath_t {
  varve::rocksdb_c::DbPath rep;
};

struct rocksdb_block_based_table_options_t
    : varve::rocksdb_c::BlockBasedTableOptionsFields {
  std::shared_ptr<const varve::FilterPolicy> filter_policy;
  // It was requested as a Ribbon filter.
  bool has_ribbon_filter = false;
  std::shared_ptr<varve::Cache> block_cache;
};

struct rocksdb_options_t : varve::rocksdb_c::OptionsFields {
  // Objects of the database.

  std::shared_ptr<varve::Env> env;          // Null: the operating system's.
  std::shared_ptr<varve::Logger> info_log;  // Null: the file LOG.
  // Null, as with RocksDB, until statistics are enabled.
  std::shared_ptr<varve::Statistics> statistics;
  // RocksDB's number; see observe/statistics.cc.
  int statistics_level = 3;
  std::shared_ptr<varve::RateLimiter> rate_limiter;
  std::shared_ptr<varve::WriteBufferManager> write_buffer_manager;
  std::shared_ptr<varve::SstFileManager> sst_file_manager;
  std::vector<std::shared_ptr<varve::EventListener>> listeners;
  std::vector<varve::rocksdb_c::DbPath> db_paths;
  std::shared_ptr<varve::Cache> row_cache;

  // Objects of a column family.

  const varve::Comparator* comparator = nullptr;  // Null: bytewise order.
  std::shared_ptr<varve::MergeOperator> merge_operator;
  const varve::CompactionFilter* compaction_filter = nullptr;
  std::shared_ptr<varve::CompactionFilterFactory> compaction_filter_factory;
  std::shared_ptr<const varve::SliceTransform> prefix_extractor;
  varve::rocksdb_c::TableFormat table_format =
      varve::rocksdb_c::TableFormat::kBlockBased;
  varve::rocksdb_c::MemtableFormat memtable_format =
      varve::rocksdb_c::MemtableFormat::kSkipList;
  rocksdb_block_based_table_options_t table;
  std::shared_ptr<varve::Cache> blob_cache;
  std::vector<int> compression_per_level;
  varve::rocksdb_c::CompressionParameters compression_parameters;
  varve::rocksdb_c::CompressionParameters bottommost_compression_parameters;
  varve::rocksdb_c::UniversalCompactionOptionsFields universal_compaction;
  varve::rocksdb_c::FifoCompactionOptionsFields fifo_compaction;
  std::vector<int> max_bytes_for_level_multiplier_additional;
  std::vector<varve::rocksdb_c::DbPath> cf_paths;
  // Collectors that request compactions after many deletions, as LOG has them.
  std::vector<std::string> deletion_collectors;
  std::set<int> checksum_handoff_file_types;
  std::set<int> write_lifetime_hint_styles = {0};
};

// Options of calls. Each keeps the engine's options ready, because calls read
// them far more often than they are set.

struct rocksdb_readoptions_t : varve::rocksdb_c::ReadOptionsFields {
  // Programs create options for each call. So this does not call Changed(), and
  // is not defaulted: then `new rocksdb_readoptions_t()` clears all bytes
  // first, which takes as long as the rest.
  // NOLINTNEXTLINE(modernize-use-equals-default)
  rocksdb_readoptions_t() {}
  rocksdb_readoptions_t(const rocksdb_readoptions_t&) = delete;
  rocksdb_readoptions_t& operator=(const rocksdb_readoptions_t&) = delete;
  ~rocksdb_readoptions_t() { ClearTableFilter(); }

  // Renews `rep` and `refused` after a field was set.
  void Changed();
  // Calls the destructor of a table filter.
  void ClearTableFilter();

  // The options that reads use. Bounds point to the slices below.
  varve::ReadOptions rep;
  // The missing feature that these options need, or null. Calls with such
  // options return NotSupported.
  const char* refused = nullptr;

  varve::Slice lower_bound;
  varve::Slice upper_bound;
  bool has_timestamp = false;
  bool has_iter_start_timestamp = false;
  std::optional<size_t> merge_operand_count_threshold;
  std::optional<std::string> request_id;
  // The callback is never called.
  bool has_table_filter = false;
  void* table_filter_state = nullptr;
  void (*table_filter_destructor)(void*) = nullptr;
};

// In these, `rep` and `refused` are as in rocksdb_readoptions_t.

struct rocksdb_writeoptions_t : varve::rocksdb_c::WriteOptionsFields {
  void Changed();

  varve::WriteOptions rep;
  const char* refused = nullptr;
};

struct rocksdb_flushoptions_t : varve::rocksdb_c::FlushOptionsFields {
  void Changed();

  varve::FlushOptions rep;
  const char* refused = nullptr;
};

struct rocksdb_compactoptions_t : varve::rocksdb_c::CompactOptionsFields {
  rocksdb_compactoptions_t() { Changed(); }
  void Changed();

  varve::CompactRangeOptions rep;
  const char* refused = nullptr;
  bool has_full_history_timestamp = false;
};

struct rocksdb_envoptions_t : varve::rocksdb_c::EnvOptionsFields {
  std::shared_ptr<varve::RateLimiter> rate_limiter;
};
