// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "util/bytes/checksum.h"
#include "varve/compression_type.h"
#include "varve/env.h"
#include "varve/filter_policy.h"
#include "varve/options.h"

namespace varve {

class BlockCache;
class StatisticsImpl;

// What a table builder needs to know of the options.
struct TableBuilderOptions {
  const InternalKeyComparator* comparator = nullptr;  // Must outlive it.
  size_t block_size = 4096;
  int block_restart_interval = 16;
  CompressionType compression = CompressionType::kSnappy;
  int compression_level = 0;
  ChecksumType checksum = ChecksumType::kXxh3;
  std::shared_ptr<const FilterPolicy> filter_policy;
  // For the properties.
  std::string db_identity;
  std::string session_identity;
  uint64_t file_number = 0;
  // Of the oldest data, and of the file.
  uint64_t creation_time_s = 0;
  uint64_t file_creation_time_s = 0;
  StatisticsImpl* statistics = nullptr;  // May be null.
};

// What opening a table needs to know beside the file itself.
struct TableReaderOptions {
  const InternalKeyComparator* comparator = nullptr;  // Must outlive it.
  std::shared_ptr<const FilterPolicy> filter_policy;
  BlockCache* block_cache = nullptr;     // May be null. Must outlive the table.
  StatisticsImpl* statistics = nullptr;  // May be null.
  Logger* info_log = nullptr;            // May be null.
  // Where reads of many blocks go together; null: one by one. The table
  // cache's.
  Env* env = nullptr;
  // Ablation block_index=binary_search.
  bool binary_search = false;
  // Ablation table_open=uncached: each part of the metadata by a read of its
  // own.
  bool separate_reads = false;
  // For who shows them.
  OtherProperties other_properties = OtherProperties::kLeftOut;
  // For messages.
  std::string file_name;
  uint64_t file_size = 0;
  // Of the file, what stands behind the data blocks; 0 if unknown.
  uint64_t tail_size = 0;
  // Of ingested files: the sequence number of all their keys, unless the
  // file's own properties give one. The MANIFEST's largest_seqno.
  SequenceNumber manifest_largest_sequence = 0;
};

}  // namespace varve
