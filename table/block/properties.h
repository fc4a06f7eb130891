// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// What a table says of itself in its properties block. Fields that a file
// lacks keep these defaults.
struct TableProperties {
  // How to read it.
  bool index_key_is_user_key = false;
  bool index_value_is_delta_encoded = false;
  uint32_t index_type = 0;
  bool whole_key_filtering = true;
  bool prefix_filtering = true;
  uint32_t external_version = 0;     // Of ingested files; 0 otherwise.
  bool has_global_sequence = false;  // The property is there.
  uint64_t global_sequence = 0;
  uint64_t global_sequence_offset = 0;  // In the block's body, for its check.

  // What is in it.
  uint64_t num_entries = 0;
  uint64_t num_deletions = 0;
  uint64_t num_merge_operands = 0;
  uint64_t num_range_deletions = 0;
  uint64_t raw_key_size = 0;
  uint64_t raw_value_size = 0;
  uint64_t data_size = 0;
  uint64_t index_size = 0;
  uint64_t filter_size = 0;
  uint64_t num_data_blocks = 0;
  uint64_t num_filter_entries = 0;
  uint64_t format_version = 0;
  uint64_t column_family_id = 0;
  uint64_t creation_time_s = 0;
  uint64_t file_creation_time_s = 0;
  uint64_t oldest_key_time_s = 0;
  uint64_t original_file_number = 0;
  std::string column_family_name;
  std::string comparator;
  std::string compression;
  std::string filter_policy;
  std::string db_identity;
  std::string session_identity;
  // Names and values that have no field above, sorted by name.
  std::vector<std::pair<std::string, std::string>> other;
};

// The body of the properties block. Empty texts, and what only ingested files
// have, are left out. Names in `other` must be none of the fields'.
std::string EncodeProperties(const TableProperties& properties);

// What becomes of properties that have no field, and of texts that are for
// people: who only reads the table has no use for them, and would pay their
// memory for each open table.
enum class OtherProperties : uint8_t { kKept, kLeftOut };

// Reads the body of a properties block. `file_name` is for messages. *result
// starts from the defaults. Corruption if the body is no block, its names are
// not in order, or a field has a value that is none.
Status DecodeProperties(const Slice& block_body, const std::string& file_name,
                        TableProperties* result,
                        OtherProperties others = OtherProperties::kKept);

}  // namespace varve
