// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A partitioned filter: many filters, each for a range of a table's keys. Only
// RocksDB writes it (`partition_filters`). Its block in the metaindex has the
// form of an index block, whose entries have a separator at or after all keys
// of a partition, and the handle of the partition.
//
// All partitions are kept in memory, side by side in lines of the processor's
// cache. A query searches the separators, so it costs more than a query of one
// filter. Ranges of the filter and of a partitioned index are independent.
//
// Thread-safety: immutable once the partitions are added.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/block/block.h"
#include "table/block/format.h"
#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "table/index/bloom_filter.h"
#include "table/index/table_index.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class PartitionedFilter {
 public:
  PartitionedFilter() = default;
  PartitionedFilter(const PartitionedFilter&) = delete;
  PartitionedFilter& operator=(const PartitionedFilter&) = delete;

  // Decodes the body of the block that names the partitions, and takes it over.
  // Corruption does not name the file. It is also returned if separators are
  // out of order, because keys would then be searched in the wrong partition.
  // REQUIRES: called once.
  Status Init(BlockContents body, const PropertiesBlock& properties,
              uint64_t file_size, const InternalKeyComparator* comparator);

  // Returns the number of partitions.
  size_t size() const { return separators_.size(); }
  // Partitions do not exceed the file's size, one by one and together.
  BlockHandle handle(size_t i) const { return separators_.handle(i); }

  // Adds the next partition, whose body is copied. A partition that is damaged
  // answers "maybe" for all of its keys. REQUIRES: the body is not larger than
  // its handle says; called at most size() times in all.
  void Add(const Slice& body);
  void AddDamaged() { filters_.emplace_back(); }

  // Returns false if the table does not contain the user key, whose PreviewXxh3
  // is `hash`. Returns true for keys after the last separator: no partition was
  // built for them. REQUIRES: all partitions are added.
  bool MayMatch(uint64_t hash, const Slice& user_key) const;

  // The same for a prefix of keys. Asks all partitions that may have keys that
  // begin with it.
  bool PrefixMayMatch(uint64_t hash, const Slice& prefix) const;

  // Returns whether MayMatch can exclude keys.
  bool CanExclude() const;

  size_t ApproximateMemoryUsage() const;

 private:
  struct alignas(64) Line {
    char bytes[64];
  };

  // Returns the first partition whose separator is at or after all versions of
  // the user key, or size().
  size_t Find(const Slice& user_key) const;

  const InternalKeyComparator* comparator_ = nullptr;
  TableIndex separators_;
  std::vector<FilterReader> filters_;
  std::unique_ptr<Line[]> lines_;
  size_t line_count_ = 0;
  size_t used_lines_ = 0;
};

}  // namespace varve
