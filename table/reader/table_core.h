// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of an open table that lookups, iterators and verification share.
// The table opener creates them.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/block/range_tombstone_set.h"
#include "table/block/table_options.h"
#include "table/cache/block_cache.h"
#include "table/cache/block_loader.h"
#include "table/index/bloom_filter.h"
#include "table/index/partitioned_filter.h"
#include "table/index/table_index.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

class TableParts;

// The blocks that LoadDeferred reads.
struct DeferredBlocks {
  std::optional<BlockHandle> dictionary;
  std::optional<BlockHandle> filter;
  std::string filter_name;  // In the metaindex.
};

// Thread-safety: immutable once opened and loaded, except for the cache. While
// `deferred` is not null, there are no index, filter and dictionary.
// LoadDeferred sets them, and no other thread may access them before it ends.
struct TableCore {
  TableCore();
  TableCore(const TableCore&) = delete;
  TableCore& operator=(const TableCore&) = delete;
  // Removes the table's blocks from the cache.
  ~TableCore();

  // Reads data block i from the cache or the file. `readahead` may be null. If
  // the cache does not admit the block, only its body is read, and *block stays
  // empty. With a null `body`, the block is built anyway. Errors: also those of
  // MayReadFile.
  Status ReadDataBlock(const ReadOptions& read_options, size_t i,
                       ReadaheadBuffer* readahead, BlockRef* block,
                       FileBody* body) const;

  // Lets `filter`, which was just read, answer for what it has: whole keys,
  // prefixes that `extractor` gives, or both. `extractor` may be null.
  void DivideFilter(std::shared_ptr<const SliceTransform> extractor,
                    bool has_whole_keys);
  // Returns whether prefix_filter has the prefixes that `extractor` gives.
  bool HasPrefixesOf(const SliceTransform& extractor) const;

  // The steps of ReadDataBlock, for callers that read the bytes themselves.
  // WillKeep records a miss in the cache and returns whether the block will be
  // cached. Keep inserts it.
  bool FindCached(size_t i, BlockRef* block) const;
  bool WillKeep(const ReadOptions& read_options, size_t i) const;
  BlockBuildOptions BuildOptions(bool keep) const;
  void Keep(size_t i, BlockRef* block) const;

  // Accounts for the table's memory. Called after each change of it.
  void AccountMemory();
  // Returns the bytes that are accounted for. Thread-safe.
  size_t accounted_bytes() const {
    // relaxed: a number for reports and charges. Nothing is read through it.
    return accounted_bytes_.load(std::memory_order_relaxed);
  }

  TableReaderOptions options;
  // The parts of a table have those of the table; the loader without ownership.
  std::shared_ptr<RandomAccessFile> file;
  Footer footer;
  std::shared_ptr<BlockLoader> loader;
  bool names_meta_blocks = false;  // The metaindex lists them.
  PropertiesBlock properties;
  // Replaces the sequence numbers of all keys, if not 0.
  SequenceNumber global_sequence = 0;
  TableIndex index;
  // Null if there are none. Not clipped to the table's key range in the
  // MANIFEST.
  std::shared_ptr<const RangeTombstoneSet> tombstones;
  BlockContents filter_contents;
  // Answers "maybe" if keys must not be queried.
  FilterReader filter;
  // The same filter, for prefixes, and the function that made them. Null if no
  // prefixes can be queried.
  FilterReader prefix_filter;
  std::shared_ptr<const SliceTransform> prefix_extractor;
  uint64_t cache_id = 0;  // The table's number in the block cache.
  // Null if nothing remains to be loaded.
  std::unique_ptr<DeferredBlocks> deferred;
  // Null unless `filter` is partitioned.
  std::unique_ptr<PartitionedFilter> filter_partitions;
  // Null unless partitions are loaded one by one. Then `index` is empty.
  std::unique_ptr<TableParts> parts;

 private:
  size_t ApproximateMemoryUsage() const;
  BlockPlace PlaceOf(size_t i) const {
    return {&index.slot(i), cache_id, &index, i, index.last_miss(i)};
  }

  MemoryAccount* account_ = nullptr;
  std::atomic<size_t> accounted_bytes_{0};
};

}  // namespace varve
