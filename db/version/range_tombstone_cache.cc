// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/range_tombstone_cache.h"

#include <utility>

#include "db/version/range_tombstone_collector.h"

namespace varve {

namespace {

Status FillSets(const InternalKeyComparator* comparator,
                TableCache* table_cache, const ReadOptions& options,
                const LevelFiles& levels, VersionRangeTombstones* sets) {
  UnreadTables unread;
  RangeTombstoneCollector collector(comparator);
  for (size_t level = 0; level < levels.size(); ++level) {
    for (const FileMetaData* file : levels[level]) {
      Status status = collector.AddFile(table_cache, *file, &options);
      if (status.IsCorruption() || status.IsNotSupported()) {
        unread.emplace(file->number, std::move(status));
      } else if (!status.ok()) {
        return status;
      }
      if (level > 0) continue;
      sets->level0.push_back(collector.Build());
      if (sets->level0.back() != nullptr) sets->empty = false;
    }
    sets->levels[level] = collector.Build();
    if (sets->levels[level] != nullptr) sets->empty = false;
  }
  if (!unread.empty()) {
    sets->unread = std::make_shared<const UnreadTables>(std::move(unread));
    sets->empty = false;
  }
  return Status();
}

}  // namespace

RangeTombstoneCache::~RangeTombstoneCache() {
  // relaxed: no other thread has the version any more.
  delete sets_.load(std::memory_order_relaxed);
}

Status RangeTombstoneCache::Find(
    const InternalKeyComparator* comparator, TableCache* table_cache,
    const ReadOptions& options, const LevelFiles& levels,
    std::shared_ptr<const VersionRangeTombstones>* sets) {
  sets->reset();
  // acquire pairs with the release below.
  const VersionRangeTombstones* known = sets_.load(std::memory_order_acquire);
  if (known == nullptr) {
    auto found = std::make_unique<VersionRangeTombstones>();
    Status status =
        FillSets(comparator, table_cache, options, levels, found.get());
    if (!status.ok()) return status;
    if (found->unread != nullptr) {
      // Not kept, because the damage may be repaired by the next call.
      *sets = std::move(found);
      return status;
    }
    // release pairs with the acquire above. acquire pairs with the release of
    // another thread, whose result `known` gets on failure.
    if (sets_.compare_exchange_strong(known, found.get(),
                                      std::memory_order_release,
                                      std::memory_order_acquire)) {
      known = found.release();
    }
  }
  // The version owns them.
  if (!known->empty) *sets = {std::shared_ptr<void>(), known};
  return Status();
}

}  // namespace varve
