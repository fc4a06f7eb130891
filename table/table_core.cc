// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/table_core.h"

#include "monitoring/measured_operation.h"

namespace varve {

TableCore::~TableCore() {
  if (options.block_cache != nullptr && cache_id != 0) {
    options.block_cache->EraseTable(cache_id, index.nodes());
  }
}

Status TableCore::ReadDataBlock(const ReadOptions& read_options, size_t i,
                                ReadaheadBuffer* readahead, BlockRef* block,
                                FileBody* body) const {
  BlockCache* const cache = options.block_cache;
  const BlockHandle& handle = index.handle(i);
  const BlockPlace place{&index.slot(i), cache_id, &handle, index.last_miss(i)};
  block->Reset();
  if (cache != nullptr) {
    *block = cache->Lookup(place);
    if (*block) {
      RecordTick(options.statistics, Ticker::kBlockCacheHit);
      if (PerfCounts()) [[unlikely]]
        ++GetPerfContext()->block_cache_hit_count;
      return Status();
    }
    RecordTick(options.statistics, Ticker::kBlockCacheMiss);
  }
  const bool keep =
      cache != nullptr && read_options.fill_cache && cache->Admit(place);
  if (!keep && body != nullptr) {
    return loader->ReadDataBody(handle, read_options.verify_checksums,
                                readahead, body);
  }
  BlockBuildOptions build_options;
  build_options.global_sequence = global_sequence;
  build_options.bytewise = index.has_prefixes();
  build_options.huge_pages = keep && cache->huge_pages();
  build_options.fingerprints = index.has_prefixes() && keep;
  Status s = loader->ReadDataBlock(handle, read_options.verify_checksums,
                                   build_options, readahead, block);
  if (!s.ok() || !keep) return s;
  *block = cache->Insert(place, std::move(*block));
  RecordTick(options.statistics, Ticker::kBlockCacheAdd);
  RecordTick(options.statistics, Ticker::kBlockCacheBytesWrite,
             (*block)->ApproximateMemoryUsage());
  return s;
}

size_t TableCore::ApproximateMemoryUsage() const {
  size_t bytes = sizeof(*this) + index.ApproximateMemoryUsage() +
                 filter_contents.allocated_bytes;
  if (tombstones != nullptr) bytes += tombstones->ApproximateMemoryUsage();
  for (const auto& [name, handle] : meta_blocks) {
    bytes += sizeof(name) + name.capacity() + sizeof(handle);
  }
  for (const auto& [name, value] : properties.other) {
    bytes += 2 * sizeof(name) + name.capacity() + value.capacity();
  }
  return bytes;
}

}  // namespace varve
