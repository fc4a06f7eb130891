// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The type of an index whose entries name index blocks, in the properties.
constexpr uint32_t kTwoLevelIndexType = 2;

// The contents of a table's properties block. Fields that a file lacks keep
// these defaults.
struct PropertiesBlock {
  // How to read the table.
  bool index_key_is_user_key = false;
  bool index_value_is_delta_encoded = false;
  uint32_t index_type = 0;
  bool whole_key_filtering = true;
  bool prefix_filtering = true;
  uint32_t external_version = 0;     // For ingested files; otherwise 0.
  bool has_global_sequence = false;  // The property is present.
  uint64_t global_sequence = 0;
  uint64_t global_sequence_offset = 0;  // In the block, for its checksum.

  // The contents of the table.
  uint64_t num_entries = 0;
  uint64_t num_deletions = 0;
  uint64_t num_merge_operands = 0;
  uint64_t num_range_deletions = 0;
  uint64_t raw_key_size = 0;
  uint64_t raw_value_size = 0;
  uint64_t data_size = 0;
  uint64_t index_size = 0;  // With all partitions.
  uint64_t filter_size = 0;
  uint64_t num_data_blocks = 0;
  uint64_t num_filter_entries = 0;
  // Of a partitioned index; otherwise 0.
  uint64_t index_partitions = 0;
  uint64_t top_level_index_size = 0;
  // Varve's own. Entries that a newer value or deletion of their user key
  // hides, and the most successive entries that are deletions or such entries.
  uint64_t num_hidden_entries = 0;
  uint64_t longest_dead_run = 0;
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
  // The name of the function that made the prefixes in the filter. Empty, or
  // "nullptr" in the files of RocksDB, if there was none.
  std::string prefix_extractor;
  std::string db_identity;
  std::string session_identity;
  // Names and values of properties without a field above, sorted by name.
  std::vector<std::pair<std::string, std::string>> other;
};

// How many of a table's entries a reader of the newest versions steps over.
// Range deletions and the entries that they hide are not among these.
struct DeadEntries {
  bool known = false;
  uint64_t entries = 0;    // All.
  uint64_t deletions = 0;  // Of single keys.
  // A newer value or deletion of their user key hides them. Deletions can be
  // among them. Always 0 in a table that another program wrote.
  uint64_t hidden = 0;
  // The most successive entries that are deletions or hidden.
  uint64_t longest_run = 0;
  // Not dead, but a rewrite of the table in the last level leaves none of them
  // if no snapshot needs them.
  uint64_t merge_operands = 0;
  uint64_t range_deletions = 0;

  // Returns at most how many entries are dead.
  uint64_t Dead() const {
    return std::min(entries, deletions + std::min(hidden, entries));
  }
};

// Returns the counts of a table with these properties, which may be damaged. No
// count is larger than the number of entries. They are not known if the
// properties claim no entries, because LevelDB's tables have no properties.
DeadEntries DeadEntriesOf(const PropertiesBlock& properties);

// Returns whether a field above has the property of this name.
bool IsPropertyField(std::string_view name);

// Returns the body of the properties block. Omits empty texts, and properties
// that only ingested files or partitioned indexes have. REQUIRES: no name in
// `other` is the name of a field.
std::string EncodeProperties(const PropertiesBlock& properties);

// Whether to keep properties without a field, and texts that only people read.
// Readers of the table's entries do not need them, and they would take memory
// for each open table.
enum class OtherProperties : uint8_t { kKept, kLeftOut };

// Decodes the body of a properties block. `file_name` is for messages. *result
// starts from the defaults. Returns Corruption if the body is not a block, if
// its names are out of order, or if the value of a field is invalid.
Status DecodeProperties(const Slice& block_body, const std::string& file_name,
                        PropertiesBlock* result,
                        OtherProperties others = OtherProperties::kKept);

}  // namespace varve
