// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The facts that a table file has of itself, and collectors, by which a program
// adds facts of its own. The names are RocksDB's, on disk, too.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The names and values that collectors add. Values are any bytes.
using UserCollectedProperties = std::map<std::string, std::string>;

// The properties of a table. Sizes are in bytes, times in seconds since 1970.
// Numbers are 0 and texts empty if the file does not have them.
struct VARVE_USES_CONTAINERS TableProperties {
  uint64_t orig_file_number = 0;      // The file's number when it was written.
  uint64_t data_size = 0;             // Of all data blocks, as stored.
  uint64_t index_size = 0;            // With all partitions.
  uint64_t index_partitions = 0;      // 0 if the index has none.
  uint64_t top_level_index_size = 0;  // Of a partitioned index.
  uint64_t index_key_is_user_key = 0;
  uint64_t index_value_is_delta_encoded = 0;
  uint64_t filter_size = 0;
  uint64_t raw_key_size = 0;  // Of all keys, each with its 8-byte trailer.
  uint64_t raw_value_size = 0;
  uint64_t num_data_blocks = 0;
  uint64_t num_entries = 0;  // Of all types.
  uint64_t num_filter_entries = 0;
  uint64_t num_deletions = 0;  // Of all types of deletions.
  uint64_t num_merge_operands = 0;
  uint64_t num_range_deletions = 0;
  uint64_t format_version = 0;
  uint64_t fixed_key_len = 0;
  uint64_t column_family_id = 0;
  uint64_t creation_time = 0;    // When the oldest data left a memtable.
  uint64_t oldest_key_time = 0;  // At most the time of the oldest key.
  uint64_t file_creation_time = 0;
  uint64_t external_sst_file_global_seqno_offset = 0;

  std::string db_id;                      // The writing database's IDENTITY.
  std::string db_session_id;              // Of that database's Open.
  std::string db_host_id;                 // Varve writes none.
  std::string column_family_name;         // Empty: unknown.
  std::string filter_policy_name;         // Made the filter.
  std::string comparator_name;            // Orders the keys.
  std::string merge_operator_name;        // Applies the operands.
  std::string prefix_extractor_name;      // "nullptr" for none.
  std::string property_collectors_names;  // As "[a,b]".
  std::string compression_name;           // As "Snappy".
  std::string compression_options;        // As RocksDB writes them.

  // All properties without a field above.
  UserCollectedProperties user_collected_properties;
  // The texts of collectors for people; only in events about new tables.
  UserCollectedProperties readable_properties;

  // Returns all as one line: "name" kv_delim "value" prop_delim and so on.
  VARVE_EXPORT std::string ToString(const std::string& prop_delim = "; ",
                                    const std::string& kv_delim = "=") const;
};

// The tables' properties by file name.
using TablePropertiesCollection =
    std::unordered_map<std::string, std::shared_ptr<const TableProperties>>;

// The kinds of entries that a collector is told of.
enum class EntryType : uint8_t {
  kEntryPut,
  kEntryDelete,
  kEntrySingleDelete,
  kEntryMerge,
  kEntryRangeDeletion,
  kEntryOther,
};

// Sees each entry of one new table, and adds properties to it. Used by one
// thread at a time. An error or an exception does not fail the table; LOG
// tells of it, and the collector's properties are left out.
class VARVE_EXPORT TablePropertiesCollector {
 public:
  virtual ~TablePropertiesCollector() = default;

  // Called once for each entry, in the table's order. The slices are valid
  // during the call. `file_size` is the size of what was written so far.
  virtual Status AddUserKey(const Slice& key, const Slice& value,
                            EntryType type, uint64_t sequence,
                            uint64_t file_size) = 0;
  // Called at the end of a data block, with its size before compression.
  virtual void BlockAdd(uint64_t /*block_uncomp_bytes*/,
                        uint64_t /*block_compressed_bytes_fast*/,
                        uint64_t /*block_compressed_bytes_slow*/) {}
  // Called once after the last entry. Adds to *properties what the file keeps.
  virtual Status Finish(UserCollectedProperties* properties) = 0;
  // Returns what events show to people.
  virtual UserCollectedProperties GetReadableProperties() const = 0;
  virtual const char* Name() const = 0;
  // Called after Finish. True marks the table for compaction.
  virtual bool NeedCompact() const { return false; }
};

// Creates a collector for each table that a flush, a compaction or an
// SstFileWriter writes. Called by many threads.
class VARVE_EXPORT TablePropertiesCollectorFactory {
 public:
  struct Context {
    static constexpr uint32_t kUnknownColumnFamily = UINT32_MAX;
    static constexpr int kUnknownLevelAtCreation = -1;
    uint32_t column_family_id = kUnknownColumnFamily;
    int level_at_creation = kUnknownLevelAtCreation;
    int num_levels = -1;
  };

  virtual ~TablePropertiesCollectorFactory() = default;
  // The caller owns the result. Null: none for this table.
  virtual TablePropertiesCollector* CreateTablePropertiesCollector(
      Context context) = 0;
  virtual const char* Name() const = 0;
};

// Returns a factory whose collectors mark a table for compaction if a window
// of `sliding_window_size` successive entries has at least `deletion_trigger`
// deletions, or if the share of deletions in the whole table is at least
// `deletion_ratio`. Range deletions do not count. A window of 0 turns the first
// rule off, and a ratio outside of (0, 1] the second.
VARVE_EXPORT std::shared_ptr<TablePropertiesCollectorFactory>
NewCompactOnDeletionCollectorFactory(size_t sliding_window_size,
                                     size_t deletion_trigger,
                                     double deletion_ratio = 0);

}  // namespace varve
