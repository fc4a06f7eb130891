// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/version/version_edit.h"
#include "table/block/range_tombstones.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// Brings range deletions of memtables and tables together into one set.
// Thread-safety: owned by one thread; takes no lock of the DB.
class TombstoneCollector {
 public:
  // `comparator` must outlive the set that is built.
  explicit TombstoneCollector(const InternalKeyComparator* comparator)
      : comparator_(*comparator) {}
  TombstoneCollector(const TombstoneCollector&) = delete;
  TombstoneCollector& operator=(const TombstoneCollector&) = delete;

  // The memtable's, all that there are now.
  void AddMemTable(const MemTable& memtable);
  // The table's as they are.
  void AddTable(std::shared_ptr<Table> table);
  // Those of a table of the database, clipped to the keys that the MANIFEST
  // gives to it: beyond them they may meet keys of which compaction has
  // dropped the sequence numbers. The table is opened unless it is known to
  // have none.
  Status AddFile(TableCache* table_cache, const FileMetaData& file);

  // Null if there are none. The collector is then empty.
  std::shared_ptr<const RangeTombstones> Build();

 private:
  const InternalKeyComparator& comparator_;
  std::vector<RangeTombstone> list_;
  // What the keys in the list belong to.
  MemTableTombstones::SetList sets_;
  std::vector<std::shared_ptr<Table>> tables_;
  std::deque<std::string> bounds_;
};

}  // namespace varve
