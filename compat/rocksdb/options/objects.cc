// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions that give options the objects they refer to. As with RocksDB, the
// options share or take over an object, except comparators and compaction
// filters, which the program keeps.

#include <rocksdb/c.h>

#include <cstdio>

#include "compat/rocksdb/callbacks/compaction_filter.h"
#include "compat/rocksdb/callbacks/comparator.h"
#include "compat/rocksdb/callbacks/event_listener.h"
#include "compat/rocksdb/callbacks/logger.h"
#include "compat/rocksdb/callbacks/merge_operator.h"
#include "compat/rocksdb/observe/sst_file_manager.h"
#include "compat/rocksdb/observe/write_buffer_manager.h"
#include "compat/rocksdb/options/options.h"
#include "compat/rocksdb/options/slice_transform.h"

namespace {

// Replaces the options' directories. Null elements are left out.
void SetPaths(const rocksdb_dbpath_t** paths, size_t count,
              std::vector<varve::rocksdb_c::DbPath>* result) {
  result->clear();
  for (size_t i = 0; paths != nullptr && i < count; ++i) {
    if (paths[i] != nullptr) result->push_back(paths[i]->rep);
  }
}

// The engine needs no hint to compact after many deletions.
void AddDeletionCollector(size_t window, size_t trigger, double ratio,
                          rocksdb_options_t* options) {
  if (options == nullptr) return;
  char text[200];
  snprintf(text, sizeof(text),
           "CompactOnDeletionCollector (Sliding window size = %zu Deletion "
           "trigger = %zu Deletion ratio = %g)",
           window, trigger, ratio);
  options->deletion_collectors.emplace_back(text);
}

}  // namespace

extern "C" {

void rocksdb_options_set_comparator(rocksdb_options_t* options,
                                    rocksdb_comparator_t* comparator) {
  if (options != nullptr) options->comparator = comparator;
}

void rocksdb_options_set_merge_operator(
    rocksdb_options_t* options, rocksdb_mergeoperator_t* merge_operator) {
  if (options != nullptr) options->merge_operator.reset(merge_operator);
}

void rocksdb_options_set_compaction_filter(rocksdb_options_t* options,
                                           rocksdb_compactionfilter_t* filter) {
  if (options != nullptr) options->compaction_filter = filter;
}

void rocksdb_options_set_compaction_filter_factory(
    rocksdb_options_t* options, rocksdb_compactionfilterfactory_t* factory) {
  if (options != nullptr) options->compaction_filter_factory.reset(factory);
}

void rocksdb_options_set_prefix_extractor(rocksdb_options_t* options,
                                          rocksdb_slicetransform_t* transform) {
  if (options != nullptr) options->prefix_extractor.reset(transform);
}

void rocksdb_options_add_eventlistener(rocksdb_options_t* options,
                                       rocksdb_eventlistener_t* listener) {
  if (options != nullptr && listener != nullptr) {
    options->listeners.emplace_back(listener);
  }
}

void rocksdb_options_set_env(rocksdb_options_t* options, rocksdb_env_t* env) {
  if (options != nullptr) options->env = env != nullptr ? env->rep : nullptr;
}

void rocksdb_options_set_info_log(rocksdb_options_t* options,
                                  rocksdb_logger_t* logger) {
  if (options != nullptr && logger != nullptr) options->info_log = logger->rep;
}

rocksdb_logger_t* rocksdb_options_get_info_log(rocksdb_options_t* options) {
  if (options == nullptr) return nullptr;
  return new rocksdb_logger_t{options->info_log};
}

void rocksdb_options_set_write_buffer_manager(
    rocksdb_options_t* options, rocksdb_write_buffer_manager_t* manager) {
  if (options != nullptr && manager != nullptr) {
    options->write_buffer_manager = manager->rep;
  }
}

// Also keeps the manager's environment.
void rocksdb_options_set_sst_file_manager(rocksdb_options_t* options,
                                          rocksdb_sst_file_manager_t* manager) {
  if (options == nullptr || manager == nullptr) return;
  options->sst_file_manager = {
      std::make_shared<rocksdb_sst_file_manager_t>(*manager),
      manager->rep.get()};
}

void rocksdb_options_set_ratelimiter(rocksdb_options_t* options,
                                     rocksdb_ratelimiter_t* limiter) {
  if (options != nullptr && limiter != nullptr) {
    options->rate_limiter = limiter->rep;
  }
}

void rocksdb_options_set_row_cache(rocksdb_options_t* options,
                                   rocksdb_cache_t* cache) {
  if (options != nullptr && cache != nullptr) options->row_cache = cache->rep;
}

void rocksdb_options_set_blob_cache(rocksdb_options_t* options,
                                    rocksdb_cache_t* cache) {
  if (options != nullptr && cache != nullptr) options->blob_cache = cache->rep;
}

void rocksdb_options_set_db_paths(rocksdb_options_t* options,
                                  const rocksdb_dbpath_t** paths,
                                  size_t count) {
  if (options != nullptr) SetPaths(paths, count, &options->db_paths);
}

void rocksdb_options_set_cf_paths(rocksdb_options_t* options,
                                  const rocksdb_dbpath_t** paths,
                                  size_t count) {
  if (options != nullptr) SetPaths(paths, count, &options->cf_paths);
}

rocksdb_dbpath_t* rocksdb_dbpath_create(const char* path,
                                        uint64_t target_size) {
  if (path == nullptr) return nullptr;
  return new rocksdb_dbpath_t{{path, target_size}};
}

void rocksdb_envoptions_set_rate_limiter(rocksdb_envoptions_t* options,
                                         rocksdb_ratelimiter_t* limiter) {
  if (options == nullptr) return;
  options->rate_limiter = limiter != nullptr ? limiter->rep : nullptr;
}

// ---- Hints ------------------------------------------------------------------

void rocksdb_options_add_compact_on_deletion_collector_factory(
    rocksdb_options_t* options, size_t window_size, size_t num_dels_trigger) {
  AddDeletionCollector(window_size, num_dels_trigger, 0, options);
}

void rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
    rocksdb_options_t* options, size_t window_size, size_t num_dels_trigger,
    double deletion_ratio) {
  AddDeletionCollector(window_size, num_dels_trigger, deletion_ratio, options);
}

void rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
    rocksdb_options_t* options, size_t window_size, size_t num_dels_trigger,
    double deletion_ratio, uint64_t /*min_file_size*/) {
  AddDeletionCollector(window_size, num_dels_trigger, deletion_ratio, options);
}

void rocksdb_options_checksum_handoff_file_types_clear(
    rocksdb_options_t* options) {
  if (options != nullptr) options->checksum_handoff_file_types.clear();
}

void rocksdb_options_checksum_handoff_file_types_add(rocksdb_options_t* options,
                                                     int type) {
  if (options != nullptr) options->checksum_handoff_file_types.insert(type);
}

void rocksdb_options_checksum_handoff_file_types_remove(
    rocksdb_options_t* options, int type) {
  if (options != nullptr) options->checksum_handoff_file_types.erase(type);
}

unsigned char rocksdb_options_checksum_handoff_file_types_contains(
    rocksdb_options_t* options, int type) {
  return options != nullptr &&
         options->checksum_handoff_file_types.contains(type);
}

size_t rocksdb_options_checksum_handoff_file_types_count(
    rocksdb_options_t* options) {
  return options != nullptr ? options->checksum_handoff_file_types.size() : 0;
}

void rocksdb_options_calculate_sst_write_lifetime_hint_set_clear(
    rocksdb_options_t* options) {
  if (options != nullptr) options->write_lifetime_hint_styles.clear();
}

void rocksdb_options_calculate_sst_write_lifetime_hint_set_add(
    rocksdb_options_t* options, int style) {
  if (options != nullptr) options->write_lifetime_hint_styles.insert(style);
}

void rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(
    rocksdb_options_t* options, int style) {
  if (options != nullptr) options->write_lifetime_hint_styles.erase(style);
}

unsigned char rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(
    rocksdb_options_t* options, int style) {
  return options != nullptr &&
         options->write_lifetime_hint_styles.contains(style);
}

size_t rocksdb_options_calculate_sst_write_lifetime_hint_set_count(
    rocksdb_options_t* options) {
  return options != nullptr ? options->write_lifetime_hint_styles.size() : 0;
}

}  // extern "C"
