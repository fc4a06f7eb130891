// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/public_properties.h"

#include <string_view>
#include <utility>

#include "util/bytes/coding.h"

namespace varve {

namespace {

// A property that PropertiesBlock keeps as a name and a value.
struct OtherField {
  std::string_view name;
  uint64_t TableProperties::*number = nullptr;  // One of these is not null.
  std::string TableProperties::*text = nullptr;
};
constexpr OtherField kOthers[] = {
    {"rocksdb.compression_options", nullptr,
     &TableProperties::compression_options},
    {"rocksdb.creating.host.identity", nullptr, &TableProperties::db_host_id},
    {"rocksdb.fixed.key.length", &TableProperties::fixed_key_len},
    {"rocksdb.merge.operator", nullptr, &TableProperties::merge_operator_name},
    {"rocksdb.property.collectors", nullptr,
     &TableProperties::property_collectors_names},
};

// Returns false if the property has no field, or its value is no number.
bool SetField(std::string_view name, std::string* value,
              TableProperties* result) {
  for (const OtherField& field : kOthers) {
    if (field.name != name) continue;
    if (field.text != nullptr) {
      result->*field.text = std::move(*value);
      return true;
    }
    Slice rest(*value);
    return GetVarint64(&rest, &(result->*field.number));
  }
  return false;
}

void AddText(const char* name, const std::string& value,
             const std::string& prop_delim, const std::string& kv_delim,
             std::string* out) {
  *out += name;
  *out += kv_delim;
  *out += value;
  *out += prop_delim;
}

}  // namespace

TableProperties ToTableProperties(PropertiesBlock block) {
  TableProperties result;
  result.orig_file_number = block.original_file_number;
  result.data_size = block.data_size;
  result.index_size = block.index_size;
  result.index_partitions = block.index_partitions;
  result.top_level_index_size = block.top_level_index_size;
  result.index_key_is_user_key = block.index_key_is_user_key ? 1 : 0;
  result.index_value_is_delta_encoded =
      block.index_value_is_delta_encoded ? 1 : 0;
  result.filter_size = block.filter_size;
  result.raw_key_size = block.raw_key_size;
  result.raw_value_size = block.raw_value_size;
  result.num_data_blocks = block.num_data_blocks;
  result.num_entries = block.num_entries;
  result.num_filter_entries = block.num_filter_entries;
  result.num_deletions = block.num_deletions;
  result.num_merge_operands = block.num_merge_operands;
  result.num_range_deletions = block.num_range_deletions;
  result.format_version = block.format_version;
  result.column_family_id = block.column_family_id;
  result.creation_time = block.creation_time_s;
  result.oldest_key_time = block.oldest_key_time_s;
  result.file_creation_time = block.file_creation_time_s;
  result.db_id = std::move(block.db_identity);
  result.db_session_id = std::move(block.session_identity);
  result.column_family_name = std::move(block.column_family_name);
  result.filter_policy_name = std::move(block.filter_policy);
  result.comparator_name = std::move(block.comparator);
  result.prefix_extractor_name = std::move(block.prefix_extractor);
  result.compression_name = std::move(block.compression);
  for (auto& [name, value] : block.other) {
    if (SetField(name, &value, &result)) continue;
    result.user_collected_properties.emplace(std::move(name), std::move(value));
  }
  return result;
}

std::string TableProperties::ToString(const std::string& prop_delim,
                                      const std::string& kv_delim) const {
  std::string out;
  const auto number = [&](const char* name, uint64_t value) {
    AddText(name, std::to_string(value), prop_delim, kv_delim, &out);
  };
  const auto text = [&](const char* name, const std::string& value) {
    AddText(name, value.empty() ? "N/A" : value, prop_delim, kv_delim, &out);
  };
  const auto average = [&](const char* name, uint64_t bytes) {
    AddText(
        name,
        std::to_string(num_entries == 0 ? 0.0
                                        : static_cast<double>(bytes) /
                                              static_cast<double>(num_entries)),
        prop_delim, kv_delim, &out);
  };
  number("# data blocks", num_data_blocks);
  number("# entries", num_entries);
  number("# deletions", num_deletions);
  number("# merge operands", num_merge_operands);
  number("# range deletions", num_range_deletions);
  number("raw key size", raw_key_size);
  average("raw average key size", raw_key_size);
  number("raw value size", raw_value_size);
  average("raw average value size", raw_value_size);
  number("data block size", data_size);
  number("index block size", index_size);
  if (index_partitions != 0) {
    number("# index partitions", index_partitions);
    number("top-level index size", top_level_index_size);
  }
  number("filter block size", filter_size);
  number("# entries for filter", num_filter_entries);
  text("prefix extractor name", prefix_extractor_name);
  text("column family name", column_family_name);
  number("column family ID", column_family_id);
  text("comparator name", comparator_name);
  text("merge operator name", merge_operator_name);
  text("property collectors names", property_collectors_names);
  text("SST file compression algo", compression_name);
  text("SST file compression options", compression_options);
  number("creation time", creation_time);
  number("time stamp of earliest key", oldest_key_time);
  number("file creation time", file_creation_time);
  text("DB identity", db_id);
  text("DB session identity", db_session_id);
  text("DB host id", db_host_id);
  number("original file number", orig_file_number);
  return out;
}

}  // namespace varve
