// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The options of single calls: the engine's form of their fields, and the C
// functions that set what is not a plain field.

#include <rocksdb/c.h>

#include <span>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"

using varve::Slice;
using varve::rocksdb_c::CompactOptionsFields;
using varve::rocksdb_c::Field;
using varve::rocksdb_c::FieldKind;
using varve::rocksdb_c::FlushOptionsFields;
using varve::rocksdb_c::kCompactOptionsFields;
using varve::rocksdb_c::kFlushOptionsFields;
using varve::rocksdb_c::kReadOptionsFields;
using varve::rocksdb_c::kWriteOptionsFields;
using varve::rocksdb_c::ReadOptionsFields;
using varve::rocksdb_c::WriteOptionsFields;

namespace {

constexpr char kTimestamps[] = "user timestamps";

// Sets a bound, which is null without a key, and the slice that it points to.
void SetBound(const char* key, size_t size, Slice* slice, const Slice** bound) {
  *slice = key != nullptr && size > 0 ? Slice(key, size) : Slice();
  *bound = key != nullptr ? slice : nullptr;
}

// Returns the missing feature that a field needs, or null.
template <typename Fields>
const char* MissingFeature(std::span<const Field> list, const Fields& fields) {
  for (const Field& field : list) {
    if (field.kind == FieldKind::kRefused && !field.is_default(&fields)) {
      return field.feature;
    }
  }
  return nullptr;
}

}  // namespace

void rocksdb_readoptions_t::Changed() {
  rep.verify_checksums = verify_checksums != 0;
  rep.fill_cache = fill_cache != 0;
  rep.readahead_size = readahead_size;
  rep.total_order_seek = total_order_seek != 0;
  rep.prefix_same_as_start = prefix_same_as_start != 0;
  rep.auto_prefix_mode = auto_prefix_mode != 0;
  rep.deadline = deadline;
  rep.max_skippable_internal_keys = max_skippable_internal_keys;
  rep.tailing = tailing != 0;
  rep.async_io = async_io != 0;
  // RocksDB's numbers are the engine's, without the memtables alone.
  constexpr int kMemtableTier = 3;
  if (read_tier >= 0 && read_tier < kMemtableTier) {
    rep.read_tier = static_cast<varve::ReadTier>(read_tier);
  }
  if (has_timestamp || has_iter_start_timestamp) {
    refused = kTimestamps;
  } else if (has_table_filter) {
    refused = "table filters of reads";
  } else if (read_tier < 0 || read_tier >= kMemtableTier) {
    refused = "reads from the memtables alone";
  } else {
    refused = MissingFeature<ReadOptionsFields>(kReadOptionsFields, *this);
  }
}

void rocksdb_readoptions_t::ClearTableFilter() {
  if (table_filter_destructor != nullptr) {
    table_filter_destructor(table_filter_state);
  }
  has_table_filter = false;
  table_filter_state = nullptr;
  table_filter_destructor = nullptr;
}

void rocksdb_writeoptions_t::Changed() {
  rep.sync = sync != 0;
  rep.disable_wal = disable_WAL != 0;
  rep.no_slowdown = no_slowdown != 0;
  refused = MissingFeature<WriteOptionsFields>(kWriteOptionsFields, *this);
}

void rocksdb_flushoptions_t::Changed() {
  rep.wait = wait != 0;
  refused = MissingFeature<FlushOptionsFields>(kFlushOptionsFields, *this);
}

void rocksdb_compactoptions_t::Changed() {
  // RocksDB's numbers.
  constexpr int kForce = 2;
  constexpr int kForceOptimized = 3;
  rep.rewrite_bottommost_level = bottommost_level_compaction == kForce ||
                                 bottommost_level_compaction == kForceOptimized;
  rep.exclusive_manual_compaction = exclusive_manual_compaction != 0;
  rep.target_level = change_level != 0 ? target_level : -1;
  refused = has_full_history_timestamp ? kTimestamps
                                       : MissingFeature<CompactOptionsFields>(
                                             kCompactOptionsFields, *this);
}

extern "C" {

void rocksdb_readoptions_set_snapshot(rocksdb_readoptions_t* options,
                                      const rocksdb_snapshot_t* snapshot) {
  if (options == nullptr) return;
  options->rep.snapshot = snapshot != nullptr ? snapshot->rep : nullptr;
}

void rocksdb_readoptions_set_iterate_upper_bound(rocksdb_readoptions_t* options,
                                                 const char* key, size_t size) {
  if (options == nullptr) return;
  SetBound(key, size, &options->upper_bound, &options->rep.iterate_upper_bound);
}

void rocksdb_readoptions_set_iterate_lower_bound(rocksdb_readoptions_t* options,
                                                 const char* key, size_t size) {
  if (options == nullptr) return;
  SetBound(key, size, &options->lower_bound, &options->rep.iterate_lower_bound);
}

void rocksdb_readoptions_set_timestamp(rocksdb_readoptions_t* options,
                                       const char* timestamp, size_t /*size*/) {
  if (options == nullptr) return;
  options->has_timestamp = timestamp != nullptr;
  options->Changed();
}

void rocksdb_readoptions_set_iter_start_ts(rocksdb_readoptions_t* options,
                                           const char* timestamp,
                                           size_t /*size*/) {
  if (options == nullptr) return;
  options->has_iter_start_timestamp = timestamp != nullptr;
  options->Changed();
}

void rocksdb_readoptions_set_merge_operand_count_threshold(
    rocksdb_readoptions_t* options, size_t threshold) {
  if (options != nullptr) options->merge_operand_count_threshold = threshold;
}

void rocksdb_readoptions_clear_merge_operand_count_threshold(
    rocksdb_readoptions_t* options) {
  if (options != nullptr) options->merge_operand_count_threshold.reset();
}

unsigned char rocksdb_readoptions_has_merge_operand_count_threshold(
    rocksdb_readoptions_t* options) {
  return options != nullptr && options->merge_operand_count_threshold;
}

size_t rocksdb_readoptions_get_merge_operand_count_threshold(
    rocksdb_readoptions_t* options) {
  return options != nullptr ? options->merge_operand_count_threshold.value_or(0)
                            : 0;
}

void rocksdb_readoptions_set_request_id(rocksdb_readoptions_t* options,
                                        const char* id, size_t size) {
  if (options == nullptr) return;
  options->request_id.reset();
  if (id != nullptr) options->request_id.emplace(id, size);
}

void rocksdb_readoptions_clear_request_id(rocksdb_readoptions_t* options) {
  if (options != nullptr) options->request_id.reset();
}

const char* rocksdb_readoptions_get_request_id(rocksdb_readoptions_t* options,
                                               size_t* size) {
  const bool is_set = options != nullptr && options->request_id;
  if (size != nullptr) *size = is_set ? options->request_id->size() : 0;
  return is_set ? options->request_id->data() : nullptr;
}

void rocksdb_readoptions_set_table_filter(
    rocksdb_readoptions_t* options, void* state, void (*destructor)(void*),
    rocksdb_readoptions_table_filter_cb filter) {
  if (options == nullptr) return;
  options->ClearTableFilter();
  options->table_filter_state = state;
  options->table_filter_destructor = destructor;
  options->has_table_filter = filter != nullptr;
  options->Changed();
}

void rocksdb_readoptions_clear_table_filter(rocksdb_readoptions_t* options) {
  if (options == nullptr) return;
  options->ClearTableFilter();
  options->Changed();
}

unsigned char rocksdb_readoptions_has_table_filter(
    const rocksdb_readoptions_t* options) {
  return options != nullptr && options->has_table_filter;
}

void rocksdb_compactoptions_set_full_history_ts_low(
    rocksdb_compactoptions_t* options, char* timestamp, size_t /*size*/) {
  if (options == nullptr) return;
  options->has_full_history_timestamp = timestamp != nullptr;
  options->Changed();
}

}  // extern "C"
