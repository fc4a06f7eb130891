// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions that choose the format of tables, the structure of memtables and
// the style of compaction.

#include <rocksdb/c.h>

#include "compat/rocksdb/callbacks/filter_policy.h"
#include "compat/rocksdb/options/options.h"

using varve::rocksdb_c::MemtableFormat;
using varve::rocksdb_c::TableFormat;

extern "C" {

void rocksdb_block_based_options_set_filter_policy(
    rocksdb_block_based_table_options_t* options,
    rocksdb_filterpolicy_t* policy) {
  if (options == nullptr) return;
  options->filter_policy = policy != nullptr ? policy->rep : nullptr;
  options->has_ribbon_filter = policy != nullptr && policy->is_ribbon;
  delete policy;
}

void rocksdb_block_based_options_set_block_cache(
    rocksdb_block_based_table_options_t* options, rocksdb_cache_t* cache) {
  if (options != nullptr && cache != nullptr) options->block_cache = cache->rep;
}

void rocksdb_options_set_block_based_table_factory(
    rocksdb_options_t* options,
    rocksdb_block_based_table_options_t* table_options) {
  if (options == nullptr || table_options == nullptr) return;
  options->table = *table_options;
  options->table_format = TableFormat::kBlockBased;
}

void rocksdb_options_set_plain_table_factory(
    rocksdb_options_t* options, uint32_t /*user_key_len*/,
    int /*bloom_bits_per_key*/, double /*hash_table_ratio*/,
    size_t /*index_sparseness*/
#if VARVE_ROCKSDB_C_VERSION >= 1000
    ,
    size_t /*huge_page_tlb_size*/, char /*encoding_type*/,
    unsigned char /*full_scan_mode*/, unsigned char /*store_index_in_file*/
#endif
) {
  if (options != nullptr) options->table_format = TableFormat::kPlain;
}

void rocksdb_options_set_cuckoo_table_factory(
    rocksdb_options_t* options, rocksdb_cuckoo_table_options_t* table_options) {
  if (options == nullptr || table_options == nullptr) return;
  options->table_format = TableFormat::kCuckoo;
}

void rocksdb_options_set_memtable_vector_rep(rocksdb_options_t* options) {
  if (options != nullptr) options->memtable_format = MemtableFormat::kVector;
}

void rocksdb_options_set_hash_skip_list_rep(rocksdb_options_t* options,
                                            size_t /*bucket_count*/,
                                            int32_t /*skiplist_height*/,
                                            int32_t /*branching_factor*/) {
  if (options == nullptr) return;
  options->memtable_format = MemtableFormat::kHashSkipList;
}

void rocksdb_options_set_hash_link_list_rep(rocksdb_options_t* options,
                                            size_t /*bucket_count*/) {
  if (options == nullptr) return;
  options->memtable_format = MemtableFormat::kHashLinkList;
}

void rocksdb_options_set_universal_compaction_options(
    rocksdb_options_t* options, rocksdb_universal_compaction_options_t* style) {
  if (options != nullptr && style != nullptr) {
    options->universal_compaction = *style;
  }
}

void rocksdb_options_set_fifo_compaction_options(
    rocksdb_options_t* options, rocksdb_fifo_compaction_options_t* style) {
  if (options != nullptr && style != nullptr) options->fifo_compaction = *style;
}

}  // extern "C"
