// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The counters of RocksDB's perf context, in the order of its report.

#include <cstdint>

#include "rocksdb/c.h"
#include "varve/perf_context.h"

namespace varve::rocksdb_c {

inline constexpr int kNoMetric = -1;

struct PerfCounter {
  const char* name;
  int metric;  // Its number in rocksdb/c.h, or kNoMetric.
  // Null if Varve does not count it. It is then 0.
  uint64_t PerfContext::*field;

  uint64_t Get(const PerfContext& context) const {
    return field == nullptr ? 0 : context.*field;
  }
};

inline constexpr PerfCounter kPerfCounters[] = {
    // clang-format off
    {"user_key_comparison_count", rocksdb_user_key_comparison_count, nullptr},
    {"block_cache_hit_count", rocksdb_block_cache_hit_count, &PerfContext::block_cache_hit_count},
    {"block_read_count", rocksdb_block_read_count, &PerfContext::block_read_count},
    {"block_read_byte", rocksdb_block_read_byte, &PerfContext::block_read_byte},
    {"block_read_time", rocksdb_block_read_time, &PerfContext::block_read_time},
    {"block_read_cpu_time", rocksdb_block_read_cpu_time, nullptr},
    {"block_cache_index_hit_count", kNoMetric, nullptr},
    {"block_cache_standalone_handle_count", kNoMetric, nullptr},
    {"block_cache_real_handle_count", kNoMetric, nullptr},
    {"index_block_read_count", kNoMetric, nullptr},
    {"block_cache_filter_hit_count", kNoMetric, nullptr},
    {"filter_block_read_count", kNoMetric, nullptr},
    {"compression_dict_block_read_count", kNoMetric, nullptr},
    {"block_cache_index_read_byte", kNoMetric, nullptr},
    {"block_cache_filter_read_byte", kNoMetric, nullptr},
    {"block_cache_compression_dict_read_byte", kNoMetric, nullptr},
    {"block_cache_read_byte", kNoMetric, nullptr},
    {"secondary_cache_hit_count", kNoMetric, nullptr},
    {"compressed_sec_cache_insert_real_count", kNoMetric, nullptr},
    {"compressed_sec_cache_insert_dummy_count", kNoMetric, nullptr},
    {"compressed_sec_cache_uncompressed_bytes", kNoMetric, nullptr},
    {"compressed_sec_cache_compressed_bytes", kNoMetric, nullptr},
    {"block_checksum_time", rocksdb_block_checksum_time, &PerfContext::block_checksum_time},
    {"block_decompress_time", rocksdb_block_decompress_time, &PerfContext::block_decompress_time},
    {"block_decompress_count", kNoMetric, nullptr},
    {"get_read_bytes", rocksdb_get_read_bytes, &PerfContext::get_read_bytes},
    {"multiget_read_bytes", rocksdb_multiget_read_bytes, &PerfContext::multiget_read_bytes},
    {"iter_read_bytes", rocksdb_iter_read_bytes, &PerfContext::iter_read_bytes},
    {"blob_cache_hit_count", rocksdb_blob_cache_hit_count, nullptr},
    {"blob_cache_read_byte", rocksdb_blob_cache_read_byte, nullptr},
    {"blob_read_count", rocksdb_blob_read_count, nullptr},
    {"blob_read_byte", rocksdb_blob_read_byte, nullptr},
    {"blob_read_time", rocksdb_blob_read_time, nullptr},
    {"blob_checksum_time", rocksdb_blob_checksum_time, nullptr},
    {"blob_decompress_time", rocksdb_blob_decompress_time, nullptr},
    {"internal_key_skipped_count", rocksdb_internal_key_skipped_count, &PerfContext::internal_key_skipped_count},
    {"internal_delete_skipped_count", rocksdb_internal_delete_skipped_count, &PerfContext::internal_delete_skipped_count},
    {"internal_recent_skipped_count", rocksdb_internal_recent_skipped_count, nullptr},
    {"internal_merge_count", rocksdb_internal_merge_count, nullptr},
    {"internal_merge_point_lookup_count", rocksdb_internal_merge_point_lookup_count, nullptr},
    {"internal_range_del_reseek_count", rocksdb_internal_range_del_reseek_count, nullptr},
    {"get_snapshot_time", rocksdb_get_snapshot_time, nullptr},
    {"get_from_memtable_time", rocksdb_get_from_memtable_time, &PerfContext::get_from_memtable_time},
    {"get_from_memtable_count", rocksdb_get_from_memtable_count, &PerfContext::get_from_memtable_count},
    {"get_post_process_time", rocksdb_get_post_process_time, nullptr},
    {"get_from_output_files_time", rocksdb_get_from_output_files_time, &PerfContext::get_from_output_files_time},
    {"seek_on_memtable_time", rocksdb_seek_on_memtable_time, nullptr},
    {"seek_on_memtable_count", rocksdb_seek_on_memtable_count, nullptr},
    {"next_on_memtable_count", rocksdb_next_on_memtable_count, nullptr},
    {"prev_on_memtable_count", rocksdb_prev_on_memtable_count, nullptr},
    {"seek_child_seek_time", rocksdb_seek_child_seek_time, nullptr},
    {"seek_child_seek_count", rocksdb_seek_child_seek_count, nullptr},
    {"seek_min_heap_time", rocksdb_seek_min_heap_time, nullptr},
    {"seek_max_heap_time", rocksdb_seek_max_heap_time, nullptr},
    {"seek_internal_seek_time", rocksdb_seek_internal_seek_time, nullptr},
    {"find_next_user_entry_time", rocksdb_find_next_user_entry_time, nullptr},
    {"write_wal_time", rocksdb_write_wal_time, &PerfContext::write_wal_time},
    {"write_memtable_time", rocksdb_write_memtable_time, &PerfContext::write_memtable_time},
    {"write_delay_time", rocksdb_write_delay_time, &PerfContext::write_delay_time},
    {"write_scheduling_flushes_compactions_time", kNoMetric, nullptr},
    {"write_pre_and_post_process_time", rocksdb_write_pre_and_post_process_time, nullptr},
    {"write_thread_wait_nanos", kNoMetric, nullptr},
    {"db_mutex_lock_nanos", rocksdb_db_mutex_lock_nanos, &PerfContext::db_mutex_lock_nanos},
    {"db_condition_wait_nanos", rocksdb_db_condition_wait_nanos, nullptr},
    {"merge_operator_time_nanos", rocksdb_merge_operator_time_nanos, nullptr},
    {"read_index_block_nanos", rocksdb_read_index_block_nanos, nullptr},
    {"read_filter_block_nanos", rocksdb_read_filter_block_nanos, nullptr},
    {"new_table_block_iter_nanos", rocksdb_new_table_block_iter_nanos, nullptr},
    {"new_table_iterator_nanos", rocksdb_new_table_iterator_nanos, nullptr},
    {"block_seek_nanos", rocksdb_block_seek_nanos, nullptr},
    {"find_table_nanos", rocksdb_find_table_nanos, nullptr},
    {"bloom_memtable_hit_count", rocksdb_bloom_memtable_hit_count, nullptr},
    {"bloom_memtable_miss_count", rocksdb_bloom_memtable_miss_count, nullptr},
    {"bloom_sst_hit_count", rocksdb_bloom_sst_hit_count, &PerfContext::bloom_sst_hit_count},
    {"bloom_sst_miss_count", rocksdb_bloom_sst_miss_count, &PerfContext::bloom_sst_miss_count},
    {"key_lock_wait_time", rocksdb_key_lock_wait_time, nullptr},
    {"key_lock_wait_count", rocksdb_key_lock_wait_count, nullptr},
    {"env_new_sequential_file_nanos", rocksdb_env_new_sequential_file_nanos, nullptr},
    {"env_new_random_access_file_nanos", rocksdb_env_new_random_access_file_nanos, nullptr},
    {"env_new_writable_file_nanos", rocksdb_env_new_writable_file_nanos, nullptr},
    {"env_reuse_writable_file_nanos", rocksdb_env_reuse_writable_file_nanos, nullptr},
    {"env_new_random_rw_file_nanos", rocksdb_env_new_random_rw_file_nanos, nullptr},
    {"env_new_directory_nanos", rocksdb_env_new_directory_nanos, nullptr},
    {"env_file_exists_nanos", rocksdb_env_file_exists_nanos, nullptr},
    {"env_get_children_nanos", rocksdb_env_get_children_nanos, nullptr},
    {"env_get_children_file_attributes_nanos", rocksdb_env_get_children_file_attributes_nanos, nullptr},
    {"env_delete_file_nanos", rocksdb_env_delete_file_nanos, nullptr},
    {"env_create_dir_nanos", rocksdb_env_create_dir_nanos, nullptr},
    {"env_create_dir_if_missing_nanos", rocksdb_env_create_dir_if_missing_nanos, nullptr},
    {"env_delete_dir_nanos", rocksdb_env_delete_dir_nanos, nullptr},
    {"env_get_file_size_nanos", rocksdb_env_get_file_size_nanos, nullptr},
    {"env_get_file_modification_time_nanos", rocksdb_env_get_file_modification_time_nanos, nullptr},
    {"env_rename_file_nanos", rocksdb_env_rename_file_nanos, nullptr},
    {"env_link_file_nanos", rocksdb_env_link_file_nanos, nullptr},
    {"env_lock_file_nanos", rocksdb_env_lock_file_nanos, nullptr},
    {"env_unlock_file_nanos", rocksdb_env_unlock_file_nanos, nullptr},
    {"env_new_logger_nanos", rocksdb_env_new_logger_nanos, nullptr},
    {"get_cpu_nanos", kNoMetric, nullptr},
    {"iter_next_cpu_nanos", kNoMetric, nullptr},
    {"iter_prev_cpu_nanos", kNoMetric, nullptr},
    {"iter_seek_cpu_nanos", kNoMetric, nullptr},
    {"iter_next_count", kNoMetric, nullptr},
    {"iter_prev_count", kNoMetric, nullptr},
    {"iter_seek_count", kNoMetric, nullptr},
    {"encrypt_data_nanos", kNoMetric, nullptr},
    {"decrypt_data_nanos", kNoMetric, nullptr},
    {"number_async_seek", rocksdb_number_async_seek, nullptr},
    {"file_ingestion_nanos", kNoMetric, nullptr},
    {"file_ingestion_blocking_live_writes_nanos", kNoMetric, nullptr},
    {"data_block_read_byte", rocksdb_data_block_read_byte, nullptr},
    {"index_block_read_byte", rocksdb_index_block_read_byte, nullptr},
    {"filter_block_read_byte", rocksdb_filter_block_read_byte, nullptr},
    {"compression_dict_block_read_byte", rocksdb_compression_dict_block_read_byte, nullptr},
    {"metadata_block_read_byte", rocksdb_metadata_block_read_byte, nullptr},
    {"multiscan_prepare_count", kNoMetric, nullptr},
    {"multiscan_blocks_prefetched", kNoMetric, nullptr},
    {"multiscan_blocks_from_cache", kNoMetric, nullptr},
    {"multiscan_prefetch_bytes", kNoMetric, nullptr},
    {"multiscan_io_requests", kNoMetric, nullptr},
    {"multiscan_io_coalesced_nonadjacent", kNoMetric, nullptr},
    // clang-format on
};

}  // namespace varve::rocksdb_c
