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

// Brings range deletions of memtables and tables together into one set.
// Thread-safety: owned by one thread; takes no lock of the DB.
class RangeTombstoneCollector {
 public:
  // `comparator` must outlive the set that is built.
  explicit RangeTombstoneCollector(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}
  RangeTombstoneCollector(const RangeTombstoneCollector&) = delete;
  RangeTombstoneCollector& operator=(const RangeTombstoneCollector&) = delete;

  // Adds all deletions that the memtable has now.
  void AddMemTable(const MemTable& memtable);
  // Adds a table's deletions, clipped to the key range that the MANIFEST gives
  // it. Outside of that range a deletion could hide keys whose sequence numbers
  // a compaction has dropped. Opens the table unless it is known to have none.
  Status AddFile(TableCache* table_cache, const FileMetaData& file);

  // Null if there are none. The collector is then empty.
  std::shared_ptr<const RangeTombstoneSet> Build();

 private:
  const InternalKeyComparator& comparator_;
  std::vector<RangeTombstone> list_;
  // What the keys in the list belong to.
  RangeTombstoneMemTable::SetList sets_;
  std::vector<std::shared_ptr<Table>> tables_;
  std::deque<std::string> bounds_;
};

}  // namespace varve
