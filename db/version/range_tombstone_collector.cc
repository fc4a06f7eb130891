// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/range_tombstone_collector.h"

#include <utility>

namespace varve {

void RangeTombstoneCollector::AddMemTable(const MemTable& memtable) {
  for (auto& set : memtable.tombstones().Sets()) {
    for (size_t i = 0; i < set->size(); ++i) list_.push_back(set->at(i));
    sets_.push_back(std::move(set));
  }
}

Status RangeTombstoneCollector::AddFile(TableCache* table_cache,
                                        const FileMetaData& file,
                                        const ReadOptions* limits) {
  // relaxed: see CachedTableHandle.
  if (file.table.without_tombstones.load(std::memory_order_relaxed)) {
    return Status();
  }
  std::shared_ptr<Table> table;
  Status status =
      table_cache->FindDescription(file.table_file(), &table, limits);
  if (!status.ok()) return status;
  const RangeTombstoneSet* const set = table->tombstones();
  if (set == nullptr) {
    // relaxed: see CachedTableHandle.
    file.table.without_tombstones.store(true, std::memory_order_relaxed);
    return status;
  }
  const Slice lower(bounds_.emplace_back(file.smallest_user_key().ToString()));
  // If the largest key is the table's own, a deletion may cover it only if
  // another program split the versions of that key between tables.
  std::string& end = bounds_.emplace_back(file.largest_user_key().ToString());
  if (!file.EndIsExclusive()) end.push_back('\0');
  const Slice upper(end);
  // Other orders have no known next key to clip at. Their deletions are not
  // clipped at the end.
  const bool has_upper = file.EndIsExclusive() || comparator_.bytewise();
  for (size_t i = 0; i < set->size(); ++i) {
    RangeTombstone tombstone = set->at(i);
    if (ClipRangeTombstone(comparator_, &lower, has_upper ? &upper : nullptr,
                           &tombstone)) {
      list_.push_back(tombstone);
    }
  }
  tables_.push_back(std::move(table));
  return status;
}

std::shared_ptr<const RangeTombstoneSet> RangeTombstoneCollector::Build() {
  auto result = RangeTombstoneSet::Build(&comparator_, list_);
  list_.clear();
  sets_.clear();
  tables_.clear();
  bounds_.clear();
  return result;
}

}  // namespace varve
