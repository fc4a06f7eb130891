// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/option_facts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace varve::rocksdb_c {
namespace {

// Options of column families that RocksDB can change.
constexpr std::string_view kChangeableFamily[] = {
    "arena_block_size",
    "blob_compaction_readahead_size",
    "blob_compression_type",
    "blob_file_size",
    "blob_file_starting_level",
    "blob_gc_age_cutoff",
    "blob_gc_force_threshold",
    "block_protection_bytes_per_key",
    "bottommost_compression",
    "bottommost_file_compaction_delay",
    "compression",
    "compression_options_max_dict_buffer_bytes",
    "compression_options_parallel_threads",
    "compression_options_use_zstd_dict_trainer",
    "compression_options_zstd_max_train_bytes",
    "default_write_temperature",
    "disable_auto_compactions",
    "enable_blob_files",
    "enable_blob_gc",
    "experimental_mempurge_threshold",
    "hard_pending_compaction_bytes_limit",
    "inplace_update_num_locks",
    "last_level_temperature",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_compaction_bytes",
    "max_sequential_skip_in_iterations",
    "max_successive_merges",
    "max_write_buffer_number",
    "memtable_avg_op_scan_flush_trigger",
    "memtable_huge_page_size",
    "memtable_max_range_deletions",
    "memtable_op_scan_flush_trigger",
    "memtable_prefix_bloom_size_ratio",
    "memtable_protection_bytes_per_key",
    "memtable_verify_per_key_checksum_on_seek",
    "memtable_whole_key_filtering",
    "min_blob_size",
    "min_tombstones_for_range_conversion",
    "paranoid_file_checks",
    "paranoid_memory_checks",
    "periodic_compaction_seconds",
    "preclude_last_level_data_seconds",
    "prepopulate_blob_cache",
    "preserve_internal_time_seconds",
    "read_triggered_compaction_threshold",
    "report_bg_io_stats",
    "sample_for_compression",
    "soft_pending_compaction_bytes_limit",
    "strict_max_successive_merges",
    "target_file_size_base",
    "target_file_size_is_upper_bound",
    "target_file_size_multiplier",
    "ttl",
    "uncache_aggressiveness",
    "verify_output_flags",
    "write_buffer_size",
};

// Options of column families that it cannot change.
constexpr std::string_view kFixedFamily[] = {
    "blob_direct_write_partitions",
    "bloom_locality",
    "cf_allow_ingest_behind",
    "compaction_pri",
    "compaction_style",
    "default_temperature",
    "disallow_memtable_writes",
    "enable_blob_direct_write",
    "force_consistency_checks",
    "inplace_update_support",
    "level_compaction_dynamic_level_bytes",
    "max_write_buffer_number_to_maintain",
    "max_write_buffer_size_to_maintain",
    "memtable_batch_lookup_optimization",
    "min_write_buffer_number_to_merge",
    "num_levels",
    "optimize_filters_for_hits",
    "persist_user_defined_timestamps",
};

// Options of databases that it can change.
constexpr std::string_view kChangeableDatabase[] = {
    "avoid_flush_during_shutdown",
    "bytes_per_sync",
    "compaction_readahead_size",
    "daily_offpeak_time_utc",
    "delayed_write_rate",
    "delete_obsolete_files_period_micros",
    "fast_sst_open",
    "manifest_preallocation_size",
    "max_background_compactions",
    "max_background_flushes",
    "max_background_jobs",
    "max_compaction_trigger_wakeup_seconds",
    "max_manifest_file_size",
    "max_manifest_space_amp_pct",
    "max_open_files",
    "max_subcompactions",
    "max_total_wal_size",
    "optimize_manifest_for_recovery",
    "stats_dump_period_sec",
    "stats_history_buffer_size",
    "stats_persist_period_sec",
    "strict_bytes_per_sync",
    "verify_manifest_content_on_close",
    "wal_bytes_per_sync",
    "writable_file_max_buffer_size",
};

// The names of fields that RocksDB spells in another way.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"compression_options_", "compression_opts."},
    {"enable_blob_gc", "enable_blob_garbage_collection"},
    {"blob_gc_", "blob_garbage_collection_"},
};

template <size_t kCount>
bool Contains(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool IsFamilyOption(std::string_view field) {
  return Contains(kChangeableFamily, field) || Contains(kFixedFamily, field);
}

bool CanChange(std::string_view field) {
  return Contains(kChangeableFamily, field) ||
         Contains(kChangeableDatabase, field);
}

std::string SpellingOf(std::string_view field) {
  for (const auto& [own, theirs] : kSpellings) {
    if (!field.starts_with(own)) continue;
    return std::string(theirs).append(field.substr(own.size()));
  }
  return std::string(field);
}

std::string FieldOfSpelling(std::string_view spelling) {
  for (const auto& [own, theirs] : kSpellings) {
    if (!spelling.starts_with(theirs)) continue;
    return std::string(own).append(spelling.substr(theirs.size()));
  }
  return std::string(spelling);
}

}  // namespace varve::rocksdb_c
