// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions that set several options at once.

#include <rocksdb/c.h>

#include "compat/rocksdb/options/options.h"
#include "varve/compression_type.h"
#include "varve/filter_policy.h"

using varve::CompressionType;

namespace {

// Options that both styles of compaction share.
void SetMemtableBudget(uint64_t bytes, rocksdb_options_t* options) {
  options->write_buffer_size = bytes / 4;
  options->min_write_buffer_number_to_merge = 2;
  options->max_write_buffer_number = 6;
}

}  // namespace

extern "C" {

void rocksdb_options_increase_parallelism(rocksdb_options_t* options,
                                          int total_threads) {
  if (options == nullptr) return;
  options->max_background_jobs = total_threads;
  rocksdb_env_t* const env = rocksdb_create_default_env();
  if (options->env != nullptr) env->rep = options->env;
  rocksdb_env_set_low_priority_background_threads(env, total_threads);
  rocksdb_env_set_high_priority_background_threads(env, 1);
  rocksdb_env_destroy(env);
}

void rocksdb_options_optimize_for_point_lookup(rocksdb_options_t* options,
                                               uint64_t block_cache_size_mb) {
  if (options == nullptr) return;
  rocksdb_block_based_table_options_t table;
  table.data_block_index_type = 1;
  table.data_block_hash_table_util_ratio = 0.75;
  table.filter_policy = varve::NewBloomFilterPolicy(10);
  table.block_cache = varve::NewBlockCache(block_cache_size_mb << 20);
  options->table = table;
  options->table_format = varve::rocksdb_c::TableFormat::kBlockBased;
  options->memtable_prefix_bloom_size_ratio = 0.02;
  options->memtable_whole_key_filtering = 1;
}

void rocksdb_options_optimize_level_style_compaction(
    rocksdb_options_t* options, uint64_t memtable_memory_budget) {
  if (options == nullptr) return;
  SetMemtableBudget(memtable_memory_budget, options);
  options->level0_file_num_compaction_trigger = 2;
  options->target_file_size_base = memtable_memory_budget / 8;
  options->max_bytes_for_level_base = memtable_memory_budget;
  options->compaction_style = rocksdb_level_compaction;
  const CompressionType type =
      varve::CompressionSupported(CompressionType::kLZ4) ? CompressionType::kLZ4
      : varve::CompressionSupported(CompressionType::kSnappy)
          ? CompressionType::kSnappy
          : CompressionType::kNone;
  const int levels = options->num_levels > 0 ? options->num_levels : 0;
  options->compression_per_level.assign(static_cast<size_t>(levels),
                                        static_cast<int>(type));
  for (int i = 0; i < levels && i < 2; ++i) {
    options->compression_per_level[static_cast<size_t>(i)] =
        rocksdb_no_compression;
  }
}

void rocksdb_options_optimize_universal_style_compaction(
    rocksdb_options_t* options, uint64_t memtable_memory_budget) {
  if (options == nullptr) return;
  SetMemtableBudget(memtable_memory_budget, options);
  options->compaction_style = rocksdb_universal_compaction;
  options->universal_compaction.compression_size_percent = 80;
}

void rocksdb_options_prepare_for_bulk_load(rocksdb_options_t* options) {
  if (options == nullptr) return;
  options->level0_file_num_compaction_trigger = 1 << 30;
  options->level0_slowdown_writes_trigger = 1 << 30;
  options->level0_stop_writes_trigger = 1 << 30;
  options->soft_pending_compaction_bytes_limit = 0;
  options->hard_pending_compaction_bytes_limit = 0;
  options->disable_auto_compactions = 1;
  options->max_compaction_bytes = uint64_t{1} << 60;
  options->num_levels = 2;
  options->max_write_buffer_number = 6;
  options->min_write_buffer_number_to_merge = 1;
  options->max_background_flushes = 4;
  options->max_background_compactions = 2;
  options->target_file_size_base = uint64_t{256} << 20;
}

}  // extern "C"
