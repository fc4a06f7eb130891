// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/translate.h"

#include <rocksdb/c.h>

#include <algorithm>
#include <string>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/options/enum_names.h"
#include "compat/rocksdb/options/option_facts.h"
#include "compat/rocksdb/options/sanitize.h"
#include "varve/write_buffer_manager.h"

namespace varve::rocksdb_c {
namespace {

constexpr int kDisabledCompression = 0xff;
// A style of compaction that has no name in the header.
constexpr int kNoCompactions = 3;

// Returns NotSupported for the first option of a database, or of a column
// family, that needs a missing feature.
Status Refuse(const rocksdb_options_t& options, bool of_family) {
  const auto* const fields = static_cast<const OptionsFields*>(&options);
  for (const Field& field : kOptionsFields) {
    if (field.kind == FieldKind::kRefused &&
        IsFamilyOption(field.name) == of_family && !field.is_default(fields)) {
      return Missing(field.feature);
    }
  }
  return Status::OK();
}

Status ToRecoveryMode(int number, WalRecoveryMode* mode) {
  switch (number) {
    case rocksdb_absolute_consistency_recovery:
      *mode = WalRecoveryMode::kAbsoluteConsistency;
      return Status::OK();
    // Both accept an incomplete record at the end of a log. The engine keeps
    // the records after other damage in lost/, and reports them in LOG.
    case rocksdb_tolerate_corrupted_tail_records_recovery:
    case rocksdb_point_in_time_recovery:
      *mode = WalRecoveryMode::kPointInTime;
      return Status::OK();
    case rocksdb_skip_any_corrupted_records_recovery:
      return Missing("recovery that skips damaged records of a log");
    default:
      return Status::InvalidArgument("wal_recovery_mode",
                                     "is none of RocksDB's");
  }
}

// The engine divides the jobs as RocksDB does.
int BackgroundJobs(const rocksdb_options_t& options) {
  int jobs = options.max_background_jobs;
  if (options.max_background_flushes != -1 ||
      options.max_background_compactions != -1) {
    jobs = std::clamp(options.max_background_flushes, 1, 64) +
           std::clamp(options.max_background_compactions, 1, 64);
  }
  return std::clamp(jobs, 1, 64);
}

Status ToCompression(int number, CompressionType* type) {
  *type = static_cast<CompressionType>(number);
  if (number >= 0 && number < 0xff && CompressionSupported(*type)) {
    return Status::OK();
  }
  return Status::InvalidArgument("Compression type " + CompressionText(number) +
                                 " is not linked with the binary.");
}

// A default that the library was built without is replaced by its own.
Status ToCompressions(const rocksdb_options_t& options,
                      ColumnFamilyOptions* result) {
  if (options.compression != OptionsFields().compression ||
      CompressionSupported(static_cast<CompressionType>(options.compression))) {
    Status status = ToCompression(options.compression, &result->compression);
    if (!status.ok()) return status;
  }
  result->compression_per_level.clear();
  for (const int number : options.compression_per_level) {
    CompressionType type;
    Status status = ToCompression(number, &type);
    if (!status.ok()) return status;
    result->compression_per_level.push_back(type);
  }
  if (options.bottommost_compression != kDisabledCompression) {
    CompressionType type;
    Status status = ToCompression(options.bottommost_compression, &type);
    if (!status.ok()) return status;
    result->bottommost_compression = type;
  }
  const int level = options.compression_parameters.level;
  if (level == kDefaultCompressionLevel) return Status::OK();
  switch (result->compression) {
    case CompressionType::kLZ4HC:
      result->compression_level = std::clamp(level, 1, 12);
      break;
    case CompressionType::kZlib:
      result->compression_level = std::clamp(level, 0, 9);
      break;
    default:
      result->compression_level = std::clamp(level, -7, 22);
      break;
  }
  return Status::OK();
}

void ToTables(const rocksdb_block_based_table_options_t& table,
              ColumnFamilyOptions* result) {
  result->block_cache =
      table.no_block_cache != 0 ? NewBlockCache(0) : table.block_cache;
  result->cache_index_and_filter_blocks =
      table.cache_index_and_filter_blocks != 0;
  result->block_size =
      std::clamp(table.block_size, size_t{1}, size_t{16} << 20);
  result->block_restart_interval =
      std::clamp(table.block_restart_interval, 1, 1024);
  result->index_type =
      table.index_type == static_cast<int>(IndexType::kTwoLevelIndexSearch)
          ? IndexType::kTwoLevelIndexSearch
          : IndexType::kBinarySearch;
  result->metadata_block_size =
      std::clamp(table.metadata_block_size, uint64_t{1}, uint64_t{1} << 30);
  result->partition_filters = table.partition_filters != 0;
  result->filter_policy = table.filter_policy;
  result->whole_key_filtering = table.whole_key_filtering != 0;
}

void ToLevels(const rocksdb_options_t& options, ColumnFamilyOptions* result) {
  result->level0_file_num_compaction_trigger =
      options.level0_file_num_compaction_trigger;
  result->level0_slowdown_writes_trigger =
      options.level0_slowdown_writes_trigger;
  result->level0_stop_writes_trigger = options.level0_stop_writes_trigger;
  result->soft_pending_compaction_bytes_limit =
      options.soft_pending_compaction_bytes_limit;
  result->hard_pending_compaction_bytes_limit =
      options.hard_pending_compaction_bytes_limit;
  result->target_file_size_base = std::clamp(
      options.target_file_size_base, uint64_t{1} << 10, uint64_t{64} << 30);
  result->num_levels = std::clamp(options.num_levels, 2, 7);
  result->max_compaction_bytes =
      std::max(options.max_compaction_bytes, result->target_file_size_base);
  result->max_bytes_for_level_base =
      std::max(options.max_bytes_for_level_base, uint64_t{1} << 10);
  result->max_bytes_for_level_multiplier =
      std::clamp(options.max_bytes_for_level_multiplier, 1.0, 1000.0);
  // Other styles than RocksDB's levels have no sizes of levels.
  result->level_compaction_dynamic_level_bytes =
      options.level_compaction_dynamic_level_bytes != 0 ||
      options.compaction_style != rocksdb_level_compaction;
  result->ttl = options.ttl;
  result->periodic_compaction_seconds = options.periodic_compaction_seconds;
  result->disable_auto_compactions = options.disable_auto_compactions != 0 ||
                                     options.compaction_style == kNoCompactions;
}

// Returns whether both are the same directory.
bool IsSamePath(Env* env, std::string a, std::string b) {
  for (std::string* path : {&a, &b}) {
    *path = env->AbsolutePath(*path);
    while (path->size() > 1 && path->back() == '/') path->pop_back();
  }
  return a == b;
}

}  // namespace

Env* EnvOf(const rocksdb_options_t& options) {
  return options.env != nullptr ? options.env.get() : Env::Default();
}

Status ToVarve(const rocksdb_options_t& options, DBOptions* result) {
  Status status = Refuse(options, /*of_family=*/false);
  if (status.ok()) {
    status =
        ToRecoveryMode(options.wal_recovery_mode, &result->wal_recovery_mode);
  }
  if (!status.ok()) return status;
  const rocksdb_options_t sane = Sanitize(options);
  result->create_if_missing = sane.create_if_missing != 0;
  result->create_missing_column_families =
      sane.create_missing_column_families != 0;
  result->error_if_exists = sane.error_if_exists != 0;
  result->paranoid_checks = sane.paranoid_checks != 0;
  result->env = EnvOf(sane);
  result->avoid_flush_during_shutdown = sane.avoid_flush_during_shutdown != 0;
  result->atomic_flush = sane.atomic_flush != 0;
  result->write_buffer_manager = sane.write_buffer_manager;
  if (result->write_buffer_manager == nullptr &&
      sane.db_write_buffer_size > 0) {
    result->write_buffer_manager =
        std::make_shared<WriteBufferManager>(sane.db_write_buffer_size);
  }
  result->sst_file_manager = sane.sst_file_manager;
  result->max_open_files = sane.max_open_files;
  result->use_direct_reads = sane.use_direct_reads != 0;
  result->allow_mmap_reads = sane.allow_mmap_reads != 0;
  // The engine's own default otherwise.
  if (sane.bytes_per_sync != 0) result->bytes_per_sync = sane.bytes_per_sync;
  result->wal_bytes_per_sync = sane.wal_bytes_per_sync;
  result->manual_wal_flush = sane.manual_wal_flush != 0;
  result->max_total_wal_size = sane.max_total_wal_size;
  result->WAL_ttl_seconds = sane.WAL_ttl_seconds;
  result->WAL_size_limit_MB = sane.WAL_size_limit_MB;
  result->max_background_jobs = BackgroundJobs(sane);
  result->max_subcompactions =
      static_cast<int>(std::clamp(sane.max_subcompactions, 1U, 64U));
  result->rate_limiter = sane.rate_limiter;
  result->statistics = sane.statistics;
  if (sane.statistics == nullptr) {
    result->stats_level = StatsLevel::kDisableAll;
  }
  result->listeners = sane.listeners;
  return Status::OK();
}

Status ToVarve(const rocksdb_options_t& options, ColumnFamilyOptions* result) {
  Status status = Refuse(options, /*of_family=*/true);
  if (status.ok() && options.compaction_style == rocksdb_fifo_compaction) {
    status = Missing("FIFO compaction");
  }
  if (status.ok() && (options.compaction_style < rocksdb_level_compaction ||
                      options.compaction_style > kNoCompactions)) {
    status =
        Status::InvalidArgument("compaction_style", "is none of RocksDB's");
  }
  if (status.ok()) status = ToCompressions(options, result);
  if (!status.ok()) return status;
  const rocksdb_options_t sane = Sanitize(options);
  if (sane.comparator != nullptr) result->comparator = sane.comparator;
  result->merge_operator = sane.merge_operator;
  result->max_successive_merges = sane.max_successive_merges;
  result->allow_ingest_behind =
      sane.allow_ingest_behind != 0 || sane.cf_allow_ingest_behind != 0;
  result->compaction_filter = sane.compaction_filter;
  result->compaction_filter_factory = sane.compaction_filter_factory;
  result->prefix_extractor = sane.prefix_extractor;
  result->memtable_prefix_bloom_size_ratio =
      sane.memtable_prefix_bloom_size_ratio;
  result->write_buffer_size = sane.write_buffer_size;
  result->max_write_buffer_number = std::min(sane.max_write_buffer_number, 64);
  ToTables(sane.table, result);
  ToLevels(sane, result);
  return Status::OK();
}

Status ToVarve(const rocksdb_options_t& options, Options* result) {
  Status status = ToVarve(options, static_cast<DBOptions*>(result));
  if (status.ok()) {
    status = ToVarve(options, static_cast<ColumnFamilyOptions*>(result));
  }
  return status;
}

Status CheckPaths(const rocksdb_options_t& options, const std::string& path) {
  Env* const env = EnvOf(options);
  if (!options.wal_dir.empty() && !IsSamePath(env, options.wal_dir, path)) {
    return Missing("separate directory for logs");
  }
  for (const auto* paths : {&options.db_paths, &options.cf_paths}) {
    for (const DbPath& one : *paths) {
      if (!IsSamePath(env, one.path, path)) {
        return Missing("databases in several paths");
      }
    }
  }
  return Status::OK();
}

}  // namespace varve::rocksdb_c
