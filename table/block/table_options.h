// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "util/bytes/checksum.h"
#include "varve/compression_type.h"
#include "varve/env.h"
#include "varve/filter_policy.h"
#include "varve/options.h"
#include "varve/slice_transform.h"
#include "varve/table_properties.h"

namespace varve {

class BlockCache;
class PartCache;
class StatisticsImpl;

// The options of a table builder.
struct TableBuilderOptions {
  const InternalKeyComparator* comparator = nullptr;  // Must outlive it.
  size_t block_size = 4096;
  int block_restart_interval = 16;
  CompressionType compression = DefaultCompression();
  int compression_level = 0;
  ChecksumType checksum = ChecksumType::kXxh3;
  std::shared_ptr<const FilterPolicy> filter_policy;
  // Cut the index into partitions of about that many bytes, and with
  // `partition_filters` the filter at the same keys. Filters of the user's own
  // policies stay whole.
  bool partitioned_index = false;
  bool partition_filters = false;
  uint64_t metadata_block_size = 4096;
  // Filters have the prefixes of keys too, or with a prefix_extractor and
  // without whole_key_filtering only them.
  std::shared_ptr<const SliceTransform> prefix_extractor;  // May be null.
  bool whole_key_filtering = true;
  // Written to the properties.
  std::string db_identity;
  std::string session_identity;
  uint32_t column_family_id = 0;
  std::string column_family_name = "default";
  std::string merge_operator_name = "nullptr";  // RocksDB's word for none.
  uint64_t file_number = 0;
  // Creation times of the oldest data and of the file.
  uint64_t creation_time_s = 0;
  uint64_t file_creation_time_s = 0;
  StatisticsImpl* statistics = nullptr;  // May be null.
  // See TablePropertiesCollectorFactory::Context.
  std::vector<std::shared_ptr<TablePropertiesCollectorFactory>>
      collector_factories;
  int level_at_creation = -1;
  int num_levels = -1;
  Logger* info_log = nullptr;  // May be null.
};

// When the index, the filter and the compression dictionary of a table are
// loaded.
enum class IndexLoading : uint8_t {
  kAtOpen,
  // At first use, if they are large. Otherwise at open.
  kAtFirstUse,
  // As kAtFirstUse, but the checksum of an index that is not loaded is verified
  // at open.
  kVerifiedAtFirstUse,
};

// The options of opening a table, besides the file itself.
struct TableReaderOptions {
  const InternalKeyComparator* comparator = nullptr;  // Must outlive it.
  std::shared_ptr<const FilterPolicy> filter_policy;
  // Asks the prefixes in filters of tables that were written with a function of
  // its name. May be null.
  std::shared_ptr<const SliceTransform> prefix_extractor;
  BlockCache* block_cache = nullptr;  // May be null. Must outlive the table.
  // If not null, tables with a partitioned index have parts, which are kept
  // there (table/reader/table_parts.h).
  std::shared_ptr<PartCache> part_cache;
  StatisticsImpl* statistics = nullptr;  // May be null.
  Logger* info_log = nullptr;            // May be null.
  // The Env that reads many blocks together; null reads them one by one. Set by
  // the table cache.
  Env* env = nullptr;
  // Ablation block_index=binary_search.
  bool binary_search = false;
  // Ablation table_open=uncached: reads each part of the metadata separately.
  bool separate_reads = false;
  IndexLoading index_loading = IndexLoading::kAtOpen;
  // A table with more bytes of index, filter and dictionary may load them at
  // first use. With fewer, one read of them all costs no more than a second
  // read later.
  uint64_t min_deferred_bytes = uint64_t{64} << 10;
  // Whether to keep all properties, for callers that show them.
  OtherProperties other_properties = OtherProperties::kLeftOut;
  // For messages.
  std::string file_name;
  uint64_t file_size = 0;
  // Bytes of the file after the data blocks; 0 if unknown.
  uint64_t tail_size = 0;
  // For ingested files: the sequence number of all keys, unless the file's own
  // properties give one. It is the MANIFEST's largest_seqno.
  SequenceNumber manifest_largest_sequence = 0;
};

}  // namespace varve
