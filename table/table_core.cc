// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/table_core.h"

#include "monitoring/statistics.h"

namespace varve {

TableCore::~TableCore() {
  if (options.block_cache != nullptr && cache_id != 0) {
    options.block_cache->EraseTable(cache_id);
  }
}

Status TableCore::ReadDataBlock(const ReadOptions& read_options,
                                const BlockHandle& handle,
                                ReadaheadBuffer* readahead,
                                BlockRef* block) const {
  BlockCache* const cache = options.block_cache;
  if (cache != nullptr) {
    *block = cache->Lookup(cache_id, handle.offset);
    if (*block) {
      RecordTick(options.statistics, Ticker::kBlockCacheHit, 1);
      return Status();
    }
    RecordTick(options.statistics, Ticker::kBlockCacheMiss, 1);
  }
  std::unique_ptr<Block> loaded;
  Status s = loader->ReadDataBlock(handle, read_options.verify_checksums,
                                   readahead, &loaded);
  if (!s.ok()) return s;
  if (cache == nullptr || !read_options.fill_cache) {
    *block = BlockRef(std::move(loaded));
    return s;
  }
  *block = cache->Insert(cache_id, handle.offset, std::move(loaded));
  RecordTick(options.statistics, Ticker::kBlockCacheAdd, 1);
  return s;
}

size_t TableCore::ApproximateMemoryUsage() const {
  size_t bytes = sizeof(*this) + index.ApproximateMemoryUsage() +
                 filter_contents.allocated_bytes;
  for (const auto& [name, handle] : meta_blocks) {
    bytes += sizeof(name) + name.capacity() + sizeof(handle);
  }
  for (const auto& [name, value] : properties.other) {
    bytes += 2 * sizeof(name) + name.capacity() + value.capacity();
  }
  return bytes;
}

}  // namespace varve
