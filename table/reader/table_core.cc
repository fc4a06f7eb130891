// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_core.h"

#include <cstring>

#include "monitoring/measured_operation.h"
#include "table/reader/read_limits.h"
#include "table/reader/table_parts.h"

namespace varve {

TableCore::TableCore() = default;

void TableCore::AccountMemory() {
  const size_t bytes = ApproximateMemoryUsage();
  if (account_ != nullptr) {
    NoteFreed(account_, MemoryKind::kIndexAndFilter, accounted_bytes());
  }
  account_ = NoteAllocated(MemoryKind::kIndexAndFilter, bytes);
  // relaxed: see accounted_bytes().
  accounted_bytes_.store(bytes, std::memory_order_relaxed);
}

TableCore::~TableCore() {
  if (account_ != nullptr) {
    NoteFreed(account_, MemoryKind::kIndexAndFilter, accounted_bytes());
  }
  if (options.block_cache != nullptr && cache_id != 0) {
    options.block_cache->EraseTable(cache_id, index.nodes());
  }
}

void TableCore::DivideFilter(std::shared_ptr<const SliceTransform> extractor,
                             bool has_whole_keys) {
  prefix_extractor = std::move(extractor);
  if (prefix_extractor != nullptr) prefix_filter = filter;
  if (has_whole_keys) return;
  filter = FilterReader();
  if (prefix_extractor != nullptr && prefix_filter.asks_whole_keys()) {
    filter.Init(prefix_extractor.get(), &prefix_filter);
  }
}

bool TableCore::HasPrefixesOf(const SliceTransform& extractor) const {
  return prefix_extractor.get() == &extractor ||
         (prefix_extractor != nullptr &&
          strcmp(prefix_extractor->Name(), extractor.Name()) == 0);
}

bool TableCore::FindCached(size_t i, BlockRef* block) const {
  block->Reset();
  if (options.block_cache == nullptr) return false;
  *block = options.block_cache->Lookup(PlaceOf(i));
  if (!*block) return false;
  RecordTick(options.statistics, Ticker::kBlockCacheHit);
  if (PerfCounts()) [[unlikely]]
    ++GetPerfContext()->block_cache_hit_count;
  return true;
}

bool TableCore::WillKeep(const ReadOptions& read_options, size_t i) const {
  BlockCache* const cache = options.block_cache;
  if (cache == nullptr) return false;
  RecordTick(options.statistics, Ticker::kBlockCacheMiss);
  return read_options.fill_cache && cache->Admit(PlaceOf(i));
}

BlockBuildOptions TableCore::BuildOptions(bool keep) const {
  BlockBuildOptions build_options;
  build_options.global_sequence = global_sequence;
  build_options.bytewise = index.has_prefixes();
  build_options.huge_pages = keep && options.block_cache->huge_pages();
  build_options.fingerprints = index.has_prefixes() && keep;
  return build_options;
}

void TableCore::Keep(size_t i, BlockRef* block) const {
  *block = options.block_cache->Insert(PlaceOf(i), std::move(*block));
  RecordTick(options.statistics, Ticker::kBlockCacheAdd);
  RecordTick(options.statistics, Ticker::kBlockCacheBytesWrite,
             (*block)->ApproximateMemoryUsage());
}

Status TableCore::ReadDataBlock(const ReadOptions& read_options, size_t i,
                                ReadaheadBuffer* readahead, BlockRef* block,
                                FileBody* body) const {
  if (FindCached(i, block)) return Status();
  Status s = MayReadFile(read_options, options.env);
  if (!s.ok()) [[unlikely]]
    return s;
  const BlockHandle& handle = index.handle(i);
  const bool keep = WillKeep(read_options, i);
  if (!keep && body != nullptr) {
    return loader->ReadDataBody(handle, read_options.verify_checksums,
                                readahead, body);
  }
  s = loader->ReadDataBlock(handle, read_options.verify_checksums,
                            BuildOptions(keep), readahead, block);
  if (s.ok() && keep) Keep(i, block);
  return s;
}

size_t TableCore::ApproximateMemoryUsage() const {
  size_t bytes = sizeof(*this) + index.ApproximateMemoryUsage() +
                 filter_contents.buffer.capacity();
  if (filter_partitions != nullptr) {
    bytes += filter_partitions->ApproximateMemoryUsage();
  }
  if (parts != nullptr) bytes += parts->ApproximateMemoryUsage();
  if (tombstones != nullptr) bytes += tombstones->ApproximateMemoryUsage();
  for (const auto& [name, value] : properties.other) {
    bytes += 2 * sizeof(name) + name.capacity() + value.capacity();
  }
  return bytes;
}

}  // namespace varve
