// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "db/version/version_edit.h"
#include "table/block/range_tombstone_set.h"
#include "table/reader/table_cache.h"
#include "varve/status.h"

namespace varve {

// By number, the tables that could not be asked for their range deletions, and
// why. None of their entries may be read then, even if that goes well: what
// they hide elsewhere would come back.
using UnreadTables = std::map<uint64_t, Status>;

// OK if the table is none of them; `unread` may be null.
inline Status UnreadStatus(const UnreadTables* unread, uint64_t number) {
  if (unread == nullptr) return Status();
  const auto found = unread->find(number);
  return found == unread->end() ? Status() : found->second;
}

// The range deletions of a version's tables, each clipped to its table's keys;
// null where there are none.
struct VersionRangeTombstones {
  std::vector<std::shared_ptr<const RangeTombstoneSet>>
      level0;  // For each file.
  std::shared_ptr<const RangeTombstoneSet> levels[kNumLevels];  // But level 0.
  std::shared_ptr<const UnreadTables> unread;                   // Null: none.
  bool empty = true;
};

// Finds them when they are first asked for, and keeps them: point lookups need
// none of it, and many versions are never walked.
//
// `sets_` is null until a thread stores what it found, release; who loads it,
// acquire, sees it whole. Of several that find it at once, one stores. It goes
// with the version.
// Thread-safety: thread-safe.
class RangeTombstoneCache {
 public:
  RangeTombstoneCache() = default;
  RangeTombstoneCache(const RangeTombstoneCache&) = delete;
  RangeTombstoneCache& operator=(const RangeTombstoneCache&) = delete;
  ~RangeTombstoneCache();

  // *sets is null if no table has range deletions, else valid as long as the
  // version, or if some are unread as long as it is kept. May open tables,
  // those of which nothing is known. Those that are damaged are unread, so that
  // the others can be read still.
  Status Find(const InternalKeyComparator* comparator, TableCache* table_cache,
              const std::vector<FileMetaData*>* levels,
              std::shared_ptr<const VersionRangeTombstones>* sets);

 private:
  std::atomic<const VersionRangeTombstones*> sets_{nullptr};
};

}  // namespace varve
