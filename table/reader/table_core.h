// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of an open table, which lookups, iterators and verification have
// in common. Made by the table opener.

#include <cstdint>
#include <memory>
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
#include "table/index/table_index.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: immutable once it is opened, but for the cache.
struct TableCore {
  TableCore() = default;
  TableCore(const TableCore&) = delete;
  TableCore& operator=(const TableCore&) = delete;
  // Takes the table's blocks out of the cache.
  ~TableCore();

  // Data block i, from the cache or the file. `readahead` may be null. Where
  // the cache has no place for the block, only its body is read, and *block
  // stays empty; with a null `body` the block is made then all the same.
  Status ReadDataBlock(const ReadOptions& read_options, size_t i,
                       ReadaheadBuffer* readahead, BlockRef* block,
                       FileBody* body) const;

  // Its steps, for who reads the bytes himself. A block that is missed is noted
  // by the cache, which says whether it will be kept; Keep puts it there.
  bool FindCached(size_t i, BlockRef* block) const;
  bool WillKeep(const ReadOptions& read_options, size_t i) const;
  BlockBuildOptions BuildOptions(bool keep) const;
  void Keep(size_t i, BlockRef* block) const;

  size_t ApproximateMemoryUsage() const;
  // To be called once it is whole.
  void AccountMemory();

  TableReaderOptions options;
  std::unique_ptr<RandomAccessFile> file;
  Footer footer;
  std::unique_ptr<BlockLoader> loader;
  bool names_meta_blocks = false;  // In its metaindex.
  TableProperties properties;
  // In place of the sequence numbers of all keys, if not 0.
  SequenceNumber global_sequence = 0;
  TableIndex index;
  // Null if there are none. Not clipped to what the table is in charge of.
  std::shared_ptr<const RangeTombstoneSet> tombstones;
  BlockContents filter_contents;
  // Answers "maybe" where it must not be asked about whole keys.
  FilterReader filter;
  uint64_t cache_id = 0;  // The table's number in the block cache.

 private:
  BlockPlace PlaceOf(size_t i) const {
    return {&index.slot(i), cache_id, &index.handle(i), index.last_miss(i)};
  }

  MemoryAccount* account_ = nullptr;
  size_t accounted_bytes_ = 0;
};

}  // namespace varve
