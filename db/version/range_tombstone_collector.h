// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/version/version_edit.h"
#include "table/block/range_tombstone_set.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// Collects the range deletions of memtables and tables in one set.
//
// Thread-safety: owned by one thread. Takes no lock of the DB.
class RangeTombstoneCollector {
 public:
  // `comparator` must outlive the built set.
  explicit RangeTombstoneCollector(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}
  RangeTombstoneCollector(const RangeTombstoneCollector&) = delete;
  RangeTombstoneCollector& operator=(const RangeTombstoneCollector&) = delete;

  // Adds the range deletions that the memtable has at this moment.
  void AddMemTable(const MemTable& memtable);
  // Adds a table's range deletions, clipped to the table's keys in the
  // MANIFEST. Outside these, there may be newer keys whose sequence numbers a
  // compaction has dropped. Opens the table unless it is known to have no range
  // deletions. `limits` is as in TableCache::FindDescription.
  Status AddFile(TableCache* table_cache, const FileMetaData& file,
                 const ReadOptions* limits = nullptr);

  // Returns the set, or null if there are no range deletions. The collector is
  // empty afterwards.
  std::shared_ptr<const RangeTombstoneSet> Build();

 private:
  const InternalKeyComparator& comparator_;
  std::vector<RangeTombstone> list_;
  // Keep the memory of the keys in list_ alive.
  RangeTombstoneMemTable::SetList sets_;
  std::vector<std::shared_ptr<Table>> tables_;
  std::deque<std::string> bounds_;
};

}  // namespace varve
