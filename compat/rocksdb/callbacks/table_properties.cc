// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The properties of a table, of which a listener is told.
#include "compat/rocksdb/callbacks/table_properties.h"

#include <string>

using Properties = rocksdb_table_properties_t;

namespace {

uint64_t Number(const Properties* props,
                uint64_t varve::TableProperties::*field) {
  return props != nullptr ? props->rep.*field : 0;
}

// Returns a text that ends with a zero byte, and its size.
const char* Text(const Properties* props,
                 std::string varve::TableProperties::*field, size_t* size) {
  if (size != nullptr)
    *size = props != nullptr ? (props->rep.*field).size() : 0;
  return props != nullptr ? (props->rep.*field).c_str() : nullptr;
}

}  // namespace

extern "C" {

uint64_t rocksdb_table_properties_orig_file_number(const Properties* props) {
  return Number(props, &varve::TableProperties::orig_file_number);
}

uint64_t rocksdb_table_properties_data_size(const Properties* props) {
  return Number(props, &varve::TableProperties::data_size);
}

uint64_t rocksdb_table_properties_index_size(const Properties* props) {
  return Number(props, &varve::TableProperties::index_size);
}

uint64_t rocksdb_table_properties_index_partitions(const Properties* props) {
  return Number(props, &varve::TableProperties::index_partitions);
}

uint64_t rocksdb_table_properties_top_level_index_size(
    const Properties* props) {
  return Number(props, &varve::TableProperties::top_level_index_size);
}

uint64_t rocksdb_table_properties_index_key_is_user_key(
    const Properties* props) {
  return Number(props, &varve::TableProperties::index_key_is_user_key);
}

uint64_t rocksdb_table_properties_index_value_is_delta_encoded(
    const Properties* props) {
  return Number(props, &varve::TableProperties::index_value_is_delta_encoded);
}

uint64_t rocksdb_table_properties_filter_size(const Properties* props) {
  return Number(props, &varve::TableProperties::filter_size);
}

uint64_t rocksdb_table_properties_raw_key_size(const Properties* props) {
  return Number(props, &varve::TableProperties::raw_key_size);
}

uint64_t rocksdb_table_properties_raw_value_size(const Properties* props) {
  return Number(props, &varve::TableProperties::raw_value_size);
}

uint64_t rocksdb_table_properties_num_data_blocks(const Properties* props) {
  return Number(props, &varve::TableProperties::num_data_blocks);
}

uint64_t rocksdb_table_properties_num_entries(const Properties* props) {
  return Number(props, &varve::TableProperties::num_entries);
}

uint64_t rocksdb_table_properties_num_filter_entries(const Properties* props) {
  return Number(props, &varve::TableProperties::num_filter_entries);
}

uint64_t rocksdb_table_properties_num_deletions(const Properties* props) {
  return Number(props, &varve::TableProperties::num_deletions);
}

uint64_t rocksdb_table_properties_num_merge_operands(const Properties* props) {
  return Number(props, &varve::TableProperties::num_merge_operands);
}

uint64_t rocksdb_table_properties_num_range_deletions(const Properties* props) {
  return Number(props, &varve::TableProperties::num_range_deletions);
}

uint64_t rocksdb_table_properties_format_version(const Properties* props) {
  return Number(props, &varve::TableProperties::format_version);
}

uint64_t rocksdb_table_properties_fixed_key_len(const Properties* props) {
  return Number(props, &varve::TableProperties::fixed_key_len);
}

uint64_t rocksdb_table_properties_column_family_id(const Properties* props) {
  return Number(props, &varve::TableProperties::column_family_id);
}

uint64_t rocksdb_table_properties_creation_time(const Properties* props) {
  return Number(props, &varve::TableProperties::creation_time);
}

uint64_t rocksdb_table_properties_oldest_key_time(const Properties* props) {
  return Number(props, &varve::TableProperties::oldest_key_time);
}

uint64_t rocksdb_table_properties_file_creation_time(const Properties* props) {
  return Number(props, &varve::TableProperties::file_creation_time);
}

uint64_t rocksdb_table_properties_external_sst_file_global_seqno_offset(
    const Properties* props) {
  return Number(props,
                &varve::TableProperties::external_sst_file_global_seqno_offset);
}

const char* rocksdb_table_properties_db_id(const Properties* props,
                                           size_t* size) {
  return Text(props, &varve::TableProperties::db_id, size);
}

const char* rocksdb_table_properties_db_session_id(const Properties* props,
                                                   size_t* size) {
  return Text(props, &varve::TableProperties::db_session_id, size);
}

const char* rocksdb_table_properties_db_host_id(const Properties* props,
                                                size_t* size) {
  return Text(props, &varve::TableProperties::db_host_id, size);
}

const char* rocksdb_table_properties_column_family_name(const Properties* props,
                                                        size_t* size) {
  return Text(props, &varve::TableProperties::column_family_name, size);
}

const char* rocksdb_table_properties_filter_policy_name(const Properties* props,
                                                        size_t* size) {
  return Text(props, &varve::TableProperties::filter_policy_name, size);
}

const char* rocksdb_table_properties_comparator_name(const Properties* props,
                                                     size_t* size) {
  return Text(props, &varve::TableProperties::comparator_name, size);
}

const char* rocksdb_table_properties_merge_operator_name(
    const Properties* props, size_t* size) {
  return Text(props, &varve::TableProperties::merge_operator_name, size);
}

const char* rocksdb_table_properties_prefix_extractor_name(
    const Properties* props, size_t* size) {
  return Text(props, &varve::TableProperties::prefix_extractor_name, size);
}

const char* rocksdb_table_properties_property_collectors_names(
    const Properties* props, size_t* size) {
  return Text(props, &varve::TableProperties::property_collectors_names, size);
}

const char* rocksdb_table_properties_compression_name(const Properties* props,
                                                      size_t* size) {
  return Text(props, &varve::TableProperties::compression_name, size);
}

const char* rocksdb_table_properties_compression_options(
    const Properties* props, size_t* size) {
  return Text(props, &varve::TableProperties::compression_options, size);
}

}  // extern "C"
